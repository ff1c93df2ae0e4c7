/**
 * Zones at deSEC, or at a server with its API: sets of records.
 * https://desec.readthedocs.io/en/latest/dns/rrsets.html
 */
import { z } from 'zod';
import { ApiClient, jsonHeaders, jsonReader, type TokenAccess } from './api-client.ts';
import { nameInZone, type DnsZone, type StoredRecord, type ZoneApi } from './dns-provider.ts';
import { asRecordType, fromZoneFile, toZoneFile } from './record-text.ts';

const DOMAINS = z.array(z.object({ name: z.string(), minimum_ttl: z.number() }));
const SETS = z.array(z.object({ type: z.string(), ttl: z.number(), records: z.array(z.string()) }));

const ERROR = z.union([
  z.object({ detail: z.string() }),
  z.array(z.record(z.string(), z.array(z.string()))),
]);

export function desec({ token, baseUrl, world, timing }: TokenAccess): ZoneApi {
  const client = new ApiClient({
    name: 'deSEC',
    baseUrl,
    secrets: [token],
    tokenVariable: 'DESEC_TOKEN',
    rightNeeded: 'a policy that may write the records of the zone',
    headers: jsonHeaders(`Token ${token}`),
    reason: jsonReader(ERROR, sentenceOf),
    world,
    timing,
  });

  /** Replaces the set of one name and type as a whole; an empty list removes it. */
  async function replace(
    zone: DnsZone,
    { name, type, ttlS }: Pick<StoredRecord, 'name' | 'type' | 'ttlS'>,
    records: string[],
  ) {
    const set = { subname: nameInZone(name, zone, ''), type, ttl: ttlS, records };
    const body = JSON.stringify([set]);
    await client.send({ method: 'PUT', path: `/domains/${zone.id}/rrsets/`, body });
  }

  return {
    name: 'deSEC',
    async findZone(name) {
      const request = { path: '/domains/', query: { owns_qname: name } };
      const [zone] = (await client.json(request, DOMAINS)).body;
      return zone ? { id: zone.name, name: zone.name, ttlMinS: zone.minimum_ttl } : null;
    },
    async list(zone, name) {
      // The empty cursor asks for pages; without it a list of more than 500 sets is refused.
      const query = { subname: nameInZone(name, zone, ''), cursor: '' };
      const first = { path: `/domains/${zone.id}/rrsets/`, query };
      const sets = await client.pages(first, async (request) => {
        const { body, headers } = await client.json(request, SETS);
        const next = /<([^>]+)>;\s*rel="next"/.exec(headers.get('link') ?? '')?.[1];
        return { rows: body, next: next === undefined ? null : { path: next } };
      });
      return sets.flatMap((set) => {
        const type = asRecordType(set.type);
        if (type === null) return [];
        return set.records.map((raw) => {
          return { id: null, name, type, value: fromZoneFile(type, raw), ttlS: set.ttl, raw };
        });
      });
    },
    async add(zone, record, set) {
      const ttlS = set[0]?.ttlS ?? record.ttlS;
      const records = [...set.map(({ raw }) => raw), toZoneFile(record)];
      await replace(zone, { ...record, ttlS }, records);
    },
    async remove(zone, record, set) {
      const others = set.filter((one) => one !== record).map(({ raw }) => raw);
      await replace(zone, record, others);
    },
  };
}

/** deSEC returns `{"detail": "…"}`, or for each set the problems of its fields. */
function sentenceOf(error: z.infer<typeof ERROR>): string {
  if (!Array.isArray(error)) return error.detail;
  const problems = error.flatMap((one) => Object.entries(one));
  return problems.map(([field, messages]) => `${field}: ${messages.join(' ')}`).join('; ');
}
