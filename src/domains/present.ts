/** A sending domain as the API, events and the command line show it, with the advice about it. */
import { describeAlert } from '../core/reputation-alert.ts';
import type { Advice } from './advice.ts';
import type { CheckedRecord } from './records.ts';
import { adviseKeySize } from '../mail/dkim-import.ts';
import type { StoredDomain } from '../store/domains.ts';

export function presentDomain(domain: StoredDomain) {
  return {
    object: 'domain' as const,
    id: domain.id,
    name: domain.name,
    status: domain.status,
    can_sign: !domain.isKeyUnusable,
    environment: domain.environment,
    tls: domain.tls,
    tracking: { opens: domain.trackOpens, clicks: domain.trackClicks },
    created_at: domain.createdAt.toISOString(),
    verified_at: domain.verifiedAt?.toISOString() ?? null,
    checked_at: domain.checkedAt?.toISOString() ?? null,
    failing_since: domain.failingSince?.toISOString() ?? null,
    records: (domain.records as CheckedRecord[]).map(presentRecord),
    advice: [
      ...adviseUnusable(domain),
      ...adviseKey(domain),
      ...(domain.advice as Advice[]),
      ...domain.alerts.map(warning),
    ],
  };
}

function adviseUnusable({ isKeyUnusable }: StoredDomain): { about: 'dkim'; message: string }[] {
  return isKeyUnusable ? [{ about: 'dkim', message: KEY_UNUSABLE }] : [];
}

export const KEY_UNUSABLE =
  'the secret key of this service cannot open the DKIM keys of this domain, so its mail waits unsigned: the operator ' +
  'has to restore the secret key or the stored row from a backup, or remove the domain and add it again, which fails the waiting mail';

function adviseKey({ rsaPublicKey }: StoredDomain): { about: 'dkim'; message: string }[] {
  const message = adviseKeySize(rsaPublicKey);
  return message === null ? [] : [{ about: 'dkim', message }];
}

/** Restores a fixed order of the members, which jsonb does not keep. */
function presentRecord(stored: CheckedRecord): CheckedRecord {
  const { record, type, name, value, ttl, priority, required, status, found, problem } = stored;
  const onlyOfMx = priority === undefined ? {} : { priority };
  return { record, type, name, value, ttl, ...onlyOfMx, required, status, found, problem };
}

function warning(alert: StoredDomain['alerts'][number]) {
  const message = describeAlert({ ...alert, since: new Date(alert.since) });
  return { about: 'reputation' as const, message };
}
