/**
 * The resolver for MX routing, webhook hosts and domain checks. It does not use node:dns, which reads /etc/hosts,
 * shares the thread pool with DKIM signing, does not distinguish a truncated response from an empty one, and has no
 * limits.
 *
 * Every look-up ends within its budget (20 s) and returns a value, never an exception. "No such record" is returned
 * only when a server responded so. During a DNS outage the result is an error or, for addresses and MX, the last
 * records, up to six hours after their TTL. Steps: the cache (dns-cache.ts); a look-up in progress; the servers in
 * order (dns-query.ts); CNAMEs (dns-message.ts).
 */
import { getServers } from 'node:dns';
import { isIPv6 } from 'node:net';
import type { World } from '../../lib/world.ts';
import { CACHE_DEFAULTS, type CacheLimits, createDnsCache, type DnsCache } from './dns-cache.ts';
import { type DnsServer, queryServer, type QueryResult, parseServer } from './dns-query.ts';
import {
  type DnsResult,
  followCnames,
  isDnsName,
  type MxRecord,
  type Question,
  readAddress,
  readMx,
  readName,
  type ReadRecord,
  readTlsa,
  readTxt,
  type TlsaRecord,
} from './dns-message.ts';
export type { DnsResult, MxRecord, TlsaRecord } from './dns-message.ts';

export type LookupOptions = {
  /** Bypasses the cache: the user may have just changed the record. */
  fresh?: boolean;
  /** Milliseconds for the whole look-up with all servers and CNAMEs; default 20 s. */
  budgetMs?: number;
};

/** Names are accepted in any case, with or without a trailing dot. */
export type Resolver = {
  /** Sorted by preference; equal ones in the order of the response. */
  mx(name: string, options?: LookupOptions): Promise<DnsResult<MxRecord>>;
  a(name: string, options?: LookupOptions): Promise<DnsResult<string>>;
  aaaa(name: string, options?: LookupOptions): Promise<DnsResult<string>>;
  /** The strings of each record are joined. */
  txt(name: string, options?: LookupOptions): Promise<DnsResult<string>>;
  cname(name: string, options?: LookupOptions): Promise<DnsResult<string>>;
  tlsa(name: string, options?: LookupOptions): Promise<DnsResult<TlsaRecord>>;
  ptr(ip: string, options?: LookupOptions): Promise<DnsResult<string>>;
  /** Closes every socket. Look-ups in progress end as errors. */
  close(): void;
};

/** Called after each look-up that queried servers. */
export type OnLookup = (lookup: {
  type: Question['type'];
  result: DnsResult<unknown>['kind'];
  seconds: number;
}) => void;

type LookupContext = {
  servers: readonly DnsServer[];
  /** Index of the server that responded last, so that an unreachable first server costs one timeout. */
  preferred: number;
  queryTimeoutMs: number;
  budgetMs: number;
  trustAuthenticatedData: boolean;
  clock: Pick<World, 'monotonicMs'>;
  onLookup: OnLookup;
  signal: AbortSignal;
};

const DEFAULT_TIMES = { queryTimeoutMs: 5_000, budgetMs: 20_000 };
const CNAME_HOPS_MAX = 8;
/** UDP may lose a packet, so servers that did not respond are queried once more. */
const ROUNDS = 2;

/**
 * @param options.servers `ip` or `ip:port`; queried in order, starting with the one that responded last
 * @param options.trustAuthenticatedData trust the AD flag: only for a validating resolver whose responses cannot be
 * modified on the way
 */
export function createResolver(options: {
  servers: readonly string[];
  world: Pick<World, 'monotonicMs'>;
  cache?: Partial<CacheLimits>;
  queryTimeoutMs?: number;
  budgetMs?: number;
  trustAuthenticatedData?: boolean;
  onLookup?: OnLookup;
}): Resolver {
  const closing = new AbortController();
  const context: LookupContext = {
    servers: options.servers.map(requireServer),
    preferred: 0,
    queryTimeoutMs: options.queryTimeoutMs ?? DEFAULT_TIMES.queryTimeoutMs,
    budgetMs: options.budgetMs ?? DEFAULT_TIMES.budgetMs,
    trustAuthenticatedData: options.trustAuthenticatedData ?? false,
    clock: options.world,
    onLookup: options.onLookup ?? (() => {}),
    signal: closing.signal,
  };
  const limits = { ...CACHE_DEFAULTS, ...options.cache };
  const noStale = { ...limits, staleMs: 0 };
  const now = () => options.world.monotonicMs();
  const lookupOf = <T>(type: Question['type'], read: ReadRecord<T>, keep = noStale) =>
    createLookup({ context, type, read, cache: createDnsCache<T>(keep, now) });
  const ptr = lookupOf('PTR', readName);
  return {
    mx: lookupOf('MX', readMx, limits),
    a: lookupOf('A', readAddress, limits),
    aaaa: lookupOf('AAAA', readAddress, limits),
    txt: lookupOf('TXT', readTxt),
    cname: lookupOf('CNAME', readName),
    tlsa: lookupOf('TLSA', readTlsa),
    ptr: (ip, lookup) => ptr(reverseName(ip), lookup),
    close: () => closing.abort(),
  };
}

export function systemServers(): string[] {
  return getServers();
}

/** Returns `4.3.2.1.in-addr.arpa`, or the 32 nibbles under `ip6.arpa` (RFC 3596 §2.5). */
export function reverseName(ip: string): string {
  if (!isIPv6(ip)) return `${ip.split('.').toReversed().join('.')}.in-addr.arpa`;
  // The URL parser writes IPv6 addresses in one canonical form, without a dotted IPv4 tail.
  const compressed = new URL(`http://[${ip.split('%')[0]}]`).hostname.slice(1, -1);
  const [head = '', tail = ''] = compressed.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0');
  const nibbles = [...left, ...zeros, ...right].map((group) => group.padStart(4, '0')).join('');
  return `${nibbles.split('').toReversed().join('.')}.ip6.arpa`;
}

function createLookup<T>(parts: {
  context: LookupContext;
  type: Question['type'];
  read: ReadRecord<T>;
  cache: DnsCache<T>;
}): (name: string, options?: LookupOptions) => Promise<DnsResult<T>> {
  const { context, type, read, cache } = parts;
  const inFlight = new Map<string, Promise<DnsResult<T>>>();

  async function lookUpAndStore(name: string, budgetMs: number): Promise<DnsResult<T>> {
    const startedMs = context.clock.monotonicMs();
    const { result, ttlS } = await lookUpRecords(context, { name, type }, { read, budgetMs });
    const seconds = (context.clock.monotonicMs() - startedMs) / 1_000;
    context.onLookup({ type, result: result.kind, seconds });
    cache.store(name, result, ttlS);
    return result;
  }

  return async (anyName, options = {}) => {
    const name = anyName.toLowerCase().replace(/\.$/, '');
    if (!isDnsName(name)) return { kind: 'nxdomain' };
    const budgetMs = options.budgetMs ?? context.budgetMs;
    if (options.fresh === true) return lookUpAndStore(name, budgetMs);
    const cached = cache.getFresh(name);
    if (cached !== null) return cached;
    let pending = inFlight.get(name);
    if (pending === undefined) {
      pending = lookUpAndStore(name, budgetMs).finally(() => inFlight.delete(name));
      inFlight.set(name, pending);
    }
    const result = await pending;
    return result.kind === 'error' ? (cache.getStale(name) ?? result) : result;
  };
}

/** Queries until the records are found, and follows CNAMEs that leave the message. */
async function lookUpRecords<T>(
  context: LookupContext,
  question: Question,
  options: { read: ReadRecord<T>; budgetMs: number },
): Promise<{ result: DnsResult<T>; ttlS: number }> {
  const deadlineMs = context.clock.monotonicMs() + options.budgetMs;
  let { name } = question;
  let hopsLeft = CNAME_HOPS_MAX;
  let ttlS = Infinity;
  let authenticated = context.trustAuthenticatedData;
  for (;;) {
    const response = await queryServers(context, { ...question, name }, deadlineMs);
    if (response.kind !== 'response')
      return { result: { kind: 'error', message: response.message }, ttlS: 0 };
    authenticated &&= response.authenticated;
    const chain = followCnames(
      response.records,
      { ...question, name },
      { read: options.read, maxHops: hopsLeft },
    );
    hopsLeft -= chain.hops;
    ttlS = Math.min(ttlS, chain.ttlS);
    if (hopsLeft < 0) return { result: { kind: 'error', message: tooManyHops(question) }, ttlS: 0 };
    if (chain.records.length > 0) {
      const alias = chain.name === question.name ? {} : { canonicalName: chain.name.toLowerCase() };
      return { result: { kind: 'records', records: chain.records, authenticated, ...alias }, ttlS };
    }
    if (response.nxdomain) return { result: { kind: 'nxdomain' }, ttlS };
    if (chain.hops === 0) {
      return { result: { kind: 'nodata', ...(authenticated && { authenticated }) }, ttlS };
    }
    if (!isDnsName(chain.name)) return { result: { kind: 'nxdomain' }, ttlS };
    name = chain.name;
  }
}

/** Returns the first usable response of any server, or why there is none. */
async function queryServers(
  context: LookupContext,
  question: Question,
  deadlineMs: number,
): Promise<Extract<QueryResult, { kind: 'response' }> | { kind: 'error'; message: string }> {
  const { servers, clock, signal } = context;
  const failures = new Set<string>();
  let candidates = servers.map((_, offset) => (context.preferred + offset) % servers.length);
  for (let round = 0; round < ROUNDS; round++) {
    const silent: number[] = [];
    for (const index of candidates) {
      const server = servers[index];
      const now = clock.monotonicMs();
      if (server === undefined || now >= deadlineMs) break;
      const untilMs = Math.min(now + context.queryTimeoutMs, deadlineMs);
      const outcome = await queryServer({ server, question, deadlineMs: untilMs, clock, signal });
      if (outcome.kind === 'response') {
        context.preferred = index;
        return outcome;
      }
      failures.add(outcome.message);
      if (outcome.kind === 'silent') silent.push(index);
    }
    candidates = silent;
  }
  return { kind: 'error', message: failureText(question, failures) };
}

/** Omits the addresses of the DNS servers, because senders read this message. */
function failureText({ name, type }: Question, failures: ReadonlySet<string>): string {
  const why = [...failures].join('; ') || 'no DNS server was queried';
  return `the ${type} look-up of ${name} failed (${why})`;
}

function tooManyHops({ name }: Question): string {
  return `${name} leads through a loop or more than ${CNAME_HOPS_MAX} CNAME records`;
}

function requireServer(text: string): DnsServer {
  const server = parseServer(text);
  if (server === null) throw new Error(`"${text}" is not the address of a DNS server`);
  return server;
}
