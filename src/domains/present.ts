/** A domain as JSON: the wire names, the same for the HTTP API, `--json` and webhooks. */
import { describeTrip } from '../core/guard.ts';
import type { StoredDomain } from '../store/domains.ts';
import type { Advice } from './advice.ts';
import type { CheckedRecord } from './records.ts';

export function presentDomain(domain: StoredDomain) {
  return {
    object: 'domain' as const,
    id: domain.id,
    name: domain.name,
    status: domain.status,
    environment: domain.environment,
    tls: domain.tls,
    created_at: domain.createdAt.toISOString(),
    verified_at: domain.verifiedAt?.toISOString() ?? null,
    checked_at: domain.checkedAt?.toISOString() ?? null,
    records: (domain.records as CheckedRecord[]).map(presentRecord),
    advice: [...(domain.advice as Advice[]), ...domain.trips.map(warning)],
  };
}

/** For people who read JSON: the database keeps fields in an order of its own. */
function presentRecord(stored: CheckedRecord): CheckedRecord {
  const { record, type, name, value, ttl, priority, required, status, found, problem } = stored;
  const onlyOfMx = priority === undefined ? {} : { priority };
  return { record, type, name, value, ttl, ...onlyOfMx, required, status, found, problem };
}

function warning(trip: StoredDomain['trips'][number]) {
  const message = describeTrip({ ...trip, since: new Date(trip.since) });
  return { about: 'reputation' as const, message };
}
