/** Zones at Cloudflare: API v4, one object per record. https://developers.cloudflare.com/api/resources/dns */
import { z } from 'zod';
import { ApiClient, jsonHeaders, jsonReader, type TokenAccess } from './api-client.ts';
import { possibleZones, type ZoneApi } from './dns-provider.ts';
import { asRecordType, fromZoneFile, plainName, toZoneFile } from './record-text.ts';

const ERRORS = z.object({ errors: z.array(z.object({ code: z.number(), message: z.string() })) });
const ZONES = z.object({ result: z.array(z.object({ id: z.string(), name: z.string() })) });
const RECORDS = z.object({
  result: z.array(
    z.object({
      id: z.string(),
      type: z.string(),
      name: z.string(),
      content: z.string(),
      ttl: z.number(),
      priority: z.number().optional(),
    }),
  ),
  result_info: z.object({ page: z.number(), total_pages: z.number() }).optional(),
});
const PAGE_ROWS = '100';
/** "Automatic" as a TTL, which is 300 seconds. */
const AUTOMATIC_TTL = 1;
/** A malformed or unknown token gets 400 with one of these codes. */
const TOKEN_CODES = new Set([6003, 6111, 9109, 10_000, 10_001]);

export function cloudflare({ token, baseUrl, world, timing }: TokenAccess): ZoneApi {
  const client = new ApiClient({
    name: 'Cloudflare',
    baseUrl,
    secrets: [token],
    tokenVariable: 'CLOUDFLARE_API_TOKEN',
    rightNeeded: 'the permissions Zone Read and DNS Write for the zone',
    headers: jsonHeaders(`Bearer ${token}`),
    reason: jsonReader(ERRORS, ({ errors }) => errors[0]?.message ?? null),
    kindOf: (status, text) => (status === 400 && hasTokenCode(text) === true ? 'token' : null),
    world,
    timing,
  });
  return {
    name: 'Cloudflare',
    async findZone(name) {
      for (const candidate of possibleZones(name)) {
        const request = { path: '/zones', query: { name: candidate } };
        const [zone] = (await client.json(request, ZONES)).body.result;
        if (zone !== undefined) return { id: zone.id, name: plainName(zone.name), ttlMinS: 60 };
      }
      return null;
    },
    async list(zone, name) {
      const path = `/zones/${zone.id}/dns_records`;
      const query = { name, per_page: PAGE_ROWS };
      const rows = await client.pages({ path, query }, async (request) => {
        const { result, result_info } = (await client.json(request, RECORDS)).body;
        const { page = 1, total_pages = 1 } = result_info ?? {};
        const next = { path, query: { ...query, page: String(page + 1) } };
        return { rows: result, next: page < total_pages ? next : null };
      });
      return rows.flatMap((row) => {
        const type = asRecordType(row.type);
        if (type === null) return [];
        const content = type === 'MX' ? `${row.priority ?? 0} ${row.content}` : row.content;
        const ttlS = row.ttl === AUTOMATIC_TTL ? 300 : row.ttl;
        const value = fromZoneFile(type, content);
        return { id: row.id, name: plainName(row.name), type, value, ttlS, raw: row.content };
      });
    },
    async add(zone, { name, type, value, ttlS }) {
      const [priority, host] = type === 'MX' ? value.split(' ') : [];
      const content = type === 'TXT' ? toZoneFile({ type, value }) : (host ?? value);
      const record = { type, name, content, ttl: ttlS, comment: 'Letterhaus' };
      const body = JSON.stringify({
        ...record,
        ...(priority !== undefined && { priority: Number(priority) }),
        // A proxied name would answer with addresses of Cloudflare.
        ...((type === 'A' || type === 'AAAA' || type === 'CNAME') && { proxied: false }),
      });
      await client.send({ method: 'POST', path: `/zones/${zone.id}/dns_records`, body });
    },
    async remove(zone, { id }) {
      const path = `/zones/${zone.id}/dns_records/${id}`;
      await client.send({ method: 'DELETE', path, expect: [404] });
    },
  };
}

const hasTokenCode = jsonReader(ERRORS, ({ errors }) =>
  errors.some(({ code }) => TOKEN_CODES.has(code)),
);
