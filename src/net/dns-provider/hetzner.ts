/**
 * Zones at Hetzner: the DNS of the Cloud API, with sets of records. https://docs.hetzner.cloud/reference/cloud
 * Zones of the former DNS Console have to be moved to the Hetzner Console first.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { ApiClient, jsonHeaders, jsonReader, type TokenAccess } from './api-client.ts';
import { nameInZone, possibleZones, type DnsZone, type ZoneApi } from './dns-provider.ts';
import { asRecordType, fromZoneFile, toZoneFile } from './record-text.ts';

const ERROR = z.object({ error: z.object({ code: z.string(), message: z.string() }) });
const ZONES = z.object({
  zones: z.array(z.object({ id: z.number(), name: z.string(), ttl: z.number() })),
});
const SETS = z.object({
  rrsets: z.array(
    z.object({
      type: z.string(),
      ttl: z.number().nullable(),
      records: z.array(z.object({ value: z.string() })),
    }),
  ),
  meta: z.object({ pagination: z.object({ next_page: z.number().nullable() }) }).optional(),
});
const ACTION = z.object({
  action: z.object({
    id: z.number(),
    status: z.enum(['running', 'success', 'error']),
    error: z.object({ message: z.string() }).nullish(),
  }),
});
const ACTION_LOOKS_MAX = 30;
const DEFAULT_TTL_S = 3_600;

export function hetzner({ token, baseUrl, world, timing }: TokenAccess): ZoneApi {
  const client = new ApiClient({
    name: 'Hetzner',
    baseUrl,
    secrets: [token],
    tokenVariable: 'HCLOUD_TOKEN',
    rightNeeded: 'the permission Read & Write in the project of the zone',
    headers: jsonHeaders(`Bearer ${token}`),
    reason: jsonReader(ERROR, ({ error }) => error.message),
    // A locked zone has another change in progress.
    kindOf: (status) => (status === 423 ? 'later' : null),
    world,
    timing,
  });

  /** A change is an action, which may still run when the response arrives. */
  async function change(
    zone: DnsZone,
    set: { name: string; type: string },
    { action, ...body }: { action: string; records: object[]; ttl?: number },
  ) {
    const path = `/zones/${zone.id}/rrsets/${encodeURIComponent(set.name)}/${set.type}/actions/${action}`;
    const made = { method: 'POST', path, body: JSON.stringify(body) } as const;
    let state = (await client.json(made, ACTION)).body.action;
    for (let looks = 0; state.status === 'running' && looks < ACTION_LOOKS_MAX; looks += 1) {
      await pause(timing?.waitsMs[0] ?? 1_000);
      state = (await client.json({ path: `/actions/${state.id}` }, ACTION)).body.action;
    }
    if (state.status === 'success') return;
    const reason = state.error?.message ?? 'it did not end';
    throw client.problem('refused', `Hetzner did not make the change: ${reason}.`);
  }

  return {
    name: 'Hetzner',
    async findZone(name) {
      for (const candidate of possibleZones(name)) {
        const request = { path: '/zones', query: { name: candidate } };
        const [zone] = (await client.json(request, ZONES)).body.zones;
        if (zone !== undefined) return { id: String(zone.id), name: zone.name, ttlMinS: 60 };
      }
      return null;
    },
    async list(zone, name) {
      const path = `/zones/${zone.id}/rrsets`;
      const query = { name: nameInZone(name, zone), per_page: '50' };
      const sets = await client.pages({ path, query }, async (request) => {
        const { rrsets, meta } = (await client.json(request, SETS)).body;
        const page = meta?.pagination.next_page ?? null;
        const next = page === null ? null : { path, query: { ...query, page: String(page) } };
        return { rows: rrsets, next };
      });
      return sets.flatMap((set) => {
        const type = asRecordType(set.type);
        if (type === null) return [];
        return set.records.map(({ value: raw }) => {
          const value = fromZoneFile(type, raw);
          return { id: null, name, type, value, ttlS: set.ttl ?? DEFAULT_TTL_S, raw };
        });
      });
    },
    async add(zone, record, set) {
      const records = [{ value: toZoneFile(record), comment: 'Letterhaus' }];
      // The time of an existing set stays as it is; another one would be refused.
      const ttl = set.length === 0 ? { ttl: record.ttlS } : {};
      const of = { name: nameInZone(record.name, zone), type: record.type };
      await change(zone, of, { action: 'add_records', records, ...ttl });
    },
    async remove(zone, { name, type, raw }) {
      const of = { name: nameInZone(name, zone), type };
      await change(zone, of, { action: 'remove_records', records: [{ value: raw }] });
    },
  };
}
