/**
 * Checks a sending domain once. dns/verify.ts looks up its records. Then one transaction locks the row, decides,
 * and stores state, event and condition. No transaction is open during DNS queries.
 *
 * Guarantee: each change of status is reported once, however many checks of a domain end at the same time. A check
 * makes the domain degraded only if it began after the previous check was stored.
 */
import type { Logger } from 'pino';
import type { ConditionKey, NewCondition } from '../core/operator-events.ts';
import { failsAt } from './domain-limits.ts';
import { adviseInbound, type Source } from './dns/advice.ts';
import { noteCheckResult, resultOf } from './dns/check-history-store.ts';
import { domainToWire } from './wire.ts';
import {
  type CheckedRecord,
  type DomainSetup,
  type OtherKey,
  type InstallationHosts,
  requiredRecords,
} from './dns/records.ts';
import {
  checkDomain,
  checkTestDomain,
  type DomainCheck,
  isNextPublished,
  nextDomainState,
  nextSigningKeys,
  switchToNextKeys,
} from './dns/verify.ts';
import { dkimRecordValue } from '../mail/dkim.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import { switchKeys } from './dkim-key-store.ts';
import {
  readDatabaseTime,
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
  /** Settings of this node. The records name all hosts of the installation (mail-host-store.ts). */
  config: {
    hostname: string;
    sources: readonly Source[];
    inboundPort: number | null;
  };
  /** Absent in commands, which print the result. */
  log?: Pick<Logger, 'info' | 'warn'>;
};

/**
 * Looks up the records, stores the result and returns the domain. Returns null when the domain was deleted meanwhile.
 */
export async function verifyDomain(
  options: CheckOptions,
  domain: StoredDomain,
): Promise<StoredDomain | null> {
  const lookedUp = await lookUpRecords(options, domain);
  const decision = await options.db.transaction(async (tx) => {
    const locked = await lockDomain(tx, domain, domain.id);
    if (!locked) return null;
    // The change of keys starts a separate check.
    if (selectorsOf(locked) !== selectorsOf(domain))
      return { before: locked.status, saved: locked, event: null };
    const isLater = locked.checkedAt?.getTime() === domain.checkedAt?.getTime();
    const time = { now: await readDatabaseTime(tx), isLater };
    const isSwitched = isNextPublished(lookedUp);
    const check = isSwitched ? switchToNextKeys(lookedUp) : lookedUp;
    const signing = isSwitched ? await switchKeys(tx, locked) : locked;
    const { event, ...state } = nextDomainState(locked, check.required, time);
    const keys = nextSigningKeys(signing, check.published, state.status);
    const { advice, dmarc } = check;
    const records = check.records.filter((record) => isKept(record, signing));
    const saved = await saveCheck(tx, locked, { ...state, ...keys, records, advice });
    await noteCheckResult(tx, saved, resultOf(records, dmarc));
    if (event !== null) await recordDomainEvent(tx, event, saved);
    await reportDegraded(tx, locked, saved);
    return { before: locked.status, saved, event };
  });
  if (decision === null) return null;
  if (options.log) logChange(options.log, decision);
  return decision.saved;
}

function selectorsOf({ rsaSelector, nextKeys }: StoredDomain): string {
  return `${rsaSelector} ${nextKeys?.rsaSelector ?? ''}`;
}

/**
 * Returns whether a record stays in the checks. Records of previous keys stay for 7 days, and then until they are
 * removed.
 */
function isKept({ key, status }: CheckedRecord, { isPreviousNeeded }: StoredDomain): boolean {
  return key !== 'previous' || isPreviousNeeded || status !== 'missing';
}

async function lookUpRecords(
  { db, resolver, config }: CheckOptions,
  domain: StoredDomain,
): Promise<DomainCheck> {
  const installation = await readInstallationHosts(db, config);
  const expected = requiredRecords(recordSetupOf(domain, installation));
  if (domain.environment === 'test') return checkTestDomain(expected, domain.name);
  const { hostname, sources } = config;
  const context = { name: domain.name, installation, hostname, sources, resolver };
  const check = await checkDomain(expected, context);
  return {
    ...check,
    advice: [...adviseInbound(installation.returnPathHost, config), ...check.advice],
  };
}

type DomainEvent =
  | 'domain.created'
  | 'domain.verified'
  | 'domain.degraded'
  | 'domain.recovered'
  | 'domain.failed'
  | 'domain.deleted';

export function recordDomainEvent(
  tx: Queryable,
  type: DomainEvent,
  domain: StoredDomain,
): Promise<void> {
  return recordEvent(tx, { scope: domain, type, data: domainToWire(domain) });
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
    await raiseCondition(tx, degradedCondition({ ...domain, failingSince }));
  }
}

export async function clearDegraded(
  tx: Queryable,
  domain: StoredDomain,
  endMessage = `${domain.name} has all its required records again.`,
): Promise<void> {
  await clearCondition(tx, { ...conditionKeyOf(domain), endMessage });
}

/** Returns a key that names the project, because two projects may have domains with the same name. */
function conditionKeyOf({ name, projectId }: StoredDomain): ConditionKey {
  return { type: 'domain.degraded', subject: `${name} (project ${projectId})` };
}

function degradedCondition(domain: StoredDomain & { failingSince: Date }): NewCondition {
  const { id, name, projectId, status, failingSince } = domain;
  const missing = missingRecords(domain);
  const names = missing.length === 0 ? '' : `: ${missing.join(', ')}`;
  return {
    ...conditionKeyOf(domain),
    message:
      status === 'failed'
        ? `${name} stopped sending, because required records are missing${names}.`
        : `Required records of ${name} are missing${names}; it sends until ${failsAt(failingSince)}.`,
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

type CheckDecision = {
  before: StoredDomain['status'];
  saved: StoredDomain;
  event: DomainEvent | null;
};

function logChange(
  log: NonNullable<CheckOptions['log']>,
  { before, saved, event }: CheckDecision,
): void {
  if (before === saved.status) return;
  const { id, name, status, failingSince } = saved;
  const fields = { event, domain_id: id, domain: name, before, status };
  if (failingSince === null) return log.info(fields, 'the status of a domain changed');
  const { message, remedy, details } = degradedCondition({ ...saved, failingSince });
  log.warn({ ...fields, ...details, remedy }, message);
}

/** A stored domain, or a new one, which has no next or previous keys. */
type RecordSetupSource = Pick<
  StoredDomain,
  'name' | 'rsaSelector' | 'rsaPublicKey' | 'ed25519Selector' | 'ed25519PublicKey'
> &
  Partial<Pick<StoredDomain, 'nextKeys' | 'previousKeys' | 'isPreviousNeeded' | 'records'>>;

export function recordSetupOf(
  domain: RecordSetupSource,
  installation: InstallationHosts,
): DomainSetup {
  return {
    name: domain.name,
    dkimSelectorRsa: domain.rsaSelector,
    dkimRecordRsa: dkimRecordValue(domain.rsaPublicKey, 'rsa-sha256'),
    dkimSelectorEd25519: domain.ed25519Selector,
    dkimRecordEd25519: dkimRecordValue(domain.ed25519PublicKey, 'ed25519-sha256'),
    installation,
    otherKeys: otherKeysOf(domain),
  };
}

export function keyRecordsOf(key: OtherKey['key'], keys: Omit<OtherKeys, 'since'>): OtherKey[] {
  const { rsaSelector, rsaPublicKey, ed25519Selector, ed25519PublicKey } = keys;
  return [
    { key, selector: rsaSelector, value: dkimRecordValue(rsaPublicKey, 'rsa-sha256') },
    { key, selector: ed25519Selector, value: dkimRecordValue(ed25519PublicKey, 'ed25519-sha256') },
  ];
}

function otherKeysOf(domain: RecordSetupSource): OtherKey[] {
  const { nextKeys = null, previousKeys = null, isPreviousNeeded = false, records = [] } = domain;
  const next = nextKeys === null ? [] : keyRecordsOf('next', nextKeys);
  const hasPreviousRecord = (records as CheckedRecord[]).some(({ key }) => key === 'previous');
  const needsPrevious = previousKeys !== null && (isPreviousNeeded || hasPreviousRecord);
  return [...next, ...(needsPrevious ? keyRecordsOf('previous', previousKeys) : [])];
}

/** Returns the hosts of the installation. Until a node with a full host name is known, this node is the only host. */
export async function readInstallationHosts(
  db: Queryable,
  { hostname, sources }: CheckOptions['config'],
): Promise<InstallationHosts> {
  const { returnPathHost, hosts } = await readInstallation(db);
  const thisNode = { name: hostname, sourceIps: sources.map(({ ip }) => ip) };
  return {
    returnPathHost: returnPathHost ?? hostname,
    hosts: hosts.length > 0 ? hosts : [thisNode],
  };
}
