/**
 * Sending domains for the HTTP API and the command line: add, list, read, verify, remove. domain-check.ts checks one,
 * domain-recheck.ts all, wire.ts shows one.
 *
 * Each domain has its own DKIM keys, with selectors that no other project uses: only an owner who can publish them
 * can send from the domain. An owner may bring an RSA key that is already in use; this needs its private key. An API
 * key that is limited to one domain can neither see nor add others.
 *
 * No transaction is open during DNS queries (domain-check.ts).
 */
import type { AuthenticationFinding } from '../core/dns/dns-findings.ts';
import { ANY_STATE, type IsExpected } from '../core/entity-tag.ts';
import { CHANGED_SINCE, isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { DomainScope, Scope } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import {
  findAuthentication,
  findTestAuthentication,
  createUnknownAuthentication,
} from './dns/authentication.ts';
import { type DmarcStatus, examineDmarc } from './dmarc/dmarc.ts';
import {
  type CheckOptions,
  clearDegraded,
  recordDomainEvent,
  readInstallationHosts,
  recordSetupOf,
  verifyDomain,
} from './domain-check.ts';
import { findDmarcRecords } from './dns/dmarc-records.ts';
import { type InstallationHosts, requiredRecords, uncheckedRecords } from './dns/records.ts';
import { type DkimKeyPair, signingAlgorithms } from '../mail/dkim.ts';
import { type DkimKeys, generateKeys, sealKeys, TOO_MANY_AT_ONCE } from './dkim-keys.ts';
import { cancelDkimRotation, NO_DOMAIN, rotateDkim } from './dkim-rotation.ts';
import { readDkimKey, readSelector } from '../mail/dkim-import.ts';
import { parseDomain } from '../mail/address.ts';
import { NO_TRACKING_URL } from '../mail/links/tracking-link.ts';
import type { BoundedLookup } from '../net/dns/lookup-allowance.ts';
import {
  changeDomain,
  countWaiting,
  deleteDomain,
  type DomainChange,
  type DomainTls,
  findDomain,
  insertDomain,
  listDomains,
  lockDomain,
  loadSigningKeys,
  lockDomainsOfProject,
  type NewDomain,
  domainCapacity,
  type StoredDomain,
} from './domain-store.ts';
import { isId } from '../database/ids.ts';
import { tagOfDomain } from './wire.ts';
import type { Page, PageResult } from '../database/page.ts';
import type { Database, Queryable } from '../database/database.ts';
import type { SecretBox } from '../secrets/secret-box.ts';
import { markUnusable, unmarkUnusable } from '../secrets/unusable-store.ts';

type DomainServiceOptions = CheckOptions & {
  world: Pick<World, 'newId'>;
  secrets: SecretBox;
  config: {
    domainsMax: number;
    relay?: { host: string } | null;
    /** Prefix of the links in tracked emails. Without one, live mail cannot be tracked. */
    trackingUrl?: string | null;
    publicUrl?: string | null;
    allowPrivateNetworks?: boolean;
  };
};

const FRESH_DMARC = { fresh: true, budgetMs: 10_000 };

export class DomainService {
  readonly #options: DomainServiceOptions;
  readonly #db: Database;

  constructor(options: DomainServiceOptions) {
    this.#options = options;
    this.#db = options.db;
  }

  create(
    scope: DomainScope,
    name: string,
    settings: NewDomainSettings = {},
  ): Promise<StoredDomain | Refusal> {
    return createDomain(this.#db, scope, { ...this.#options, ...settings, name });
  }

  list(scope: DomainScope, page: Page): Promise<PageResult<StoredDomain>> {
    return listDomains(this.#db, scope, page);
  }

  async get(scope: DomainScope, id: string): Promise<StoredDomain | Refusal> {
    return (isId(id) ? await findDomain(this.#db, scope, id) : null) ?? NO_DOMAIN;
  }

  /** Returns why a domain cannot have these settings here, or null when it can. */
  refuseChange(scope: DomainScope, change: DomainChange): Refusal | null {
    return refuseTracking(this.#options.config, scope, change);
  }

  /** Changes apply to emails that are accepted from now on and do not set these fields themselves. */
  async change(
    scope: DomainScope,
    id: string,
    change: DomainChange,
    isExpected = ANY_STATE,
  ): Promise<StoredDomain | Refusal> {
    const refusal = this.refuseChange(scope, change);
    if (refusal !== null) return refusal;
    return this.#db.transaction(async (tx) => {
      const current = await lockExpected(tx, scope, { id, isExpected });
      if (isRefusal(current)) return current;
      return (await changeDomain(tx, scope, { id, ...change })) ?? NO_DOMAIN;
    });
  }

  /** Looks up the records now and returns the result. A missing record is not an error. */
  async verify(scope: DomainScope, id: string): Promise<StoredDomain | Refusal> {
    const domain = isId(id) ? await findDomain(this.#db, scope, id) : null;
    if (!domain) return NO_DOMAIN;
    await checkKeysOpen(this.#options, domain);
    const checked = await verifyDomain(this.#options, domain);
    if (checked === null || checked.rsaSelector === domain.rsaSelector) return checked ?? NO_DOMAIN;
    // The next keys may have replaced keys that could not be opened.
    await checkKeysOpen(this.#options, checked);
    return (await findDomain(this.#db, scope, id)) ?? NO_DOMAIN;
  }

  /** Sums what receivers reported about DMARC, and proposes the next policy. */
  async dmarc(scope: DomainScope, id: string): Promise<DmarcStatus | Refusal> {
    const domain = await this.get(scope, id);
    if (isRefusal(domain)) return domain;
    const { resolver, config } = this.#options;
    // The owner may have just changed the record.
    const lookups = { txt: (name: string) => resolver.txt(name, FRESH_DMARC) };
    const ownIps = config.sources.map(({ ip }) => ip);
    return examineDmarc(domain, { db: this.#db, lookups, ownIps });
  }

  /**
   * Predicts how receivers judge mail of this domain by the records in DNS. Stores nothing.
   * @param settings.ask may refuse the look-ups (net/dns/lookup-allowance.ts)
   * @returns null when the domain does not exist
   */
  async authentication(
    scope: DomainScope,
    settings: { id: string; dualSigned: boolean; ask: BoundedLookup },
  ): Promise<AuthenticationFinding | null> {
    const domain = await findDomain(this.#db, scope, settings.id);
    return domain && predictAuthentication(this.#options, domain, settings);
  }

  /** Returns whether neither the domain nor its organization has a DMARC record. Without an answer it may have one. */
  async lacksDmarc(name: string): Promise<boolean> {
    return (await findDmarcRecords(name, this.#options.resolver)) === null;
  }

  /** Makes the next DKIM keys. The current keys sign until a check finds the new record. */
  rotateDkim(scope: DomainScope, id: string): Promise<StoredDomain | Refusal> {
    return rotateDkim(this.#options, scope, id);
  }

  cancelDkimRotation(scope: DomainScope, id: string): Promise<StoredDomain | Refusal> {
    return cancelDkimRotation(this.#db, scope, id);
  }

  countWaiting(scope: DomainScope, id: string): Promise<number> {
    return countWaiting(this.#db, scope, id);
  }

  /** Removes the domain at once. Queued recipients end as failed. */
  delete(scope: DomainScope, id: string, isExpected = ANY_STATE): Promise<StoredDomain | Refusal> {
    return this.#db.transaction(async (tx) => {
      const current = await lockExpected(tx, scope, { id, isExpected });
      if (isRefusal(current)) return current;
      const domain = await deleteDomain(tx, scope, id);
      if (domain === null) return NO_DOMAIN;
      await recordDomainEvent(tx, 'domain.deleted', domain);
      await clearDegraded(tx, domain, 'The domain was removed.');
      return domain;
    });
  }
}

async function lockExpected(
  tx: Queryable,
  scope: DomainScope,
  { id, isExpected }: { id: string; isExpected: IsExpected },
): Promise<StoredDomain | Refusal> {
  const current = isId(id) ? await lockDomain(tx, scope, id) : null;
  if (current === null) return NO_DOMAIN;
  return isExpected(tagOfDomain(current)) ? current : CHANGED_SINCE;
}

/** Refuses tracking if links in live mail would have no https address that recipients can reach. */
function refuseTracking(
  { trackingUrl = null, publicUrl = null, allowPrivateNetworks }: DomainServiceOptions['config'],
  { environment }: Scope,
  { tracking }: DomainChange,
): Refusal | null {
  const url = trackingUrl ?? publicUrl;
  const isServed = url?.startsWith('https://') || allowPrivateNetworks || environment === 'test';
  const requested = (['opens', 'clicks'] as const).filter((name) => tracking?.[name]);
  if (isServed || requested.length === 0) return null;
  return refuseFields(
    requested.map((name) => ({ field: `tracking.${name}`, message: NO_TRACKING_URL })),
  );
}

/** An RSA key that is in use already. Its record stays as published. */
export type ExistingDkim = { selector: string; private_key: string };

type NewDomainSettings = {
  tls?: DomainTls | undefined;
  dkim?: ExistingDkim | undefined;
};

/** Adds a domain, in the given transaction (at the first start) or in its own. */
export async function createDomain(
  db: Database,
  scope: DomainScope,
  options: Pick<DomainServiceOptions, 'world' | 'secrets' | 'config'> &
    NewDomainSettings & { name: string },
): Promise<StoredDomain | Refusal> {
  const name = parseDomain(options.name);
  if (name === null) {
    const message = `${JSON.stringify(options.name.slice(0, 100))} is not a domain name; write it like acme.com`;
    return refuseFields([{ field: 'name', message }]);
  }
  if (scope.domain != null && scope.domain !== name) {
    const message = `This key is limited to ${scope.domain}; add ${name} with a key that is not.`;
    return { refused: 'authorization_error', message };
  }
  const { domainsMax } = options.config;
  const refusal = refuseFullProject(
    scope,
    name,
    await domainCapacity(db, { ...scope, name }, domainsMax),
  );
  if (refusal) return refusal;
  const existing = options.dkim === undefined ? null : await readExistingKey(options.dkim, name);
  if (existing !== null && isRefusal(existing)) return existing;
  const generated = await generateKeys(existing?.pair);
  if (generated === null) return TOO_MANY_AT_ONCE;
  const keys = { ...generated, rsaSelector: existing?.selector ?? null };
  const installation = await readInstallationHosts(db, options.config);
  const domain = createRow(scope, { ...options, name, installation, keys });
  return db.transaction(async (tx) => {
    await lockDomainsOfProject(tx, scope.projectId);
    const lateRefusal = refuseFullProject(
      scope,
      name,
      await domainCapacity(tx, { ...scope, name }, domainsMax),
    );
    if (lateRefusal) return lateRefusal;
    const stored = await insertDomain(tx, domain);
    if (!stored) throw new Error('a domain was added past the lock');
    await recordDomainEvent(tx, 'domain.created', stored);
    return stored;
  });
}

async function readExistingKey(
  dkim: ExistingDkim,
  domain: string,
): Promise<{ pair: DkimKeyPair; selector: string } | Refusal> {
  const selector = readSelector(dkim.selector, domain);
  const pair = await readDkimKey(dkim.private_key);
  const problems = [
    ...('problem' in selector ? [{ field: 'dkim.selector', message: selector.problem }] : []),
    ...('problem' in pair ? [{ field: 'dkim.private_key', message: pair.problem }] : []),
  ];
  if ('problem' in selector || 'problem' in pair) return refuseFields(problems);
  return { pair, selector: selector.selector };
}

function refuseFullProject(
  { environment }: Scope,
  name: string,
  { max, used, isThere }: Awaited<ReturnType<typeof domainCapacity>>,
): Refusal | null {
  if (isThere) {
    const message = `${name} is a domain of this project and environment already.`;
    return { refused: 'conflict', message, details: [{ field: 'name', message }] };
  }
  if (used < max) return null;
  const message = `The project has ${used} domains in the ${environment} environment, and may have ${max}: remove one, or ask the operator to raise the limit (letterhaus projects set-domains-max).`;
  return { refused: 'conflict', message };
}

type NewDomainOptions = Parameters<typeof createDomain>[2] & {
  installation: InstallationHosts;
  keys: DkimKeys & { rsaSelector: string | null };
};

function createRow(
  { projectId, environment }: Scope,
  { name, tls, world, secrets, installation, keys }: NewDomainOptions,
): NewDomain {
  const id = world.newId();
  const domain = {
    projectId,
    environment,
    id,
    name,
    status: 'not_started' as const,
    ...sealKeys(keys, { id, secrets }),
    ...(keys.rsaSelector !== null && { rsaSelector: keys.rsaSelector }),
    ed25519Verified: false,
    ...(tls && { tls }),
    advice: [],
  };
  return {
    ...domain,
    records: uncheckedRecords(requiredRecords(recordSetupOf(domain, installation))),
  };
}

/** Checks that the secret key opens the DKIM keys. Without them nothing can be signed, whatever DNS contains. */
async function checkKeysOpen(
  { db, secrets }: Pick<DomainServiceOptions, 'db' | 'secrets'>,
  { projectId, id }: StoredDomain,
): Promise<void> {
  const sealed = await loadSigningKeys(db, projectId, id);
  if (sealed === null) return;
  const keys = [sealed.rsaPrivateKey, sealed.ed25519PrivateKey];
  const change = keys.every((key) => secrets.opens(key, id)) ? unmarkUnusable : markUnusable;
  await change(db, { kind: 'domain', ownerId: projectId, id });
}

async function predictAuthentication(
  { db, resolver, config }: DomainServiceOptions,
  domain: StoredDomain,
  { dualSigned, ask }: { dualSigned: boolean; ask: BoundedLookup },
): Promise<AuthenticationFinding> {
  const installation = await readInstallationHosts(db, config);
  const expected = requiredRecords(recordSetupOf(domain, installation));
  const algorithms = signingAlgorithms(domain, dualSigned);
  const sender = { name: domain.name, expected, algorithms };
  if (domain.environment === 'test') return findTestAuthentication(sender);
  const relay = config.relay?.host ?? null;
  const found = await ask(`sender ${domain.name}`, () =>
    findAuthentication(sender, { lookups: resolver, installation, relay }),
  );
  return found.kind === 'known' ? found.value : createUnknownAuthentication(sender, found.reason);
}
