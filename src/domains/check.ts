/**
 * Checks a sending domain once. `dns/verify.ts` looks up its records. Then one transaction locks the row, decides,
 * and stores state, event and condition. No transaction is open during DNS queries.
 *
 * Guarantee: each change of status is reported once, however many checks of a domain end at the same time. A check
 * makes the domain degraded only if it began after the previous check was stored.
 */
import type { Logger } from 'pino';
import type { ConditionKey, NewCondition } from '../core/operator-events.ts';
import { failsAt } from './limits.ts';
import { adviseInbound, type Source } from './dns/advice.ts';
import { presentDomain } from './view.ts';
import {
  type CheckedRecord,
  type DomainSetup,
  type OtherKey,
  type Places,
  requiredRecords,
} from './dns/records.ts';
import {
  checkDomain,
  checkTestDomain,
  type DomainCheck,
  isNextPublished,
  nextDomainState,
  nextSigningKeys,
  withNextKeys,
} from './dns/verify.ts';
import { dkimRecordValue } from '../mail/dkim.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import { switchKeys } from './dkim-key-store.ts';
import {
  databaseNow,
  lockDomain,
  type OtherKeys,
  saveCheck,
  type StoredDomain,
} from './domain-store.ts';
import { recordEvent } from '../events/event-store.ts';
import { readInstallation } from './mail-host-store.ts';
import { clearCondition, raiseCondition } from '../operator/condition-store.ts';
import type { Database, Queryable } from '../database/database.ts';

export type CheckOptions = {
  db: Database;
  resolver: Resolver;
  /** Settings of this node. The records name all hosts of the installation (`mail-host-store.ts`). */
  config: {
    hostname: string;
    sources: readonly Source[];
    inboundPort: number | null;
  };
  /** Absent in commands, which print the result. */
  log?: Pick<Logger, 'info' | 'warn'>;
};

/**
 * Looks up the records and stores the result.
 * @returns null when the domain was deleted during the look-up
 */
export async function verifyDomain(
  options: CheckOptions,
  domain: StoredDomain,
): Promise<StoredDomain | null> {
  const found = await lookUpRecords(options, domain);
  const decided = await options.db.transaction(async (tx) => {
    const locked = await lockDomain(tx, domain, domain.id);
    if (!locked) return null;
    // The change of keys starts a check of its own.
    if (keysOf(locked) !== keysOf(domain))
      return { before: locked.status, saved: locked, event: null };
    const isLater = locked.checkedAt?.getTime() === domain.checkedAt?.getTime();
    const time = { now: await databaseNow(tx), isLater };
    const isSwitched = isNextPublished(found);
    const check = isSwitched ? withNextKeys(found) : found;
    const signing = isSwitched ? await switchKeys(tx, locked) : locked;
    const { event, ...state } = nextDomainState(locked, check.required, time);
    const keys = nextSigningKeys(signing, check.published, state.status);
    const { advice } = check;
    const records = check.records.filter((record) => isKept(record, signing));
    const saved = await saveCheck(tx, locked, { ...state, ...keys, records, advice });
    if (event !== null) await notify(tx, event, saved);
    await reportDegraded(tx, locked, saved);
    return { before: locked.status, saved, event };
  });
  if (decided === null) return null;
  if (options.log) logChange(options.log, decided);
  return decided.saved;
}

function keysOf({ rsaSelector, nextKeys }: StoredDomain): string {
  return `${rsaSelector} ${nextKeys?.rsaSelector ?? ''}`;
}

/** Records of the previous keys are checked for 7 days, and then until the owner has removed them. */
function isKept({ key, status }: CheckedRecord, { isPreviousNeeded }: StoredDomain): boolean {
  return key !== 'previous' || isPreviousNeeded || status !== 'missing';
}

async function lookUpRecords(
  { db, resolver, config }: CheckOptions,
  domain: StoredDomain,
): Promise<DomainCheck> {
  const places = await placesOf(db, config);
  const expected = requiredRecords(setupOf(domain, places));
  if (domain.environment === 'test') return checkTestDomain(expected, domain.name);
  const { hostname, sources } = config;
  const context = { name: domain.name, places, hostname, sources, resolver };
  const check = await checkDomain(expected, context);
  return { ...check, advice: [...adviseInbound(places.returnPathHost, config), ...check.advice] };
}

type DomainEvent =
  | 'domain.created'
  | 'domain.verified'
  | 'domain.degraded'
  | 'domain.recovered'
  | 'domain.failed'
  | 'domain.deleted';

export function notify(tx: Queryable, type: DomainEvent, domain: StoredDomain): Promise<void> {
  return recordEvent(tx, { scope: domain, type, data: presentDomain(domain) });
}

/** Raises the condition at the second check that misses a record. A check that finds all records clears it. */
async function reportDegraded(
  tx: Queryable,
  before: StoredDomain,
  domain: StoredDomain,
): Promise<void> {
  const { failingSince, status } = domain;
  if (failingSince === null && before.failingSince !== null) await clearDegraded(tx, domain);
  if (failingSince !== null && (status === 'degraded' || status === 'failed')) {
    await raiseCondition(tx, degraded({ ...domain, failingSince }));
  }
}

export async function clearDegraded(
  tx: Queryable,
  domain: StoredDomain,
  endMessage = `${domain.name} has all its required records again.`,
): Promise<void> {
  await clearCondition(tx, { ...conditionOf(domain), endMessage });
}

/** Names the project, because two projects may have domains with the same name. */
function conditionOf({ name, projectId }: StoredDomain): ConditionKey {
  return { type: 'domain.degraded', subject: `${name} (project ${projectId})` };
}

function degraded(domain: StoredDomain & { failingSince: Date }): NewCondition {
  const { id, name, projectId, status, failingSince } = domain;
  const missing = missingRecords(domain);
  const which = missing.length === 0 ? '' : `: ${missing.join(', ')}`;
  return {
    ...conditionOf(domain),
    message:
      status === 'failed'
        ? `${name} stopped sending, because required records are missing${which}.`
        : `Required records of ${name} are missing${which}; it sends until ${failsAt(failingSince)}.`,
    remedy: `Have its owner publish them again: letterhaus domains verify ${name} shows their values.`,
    details: {
      domain: name,
      domain_id: id,
      project_id: projectId,
      status,
      failing_since: failingSince.toISOString(),
      records: missing,
    },
  };
}

function missingRecords({ records }: StoredDomain): string[] {
  return (records as CheckedRecord[])
    .filter(({ required, status }) => required && status !== 'verified')
    .map(({ record, name }) => `${record} ${name}`);
}

type Decided = { before: StoredDomain['status']; saved: StoredDomain; event: DomainEvent | null };

function logChange(log: NonNullable<CheckOptions['log']>, { before, saved, event }: Decided): void {
  if (before === saved.status) return;
  const { id, name, status, failingSince } = saved;
  const facts = { event, domain_id: id, domain: name, before, status };
  if (failingSince === null) return log.info(facts, 'a domain changed');
  const { message, remedy, details } = degraded({ ...saved, failingSince });
  log.warn({ ...facts, ...details, remedy }, message);
}

/** A new domain has no next or previous keys. */
type SetupOf = Pick<
  StoredDomain,
  'name' | 'rsaSelector' | 'rsaPublicKey' | 'ed25519Selector' | 'ed25519PublicKey'
> &
  Partial<Pick<StoredDomain, 'nextKeys' | 'previousKeys' | 'isPreviousNeeded' | 'records'>>;

export function setupOf(domain: SetupOf, places: Places): DomainSetup {
  return {
    name: domain.name,
    dkimSelectorRsa: domain.rsaSelector,
    dkimRecordRsa: dkimRecordValue(domain.rsaPublicKey, 'rsa-sha256'),
    dkimSelectorEd25519: domain.ed25519Selector,
    dkimRecordEd25519: dkimRecordValue(domain.ed25519PublicKey, 'ed25519-sha256'),
    places,
    otherKeys: otherKeys(domain),
  };
}

export function keyRecords(key: OtherKey['key'], keys: Omit<OtherKeys, 'since'>): OtherKey[] {
  const { rsaSelector, rsaPublicKey, ed25519Selector, ed25519PublicKey } = keys;
  return [
    { key, selector: rsaSelector, value: dkimRecordValue(rsaPublicKey, 'rsa-sha256') },
    { key, selector: ed25519Selector, value: dkimRecordValue(ed25519PublicKey, 'ed25519-sha256') },
  ];
}

function otherKeys(domain: SetupOf): OtherKey[] {
  const { nextKeys = null, previousKeys = null, isPreviousNeeded = false, records = [] } = domain;
  const next = nextKeys === null ? [] : keyRecords('next', nextKeys);
  const isPreviousThere = (records as CheckedRecord[]).some(({ key }) => key === 'previous');
  const isPreviousShown = previousKeys !== null && (isPreviousNeeded || isPreviousThere);
  return [...next, ...(isPreviousShown ? keyRecords('previous', previousKeys) : [])];
}

/** Returns the hosts of the installation. Until a node with a full host name is known, this node is the only host. */
export async function placesOf(
  db: Queryable,
  { hostname, sources }: CheckOptions['config'],
): Promise<Places> {
  const { returnPathHost, hosts } = await readInstallation(db);
  const own = { name: hostname, sourceIps: sources.map(({ ip }) => ip) };
  return {
    returnPathHost: returnPathHost ?? hostname,
    hosts: hosts.length > 0 ? hosts : [own],
  };
}
