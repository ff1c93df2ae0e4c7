/**
 * Determines which hosts of this installation a published SPF record authorises, directly or through `include:`,
 * `redirect=`, `a`, `mx` and `exists` (`spf.ts`). Ends within EVALUATION_MAX_MS and asks DNS for each name once.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DnsResult } from '../../net/dns/resolver.ts';
import type { Places } from '../dns/records.ts';
import { checkHost, type SpfClient, type SpfLookups, type SpfResult } from './spf.ts';

export type SpfCoverage = {
  /** Returns whether the record passes a mechanism of ours, such as `ip4:192.0.2.7` or `a:mail.example.org`. */
  passes: (mechanism: string) => boolean;
  /** Why a receiver or DNS gave no result; null when there was one. */
  error: Extract<SpfResult, { why: string }> | null;
};

/** Milliseconds. RFC 7208 §4.6.4 gives receivers at least 20 s. The check of a domain ends within 30 s. */
const EVALUATION_MAX_MS = 15_000;

export async function spfCoverage(
  mechanisms: readonly string[],
  found: { domain: string; texts: readonly string[]; places: Places; lookups: SpfLookups },
): Promise<SpfCoverage> {
  const passing = new Set<string>();
  let error: SpfCoverage['error'] = null;
  const timeUp = new AbortController();
  const timer = setTimeout(() => timeUp.abort(), EVALUATION_MAX_MS);
  const lookups = boundLookups(found.lookups, timeUp.signal);
  const short = shortNames(mechanisms);
  const texts = found.texts.map((text) => without(short, text, passing));
  try {
    for (const mechanism of new Set(mechanisms)) {
      if (passing.has(mechanism)) continue;
      const result = await resultFor(mechanism, { ...found, texts, lookups });
      if (result.result === 'pass') passing.add(mechanism);
      if ('why' in result) error ??= result;
    }
  } finally {
    clearTimeout(timer);
  }
  return { passes: (mechanism) => passing.has(mechanism), error };
}

type Found = Parameters<typeof spfCoverage>[1];

/**
 * Finds host names of one label. Receivers treat them as a mistake (RFC 7208 §7.1), but our record has one while
 * LETTERHAUS_HOSTNAME is not a full name. `dns/advice.ts` warns about that name.
 */
function shortNames(mechanisms: readonly string[]): ReadonlyMap<string, string> {
  const short = mechanisms.filter((mechanism) => /^a:[^.]+$/.test(mechanism));
  return new Map(short.map((mechanism) => [mechanism.toLowerCase(), mechanism]));
}

/** Removes these terms from the record, and adds those that come before `all` to `passing`. */
function without(short: ReadonlyMap<string, string>, text: string, passing: Set<string>): string {
  const kept: string[] = [];
  let isReached = true;
  for (const rawTerm of text.split(' ')) {
    const term = rawTerm.toLowerCase().replace(/^\+/, '');
    const named = short.get(term);
    if (named === undefined) kept.push(rawTerm);
    else if (isReached) passing.add(named);
    if (/^[?~-]?all$/.test(term)) isReached = false;
  }
  return kept.join(' ');
}

/**
 * Evaluates one mechanism. A host with a name passes by its name, or if each of its addresses passes. A receiver
 * knows only the address, so mistakes behind the matching term do not count.
 */
async function resultFor(mechanism: string, found: Found): Promise<SpfResult> {
  const { places, lookups } = found;
  const [, address] = /^ip[46]:(.*)$/.exec(mechanism) ?? [];
  if (address !== undefined) {
    const host = places.hosts.find(({ sourceIps }) => sourceIps.includes(address));
    const helo = host?.name ?? places.returnPathHost;
    return checkHost({ name: null, ip: address, helo }, found);
  }
  const name = mechanism.replace(/^a:/, '');
  const byName = await checkHost({ name, ip: null, helo: name }, found);
  if (byName.result === 'pass') return byName;
  const answers = await Promise.all([lookups.a(name), lookups.aaaa(name)]);
  const ips = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  for (const ip of ips) {
    const client: SpfClient = { name: null, ip, helo: name };
    const result = await checkHost(client, found);
    if (result.result !== 'pass') return result;
  }
  return ips.length > 0 ? { result: 'pass' } : byName;
}

/**
 * Looks up each name once, and nothing after the deadline. Yields before each answer, even a known one: the owner of
 * a domain chooses how long the records are, and they must not block other work or the timer.
 */
function boundLookups(lookups: SpfLookups, signal: AbortSignal): SpfLookups {
  const late = new Promise<DnsResult<never>>((resolve) => {
    const message = 'its look-ups took too long';
    signal.addEventListener('abort', () => resolve({ kind: 'error', message }), { once: true });
  });
  const once = <T>(look: (name: string) => Promise<DnsResult<T>>) => {
    const known = new Map<string, Promise<DnsResult<T>>>();
    return async (name: string): Promise<DnsResult<T>> => {
      await nextTurn();
      if (signal.aborted) return late;
      const answer = known.get(name) ?? Promise.race([look(name), late]);
      known.set(name, answer);
      return answer;
    };
  };
  return {
    a: once((name) => lookups.a(name)),
    aaaa: once((name) => lookups.aaaa(name)),
    mx: once((name) => lookups.mx(name)),
    ptr: once((ip) => lookups.ptr(ip)),
    txt: once((name) => lookups.txt(name)),
  };
}
