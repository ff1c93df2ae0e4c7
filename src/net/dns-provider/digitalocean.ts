/** Zones at DigitalOcean: API v2, one object per record. https://docs.digitalocean.com/reference/api/digitalocean */
import { z } from 'zod';
import { ApiClient, jsonHeaders, jsonReader, type TokenAccess } from './api-client.ts';
import { nameInZone, possibleZones, type ZoneApi } from './dns-provider.ts';
import { asRecordType, fromZoneFile, plainName, toZoneFile } from './record-text.ts';

const ERROR = z.object({ message: z.string() });
const RECORDS = z.object({
  domain_records: z.array(
    z.object({
      id: z.number(),
      type: z.string(),
      name: z.string(),
      data: z.string().nullable(),
      priority: z.number().nullish(),
      ttl: z.number(),
    }),
  ),
  links: z.object({ pages: z.object({ next: z.string().optional() }).optional() }).optional(),
});

export function digitalOcean({ token, baseUrl, world, timing }: TokenAccess): ZoneApi {
  const client = new ApiClient({
    name: 'DigitalOcean',
    baseUrl,
    secrets: [token],
    tokenVariable: 'DIGITALOCEAN_ACCESS_TOKEN',
    rightNeeded: 'the scopes domain:read, domain:create and domain:delete',
    headers: jsonHeaders(`Bearer ${token}`),
    reason: jsonReader(ERROR, ({ message }) => message),
    world,
    timing,
  });
  return {
    name: 'DigitalOcean',
    async findZone(name) {
      for (const candidate of possibleZones(name)) {
        const { status } = await client.send({ path: `/domains/${candidate}`, expect: [404] });
        if (status !== 404) return { id: candidate, name: candidate, ttlMinS: 30 };
      }
      return null;
    },
    async list(zone, name) {
      const first = { path: `/domains/${zone.id}/records`, query: { name, per_page: '200' } };
      const rows = await client.pages(first, async (request) => {
        const { domain_records, links } = (await client.json(request, RECORDS)).body;
        const next = links?.pages?.next;
        return { rows: domain_records, next: next === undefined ? null : { path: next } };
      });
      return rows.flatMap((row) => {
        const type = asRecordType(row.type);
        const isOfName = row.name === nameInZone(name, zone);
        if (type === null || !isOfName || row.data === null) return [];
        const data = row.data === '@' ? zone.name : row.data;
        const text = type === 'MX' ? `${row.priority ?? 0} ${data}` : data;
        const value = fromZoneFile(type, text);
        return { id: String(row.id), name, type, value, ttlS: row.ttl, raw: row.data };
      });
    },
    async add(zone, { name, type, value, ttlS }) {
      const [priority, host = value] = type === 'MX' ? value.split(' ') : [];
      // A TXT is entered without quotes. A host needs the final dot, or it is below the zone.
      const data = type === 'TXT' ? value : toZoneFile({ type, value: plainName(host) });
      const record = { type, name: nameInZone(name, zone), data, ttl: ttlS };
      const body = JSON.stringify({
        ...record,
        ...(priority !== undefined && { priority: Number(priority) }),
      });
      await client.send({ method: 'POST', path: `/domains/${zone.id}/records`, body });
    },
    async remove(zone, { id }) {
      const path = `/domains/${zone.id}/records/${id}`;
      await client.send({ method: 'DELETE', path, expect: [404] });
    },
  };
}
