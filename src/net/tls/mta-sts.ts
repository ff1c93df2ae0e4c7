/**
 * MTA-STS (RFC 8461): the TLS policy of a domain for its mail servers.
 *
 * The TXT record at `_mta-sts.<domain>` holds the id of the policy. The policy is fetched over HTTPS
 * (`fetchStsPolicy`) and cached (`StsCache`). A policy file that violates the grammar of the RFC is invalid as a
 * whole; it is never read as a weaker policy.
 */
import { LRUCache } from 'lru-cache';
import { cacheUpTo, type World } from '../../lib/world.ts';
import type { Resolver } from '../dns/resolver.ts';
import type { AddressGuard } from '../ip-addresses.ts';
import { guardedRequest } from '../http/guarded-client.ts';
import { DAY_MS } from '../../lib/units.ts';

/** Results of RFC 8460 §4.3 for a policy that was announced but not obtained. */
export type StsResult = 'sts-policy-fetch-error' | 'sts-policy-invalid' | 'sts-webpki-invalid';

/** `mx` contains hosts in lower case; `*.` matches exactly one label. */
export type StsPolicy = {
  mode: 'enforce' | 'testing' | 'none';
  mx: readonly string[];
  maxAgeS: number;
};

type StsRecord = { kind: 'id'; id: string } | { kind: 'none' };
type ParsedPolicy = { policy: StsPolicy } | { problem: string };

/** RFC 8461 §3.2: one year, the maximum. */
const MAX_AGE_MAX_S = 31_557_600;
/** Minimum lifetime: shorter ones would cause constant fetching. */
const MAX_AGE_MIN_S = 300;
const MX_PATTERNS_MAX = 200;
const NOT_A_FIELD = 'a line is not "key: value"';
const HOST =
  /^(?=.{1,253}$)(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?$/;
/** One email per domain waits for the policy, so this is less than the minute that the RFC suggests. */
const TIMEOUT_MS = 10_000;
const POLICY_BYTES_MAX = 65_536;
const RECHECK_MS = 5 * 60_000;
/** Interval of checks after a DNS failure and after failed deliveries. */
const RECHECK_SOON_MS = 60_000;
const REFETCH_AFTER_MS = DAY_MS;
const REFETCH_AFTER_FAILURE_MS = 5 * 60_000;
const DNS_BUDGET_MS = 5_000;
/** Limit on domains in memory; the least recently used are evicted first. */
const ENTRIES_MAX = 50_000;

/** Returns the id in the TXT records, ignoring other records. Several STSv1 records count as none (§3.1). */
export function readStsRecord(txtRecords: readonly string[]): StsRecord {
  const records = txtRecords.filter((text) => /^v=STSv1[ \t]*(?:;|$)/.test(text));
  const [record] = records;
  if (record === undefined || records.length > 1) return { kind: 'none' };
  const [, ...fields] = record.split(';').map((field) => field.trim());
  if (fields.at(-1) === '') fields.pop();
  if (
    !fields.every((field) =>
      /^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}=[\x21-\x3a\x3c\x3e-\x7e]+$/.test(field),
    )
  ) {
    return { kind: 'none' };
  }
  const ids = fields.filter((field) => field.startsWith('id='));
  const id = ids[0]?.slice(3) ?? '';
  return ids.length === 1 && /^[A-Za-z0-9]{1,32}$/.test(id) ? { kind: 'id', id } : { kind: 'none' };
}

/**
 * Parses a policy file (§3.2): `key: value` lines with CRLF or LF. Only the version is case-sensitive. Unknown keys
 * are ignored. The first of a repeated key counts, except for `mx`.
 */
export function parseStsPolicy(body: string): ParsedPolicy {
  const fields = new Map<string, string>();
  const mx: string[] = [];
  for (const line of body.split(/\r?\n/)) {
    if (line.trim() === '') continue;
    const [, key, rawValue] = /^[ \t]*([A-Za-z0-9][A-Za-z0-9_.-]{0,31}):(.*)$/.exec(line) ?? [];
    if (key === undefined || rawValue === undefined) return { problem: NOT_A_FIELD };
    const name = key.toLowerCase();
    const value = withoutBlanks(rawValue);
    if (name === 'mx') mx.push(value.toLowerCase().replace(/\.$/, ''));
    else if (!fields.has(name)) fields.set(name, value);
  }
  return policyFrom(fields, mx);
}

/** Trims spaces and tabs. A pattern anchored at the end would take quadratic time. */
function withoutBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text[start])) start += 1;
  while (end > start && isBlank(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === ' ' || character === '\t';
}

function policyFrom(fields: ReadonlyMap<string, string>, mx: readonly string[]): ParsedPolicy {
  if (fields.get('version') !== 'STSv1') return { problem: 'the version is not STSv1' };
  const mode = fields.get('mode')?.toLowerCase();
  if (mode !== 'enforce' && mode !== 'testing' && mode !== 'none') {
    return { problem: 'the mode is not enforce, testing or none' };
  }
  const maxAge = fields.get('max_age') ?? '';
  if (!/^\d{1,10}$/.test(maxAge)) return { problem: 'max_age is not a number of seconds' };
  if (mx.length > MX_PATTERNS_MAX)
    return { problem: `it has more than ${MX_PATTERNS_MAX} mx lines` };
  if (!mx.every((pattern) => HOST.test(pattern)))
    return { problem: 'an mx line is not a host name' };
  if (mode !== 'none' && mx.length === 0) return { problem: 'it has no mx line' };
  const maxAgeS = Math.min(Math.max(Number(maxAge), MAX_AGE_MIN_S), MAX_AGE_MAX_S);
  return { policy: { mode, mx, maxAgeS } };
}

/** Returns whether the policy permits this mail server. A wildcard matches one leftmost label (§4.1). */
export function policyNames(policy: StsPolicy, host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, '');
  const wildcard = `*${name.slice(name.indexOf('.'))}`;
  return policy.mx.some(
    (pattern) => pattern === name || (name.includes('.') && pattern === wildcard),
  );
}

type FetchedPolicy =
  | { kind: 'policy'; policy: StsPolicy }
  | { kind: 'failed'; result: StsResult; message: string };

type FetchOptions = {
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  guard: AddressGuard;
  world: Pick<World, 'monotonicMs'>;
  /** 443 except in tests. */
  port: number;
};

/**
 * Sends one HTTPS GET to a fixed URL (§3.3): no redirect, a valid certificate, status 200, at most 64 KiB. The host
 * name comes from a recipient's address, so the address guard applies.
 * @param domain the recipient's, in lower-case A-labels
 */
export async function fetchStsPolicy(
  domain: string,
  { port, ...options }: FetchOptions,
): Promise<FetchedPolicy> {
  const response = await guardedRequest({
    ...options,
    url: `https://mta-sts.${domain}${port === 443 ? '' : `:${port}`}/.well-known/mta-sts.txt`,
    method: 'GET',
    headers: { accept: 'text/plain' },
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: POLICY_BYTES_MAX,
    allowHttp: false,
  });
  if (response.kind === 'failed') {
    const isCertificate = response.reason === 'tls';
    return failed(
      isCertificate ? 'sts-webpki-invalid' : 'sts-policy-fetch-error',
      response.message,
    );
  }
  if (response.status !== 200) {
    return failed('sts-policy-fetch-error', `the policy host responded with ${response.status}`);
  }
  if (!response.bodyComplete) {
    return failed('sts-policy-invalid', 'the policy is larger than 64 KiB or incomplete');
  }
  if (!isText(response.headers.contentType)) {
    return failed('sts-policy-invalid', `the policy is not text/plain`);
  }
  const parsed = parseStsPolicy(response.bodyStart);
  return 'policy' in parsed
    ? { kind: 'policy', policy: parsed.policy }
    : failed('sts-policy-invalid', parsed.problem);
}

/** §3.2 requires text/plain, which excludes pages of hosted users. A missing type is accepted. */
function isText(contentType: string | null): boolean {
  return contentType === null || /^text\/plain\s*(?:;|$)/i.test(contentType.trim());
}

function failed(result: StsResult, message: string): FetchedPolicy {
  return { kind: 'failed', result, message };
}

/** The stored state of a domain, shared by all workers of all nodes. */
export type StoredSts = {
  /** The stored policy, unless it has expired. */
  cached: { id: string; policy: StsPolicy; ageMs: number; remainingMs: number } | null;
  /** Null: no fetch has failed since the last successful one. */
  failedAgoMs: number | null;
};

type StsStore = {
  load(domain: string): Promise<StoredSts>;
  save(domain: string, id: string, policy: StsPolicy): Promise<void>;
  saveFailure(domain: string): Promise<void>;
};

type StsCacheOptions = FetchOptions & {
  resolver: Pick<Resolver, 'txt'>;
  store: StsStore;
  world: Pick<World, 'monotonicMs'>;
  /** Called when a policy was announced but could not be obtained. */
  onFailure: (domain: string, result: StsResult, message: string) => void;
};

type CacheEntry = { policy: StsPolicy | null; expiresMs: number; recheckAtMs: number };

/**
 * Returns the policy of a domain now (§3.3, §5.1).
 *
 *     memory ── checked within 5 min ──> the policy, without waiting
 *        │
 *     stored policy  +  TXT record of _mta-sts.<domain>
 *        │   same id ──> the stored policy (fetched again in the background once a day)
 *        │   other id ─> fetched and stored; if that fails, the stored one remains valid
 *        │   no record, DNS unavailable ──> the stored one remains valid until it expires
 *        └── nothing stored ──> no policy
 *
 * DNS and HTTPS failures do not remove an unexpired policy. After a failed fetch no worker fetches for five minutes.
 * Each domain has one look-up at a time, of a few seconds at most. Then mail is sent as if the domain had no policy.
 */
export class StsCache {
  readonly #options: StsCacheOptions;
  readonly #entries = new LRUCache<string, CacheEntry>(cacheUpTo(ENTRIES_MAX));
  readonly #inFlight = new Map<string, Promise<StsPolicy | null>>();
  readonly #background = new Set<Promise<unknown>>();
  readonly #recheckedMs = new Map<string, number>();

  constructor(options: StsCacheOptions) {
    this.#options = options;
  }

  /** Returns the policy for mail to the domain, in the mode enforce or testing; null when none applies. */
  policyFor(domain: string): StsPolicy | null | Promise<StsPolicy | null> {
    const entry = this.#entries.get(domain);
    const nowMs = this.#options.world.monotonicMs();
    if (entry !== undefined && nowMs < entry.recheckAtMs) return effectivePolicy(entry, nowMs);
    return this.#lookUp(domain, {});
  }

  /** Looks up the TXT record again, at most once a minute. Required before a policy fails mail permanently (§5.1). */
  recheck(domain: string): StsPolicy | null | Promise<StsPolicy | null> {
    const nowMs = this.#options.world.monotonicMs();
    if (nowMs < (this.#recheckedMs.get(domain) ?? -Infinity) + RECHECK_SOON_MS)
      return this.policyFor(domain);
    if (this.#recheckedMs.size > ENTRIES_MAX) this.#recheckedMs.clear();
    this.#recheckedMs.set(domain, nowMs);
    return this.#lookUp(domain, { fresh: true });
  }

  /** Checks the domain now, including the daily fetch. */
  async renew(domain: string): Promise<void> {
    await this.#lookUp(domain, { fresh: true });
    await this.whenIdle();
  }

  /** Resolves when no fetch runs in the background. */
  async whenIdle(): Promise<void> {
    await Promise.all(this.#background);
  }

  #lookUp(domain: string, options: { fresh?: boolean }): Promise<StsPolicy | null> {
    const key = `${domain} ${options.fresh === true ? 'fresh' : ''}`;
    let lookup = this.#inFlight.get(key);
    if (lookup === undefined) {
      lookup = this.#lookUpNow(domain, options).finally(() => this.#inFlight.delete(key));
      this.#inFlight.set(key, lookup);
    }
    return lookup;
  }

  async #lookUpNow(domain: string, { fresh = false }): Promise<StsPolicy | null> {
    const { store, resolver, world } = this.#options;
    const [state, txt] = await Promise.all([
      store.load(domain),
      resolver.txt(`_mta-sts.${domain}`, { budgetMs: DNS_BUDGET_MS, fresh }),
    ]);
    const record = readStsRecord(txt.kind === 'records' ? txt.records : []);
    let stored = state.cached;
    if (record.kind === 'id' && (state.failedAgoMs ?? Infinity) > REFETCH_AFTER_FAILURE_MS) {
      if (stored?.id !== record.id) stored = (await this.#fetch(domain, record.id)) ?? stored;
      else if (stored.ageMs > REFETCH_AFTER_MS) this.#fetchInBackground(domain, record.id);
    }
    const nowMs = world.monotonicMs();
    const recheckAtMs = nowMs + (txt.kind === 'error' ? RECHECK_SOON_MS : RECHECK_MS);
    const entry = { policy: stored?.policy ?? null, expiresMs: nowMs + (stored?.remainingMs ?? 0) };
    this.#entries.set(domain, { ...entry, recheckAtMs });
    return effectivePolicy({ ...entry, recheckAtMs }, nowMs);
  }

  async #fetch(domain: string, id: string): Promise<StoredSts['cached']> {
    const { store, onFailure } = this.#options;
    const fetched = await fetchStsPolicy(domain, this.#options);
    if (fetched.kind === 'failed') {
      onFailure(domain, fetched.result, fetched.message);
      await store.saveFailure(domain);
      return null;
    }
    await store.save(domain, id, fetched.policy);
    return { id, policy: fetched.policy, ageMs: 0, remainingMs: fetched.policy.maxAgeS * 1000 };
  }

  #fetchInBackground(domain: string, id: string): void {
    const fetching = this.#fetch(domain, id)
      .catch(() => null) // the database is unavailable: the next check fetches again
      .finally(() => this.#background.delete(fetching));
    this.#background.add(fetching);
  }
}

function effectivePolicy({ policy, expiresMs }: CacheEntry, nowMs: number): StsPolicy | null {
  return policy !== null && policy.mode !== 'none' && nowMs < expiresMs ? policy : null;
}
