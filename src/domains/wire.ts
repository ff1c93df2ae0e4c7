/** Sending domains as the API and events return them, with advice. */
import { entityTagOf } from '../core/entity-tag.ts';
import { describeAlert } from '../reputation/alert.ts';
import { DAY_MS } from '../lib/units.ts';
import type { Advice } from './dns/advice.ts';
import type { CheckedRecord } from './dns/records.ts';
import { adviseKeySize } from '../mail/dkim-import.ts';
import { type OtherKeys, PREVIOUS_NEEDED_DAYS, type StoredDomain } from './domain-store.ts';

export const KEY_UNUSABLE =
  'the secret key of this service cannot open the DKIM keys of this domain, so its mail waits unsigned: the operator ' +
  'has to restore the secret key or the stored row from a backup, or replace the keys, after which the waiting mail is ' +
  'sent: letterhaus domains rotate-dkim, publish the new record, letterhaus domains verify';

export function domainToWire(domain: StoredDomain) {
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
    dkim: dkimToWire(domain),
    records: (domain.records as CheckedRecord[])
      .filter(({ key }) => key !== 'previous' || domain.isPreviousNeeded)
      .map(recordToWire),
    advice: [
      ...adviseUnusable(domain),
      ...adviseKey(domain),
      ...adviseRotation(domain),
      ...(domain.advice as Advice[]),
      ...domain.alerts.map(reputationAdvice),
    ],
    etag: tagOfDomain(domain),
  };
}

/** Changes with the settings and the keys, and not with the results of checks. */
export function tagOfDomain(domain: StoredDomain): string {
  const { id, tls, trackOpens, trackClicks, rsaSelector, nextKeys } = domain;
  const next = nextKeys?.rsaSelector ?? null;
  return entityTagOf({ id, tls, trackOpens, trackClicks, rsaSelector, next });
}

function adviseUnusable({ isKeyUnusable }: StoredDomain): { about: 'dkim'; message: string }[] {
  return isKeyUnusable ? [{ about: 'dkim', message: KEY_UNUSABLE }] : [];
}

function adviseKey({ rsaPublicKey }: StoredDomain): { about: 'dkim'; message: string }[] {
  const message = adviseKeySize(rsaPublicKey);
  return message === null ? [] : [{ about: 'dkim', message }];
}

function dkimToWire(domain: StoredDomain) {
  const { rsaSelector, dkimSince, nextKeys, previousKeys, isPreviousNeeded } = domain;
  return {
    selector: rsaSelector,
    since: dkimSince.toISOString(),
    next: nextKeys && { selector: nextKeys.rsaSelector, since: nextKeys.since },
    previous:
      previousKeys && isPreviousNeeded
        ? {
            selector: previousKeys.rsaSelector,
            until: previousKeys.since,
            keep_until: removableAt(previousKeys),
          }
        : null,
  };
}

export function removableAt({ since }: OtherKeys): string {
  return new Date(Date.parse(since) + PREVIOUS_NEEDED_DAYS * DAY_MS).toISOString();
}

function adviseRotation(domain: StoredDomain): { about: 'dkim'; message: string }[] {
  const { name, nextKeys, previousKeys, isPreviousNeeded, isDkimOld, dkimSince } = domain;
  const messages: string[] = [];
  if (nextKeys !== null) {
    messages.push(
      `new DKIM keys wait for their records: publish the one of ${nextKeys.rsaSelector}, and leave the current ones; the new keys sign as soon as a check finds it`,
    );
  } else if (isDkimOld && domain.environment === 'live') {
    messages.push(
      `the DKIM keys sign since ${dkimSince.toISOString().slice(0, 10)}; keys should be replaced after half a year: letterhaus domains rotate-dkim ${name}`,
    );
  }
  const previous = (domain.records as CheckedRecord[]).filter(({ key }) => key === 'previous');
  const [rsa] = previous;
  if (previousKeys !== null && isPreviousNeeded && rsa?.status === 'missing') {
    messages.push(
      `${rsa.name} is missing, and mail that the previous DKIM key signed may be under way: leave it published until ${removableAt(previousKeys)}`,
    );
  }
  const leftOver = previous.filter(({ status }) => status === 'verified' || status === 'mismatch');
  if (previousKeys !== null && !isPreviousNeeded && leftOver.length > 0) {
    messages.push(
      `the previous DKIM keys are not needed any more: remove ${leftOver.map((record) => record.name).join(' and ')}`,
    );
  }
  return messages.map((message) => ({ about: 'dkim', message }));
}

/** Returns the fields in a fixed order, which jsonb does not keep. */
function recordToWire(stored: CheckedRecord): CheckedRecord {
  const { record, type, name, value, ttl, priority, required, status, found, problem, key } =
    stored;
  const mxFields = priority === undefined ? {} : { priority };
  const keyFields = key === undefined ? {} : { key };
  return {
    record,
    type,
    name,
    value,
    ttl,
    ...mxFields,
    required,
    status,
    found,
    problem,
    ...keyFields,
  };
}

function reputationAdvice(alert: StoredDomain['alerts'][number]) {
  const message = describeAlert({ ...alert, since: new Date(alert.since) });
  return { about: 'reputation' as const, message };
}
