/**
 * The resolver for MX routing, webhook hosts and domain checks. It does not use node:dns, which reads /etc/hosts,
 * shares the thread pool with DKIM signing, does not distinguish a truncated answer from an empty one, and has no
 * limits.
 *
 * Every look-up ends within its budget (20 s) and returns a value, never an exception. "No such record" is returned
 * only when a server answered so. During a DNS outage the result is an error or, for addresses and MX, the last
 * answer, up to six hours after its TTL. Steps: the cache; a look-up in progress; the servers in order
 * (exchange.ts); CNAMEs (message.ts).
 */
import { getServers } from 'node:dns';
import { isIPv6 } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { World } from '../../lib/world.ts';
import { type DnsServer, exchange, type Exchanged, parseServer } from './exchange.ts';
import {
  followChain,
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
} from './message.ts';
export type { MxRecord, TlsaRecord } from './message.ts';

export type DnsAnswer<T> =
  /** `authenticated`: validated by DNSSEC, CNAMEs included. `canonicalName`: the end of the CNAMEs, if any. */
  | { kind: 'records'; records: readonly T[]; authenticated: boolean; canonicalName?: string }
  /** The name exists without a record of this type; `authenticated` is set only when true. */
  | { kind: 'nodata'; authenticated?: true }
  | { kind: 'nxdomain' }
  | { kind: 'error'; message: string };

export type LookupOptions = {
  /** Bypasses the cache: the user may have just changed the record. */
  fresh?: boolean;
  /** Milliseconds for the whole look-up with all servers and CNAMEs; default 20 s. */
  budgetMs?: number;
};

/** Names are accepted in any case, with or without a trailing dot. */
export type Resolver = {
  /** Sorted by preference; equal ones in the order of the answer. */
  mx(name: string, options?: LookupOptions): Promise<DnsAnswer<MxRecord>>;
  a(name: string, options?: LookupOptions): Promise<DnsAnswer<string>>;
  aaaa(name: string, options?: LookupOptions): Promise<DnsAnswer<string>>;
  /** The strings of each record are joined. */
  txt(name: string, options?: LookupOptions): Promise<DnsAnswer<string>>;
  cname(name: string, options?: LookupOptions): Promise<DnsAnswer<string>>;
  tlsa(name: string, options?: LookupOptions): Promise<DnsAnswer<TlsaRecord>>;
  ptr(ip: string, options?: LookupOptions): Promise<DnsAnswer<string>>;
  /** Closes every socket. Look-ups in progress end as errors. */
  close(): void;
};

/** Called after each look-up that asked servers. */
export type OnLookup = (lookup: {
  type: Question['type'];
  result: DnsAnswer<unknown>['kind'];
  seconds: number;
}) => void;

type Asker = {
  servers: readonly DnsServer[];
  /** Index of the server that answered last, so that an unreachable first server costs one timeout. */
  preferred: number;
  queryTimeoutMs: number;
  budgetMs: number;
  trustAuthenticatedData: boolean;
  clock: Pick<World, 'monotonicMs'>;
  onLookup: OnLookup;
  signal: AbortSignal;
};

const DEFAULT_TIMES = { queryTimeoutMs: 5_000, budgetMs: 20_000 };
const MAX_CNAME_HOPS = 8;
/** UDP may lose a packet, so servers that did not answer are asked once more. */
const ROUNDS = 2;

/**
 * @param options.servers `ip` or `ip:port`; asked in order, starting with the one that answered last
 * @param options.trustAuthenticatedData trust the AD flag: only for a validating resolver whose replies cannot be
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
  const asker: Asker = {
    servers: options.servers.map(serverOrThrow),
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
  const byType = <T>(type: Question['type'], read: ReadRecord<T>, keep = noStale) =>
    createLookup({ asker, type, read, cache: createDnsCache<T>(keep, now) });
  const ptr = byType('PTR', readName);
  return {
    mx: byType('MX', readMx, limits),
    a: byType('A', readAddress, limits),
    aaaa: byType('AAAA', readAddress, limits),
    txt: byType('TXT', readTxt),
    cname: byType('CNAME', readName),
    tlsa: byType('TLSA', readTlsa),
    ptr: (ip, how) => ptr(reverseName(ip), how),
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
  asker: Asker;
  type: Question['type'];
  read: ReadRecord<T>;
  cache: ReturnType<typeof createDnsCache<T>>;
}): (name: string, options?: LookupOptions) => Promise<DnsAnswer<T>> {
  const { asker, type, read, cache } = parts;
  const underWay = new Map<string, Promise<DnsAnswer<T>>>();

  async function askAndStore(name: string, budgetMs: number): Promise<DnsAnswer<T>> {
    const begunMs = asker.clock.monotonicMs();
    const { answer, ttlS } = await chase(asker, { name, type }, { read, budgetMs });
    const seconds = (asker.clock.monotonicMs() - begunMs) / 1_000;
    asker.onLookup({ type, result: answer.kind, seconds });
    cache.store(name, answer, ttlS);
    return answer;
  }

  return async (anyName, options = {}) => {
    const name = anyName.toLowerCase().replace(/\.$/, '');
    if (!isDnsName(name)) return { kind: 'nxdomain' };
    const budgetMs = options.budgetMs ?? asker.budgetMs;
    if (options.fresh === true) return askAndStore(name, budgetMs);
    const known = cache.fresh(name);
    if (known !== null) return known;
    let asking = underWay.get(name);
    if (asking === undefined) {
      asking = askAndStore(name, budgetMs).finally(() => underWay.delete(name));
      underWay.set(name, asking);
    }
    const answer = await asking;
    return answer.kind === 'error' ? (cache.stale(name) ?? answer) : answer;
  };
}

/** Queries until the records are found, and follows CNAMEs that leave the message. */
async function chase<T>(
  asker: Asker,
  question: Question,
  options: { read: ReadRecord<T>; budgetMs: number },
): Promise<{ answer: DnsAnswer<T>; ttlS: number }> {
  const deadlineMs = asker.clock.monotonicMs() + options.budgetMs;
  let { name } = question;
  let hopsLeft = MAX_CNAME_HOPS;
  let ttlS = Infinity;
  let authenticated = asker.trustAuthenticatedData;
  for (;;) {
    const reply = await askServers(asker, { ...question, name }, deadlineMs);
    if (reply.kind !== 'reply')
      return { answer: { kind: 'error', message: reply.message }, ttlS: 0 };
    authenticated &&= reply.authenticated;
    const chain = followChain(
      reply.answers,
      { ...question, name },
      { read: options.read, maxHops: hopsLeft },
    );
    hopsLeft -= chain.hops;
    ttlS = Math.min(ttlS, chain.ttlS);
    if (hopsLeft < 0) return { answer: { kind: 'error', message: tooManyHops(question) }, ttlS: 0 };
    if (chain.records.length > 0) {
      const alias = chain.name === question.name ? {} : { canonicalName: chain.name.toLowerCase() };
      return { answer: { kind: 'records', records: chain.records, authenticated, ...alias }, ttlS };
    }
    if (reply.nxdomain) return { answer: { kind: 'nxdomain' }, ttlS };
    if (chain.hops === 0) {
      return { answer: { kind: 'nodata', ...(authenticated && { authenticated }) }, ttlS };
    }
    if (!isDnsName(chain.name)) return { answer: { kind: 'nxdomain' }, ttlS };
    name = chain.name;
  }
}

/** Returns the first usable reply of any server, or why there is none. */
async function askServers(
  asker: Asker,
  question: Question,
  deadlineMs: number,
): Promise<Extract<Exchanged, { kind: 'reply' }> | { kind: 'error'; message: string }> {
  const { servers, clock, signal } = asker;
  const failures = new Set<string>();
  let candidates = servers.map((_, at) => (asker.preferred + at) % servers.length);
  for (let round = 0; round < ROUNDS; round++) {
    const silent: number[] = [];
    for (const at of candidates) {
      const server = servers[at];
      const now = clock.monotonicMs();
      if (server === undefined || now >= deadlineMs) break;
      const untilMs = Math.min(now + asker.queryTimeoutMs, deadlineMs);
      const outcome = await exchange({ server, question, deadlineMs: untilMs, clock, signal });
      if (outcome.kind === 'reply') {
        asker.preferred = at;
        return outcome;
      }
      failures.add(outcome.message);
      if (outcome.kind === 'silent') silent.push(at);
    }
    candidates = silent;
  }
  return { kind: 'error', message: failureText(question, failures) };
}

/** Omits the addresses of the DNS servers, because senders read this message. */
function failureText({ name, type }: Question, failures: ReadonlySet<string>): string {
  const why = [...failures].join('; ') || 'no DNS server was asked';
  return `the ${type} look-up of ${name} failed (${why})`;
}

function tooManyHops({ name }: Question): string {
  return `${name} leads through a loop or more than ${MAX_CNAME_HOPS} CNAME records`;
}

function serverOrThrow(text: string): DnsServer {
  const server = parseServer(text);
  if (server === null) throw new Error(`"${text}" is not the address of a DNS server`);
  return server;
}

type CacheLimits = {
  /** Minimum lifetime: a TTL of 0 must not cause a look-up per email. */
  minTtlMs: number;
  /** Maximum lifetime: a changed mail server is noticed within this time. */
  maxTtlMs: number;
  /** Lifetime of "no such record" and "no such name". */
  negativeTtlMs: number;
  /** Milliseconds after its TTL for which an answer can replace a failed look-up. */
  staleMs: number;
  /** Approximate limit on all entries; the least recently used are evicted first. */
  maxBytes: number;
};

const CACHE_DEFAULTS: CacheLimits = {
  minTtlMs: 60_000,
  maxTtlMs: 3_600_000,
  negativeTtlMs: 300_000,
  staleMs: 6 * 3_600_000,
  maxBytes: 8 * 1024 * 1024,
};

type Entry<T> = { answer: DnsAnswer<T>; expiresMs: number };

/** Memory of the entry, its key and the objects around the records. */
const ENTRY_OVERHEAD_BYTES = 200;

/**
 * The answers of one record type with their TTL. The size is limited, because senders choose the names. Expired
 * answers are kept for DNS outages (RFC 8767). Errors are not stored.
 */
type DnsCache<T> = {
  fresh(name: string): DnsAnswer<T> | null;
  /** Returns records after their TTL, up to `staleMs`. */
  stale(name: string): DnsAnswer<T> | null;
  store(name: string, answer: DnsAnswer<T>, ttlS: number): void;
  readonly sizeBytes: number;
};

/** @param nowMs a monotonic clock: a change of the wall clock must not extend a TTL */
export function createDnsCache<T>(limits: CacheLimits, nowMs: () => number): DnsCache<T> {
  const entries = new LRUCache<string, Entry<T>>({
    maxSize: limits.maxBytes,
    sizeCalculation: ({ answer }, name) =>
      ENTRY_OVERHEAD_BYTES + name.length + JSON.stringify(answer).length,
  });
  return {
    fresh(name) {
      const entry = entries.get(name);
      return entry !== undefined && nowMs() < entry.expiresMs ? entry.answer : null;
    },
    stale(name) {
      const entry = entries.get(name);
      if (entry === undefined || entry.answer.kind !== 'records') return null;
      return nowMs() < entry.expiresMs + limits.staleMs ? entry.answer : null;
    },
    store(name, answer, ttlS) {
      if (answer.kind === 'error') return;
      const positive = answer.kind === 'records';
      const ttlMs = positive
        ? Math.min(Math.max(ttlS * 1000, limits.minTtlMs), limits.maxTtlMs)
        : limits.negativeTtlMs;
      entries.set(name, { answer, expiresMs: nowMs() + ttlMs });
    },
    get sizeBytes() {
      return entries.calculatedSize;
    },
  };
}
