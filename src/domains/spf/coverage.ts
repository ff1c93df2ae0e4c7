/**
 * Which hosts of this installation a published SPF record authorises, directly or through `include:`, `redirect=`, `a`,
 * `mx` and `exists` (spf.ts). Ends within EVALUATION_MAX_MS, and asks DNS for each name once.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DnsAnswer } from '../../net/dns/resolver.ts';
import type { Places } from '../dns/records.ts';
import { checkHost, type SpfClient, type SpfLookups, type SpfResult } from './spf.ts';

export type SpfCoverage = {
  /** Of the mechanisms of our record, such as `ip4:192.0.2.7` or `a:mail.example.org`, those that pass. */
  passes: (mechanism: string) => boolean;
  /** Why a receiver, or DNS, gave no result for one of the others. */
  error: Extract<SpfResult, { why: string }> | null;
};

/** RFC 7208 §4.6.4 asks receivers to give it at least 20 s; a check of a domain ends within 30 s. */
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
 * A host name of one label is a mistake in a record (RFC 7208 §7.1), and yet what our record has while
 * LETTERHAUS_HOSTNAME is not a full name. The advice about that name says what it means (domains/dns/advice.ts).
 */
function shortNames(mechanisms: readonly string[]): ReadonlyMap<string, string> {
  const short = mechanisms.filter((mechanism) => /^a:[^.]+$/.test(mechanism));
  return new Map(short.map((mechanism) => [mechanism.toLowerCase(), mechanism]));
}

/** The record without these terms; those that it has before `all` are added to `passing`. */
function without(short: ReadonlyMap<string, string>, text: string, passing: Set<string>): string {
  const kept: string[] = [];
  let isReached = true;
  for (const written of text.split(' ')) {
    const term = written.toLowerCase().replace(/^\+/, '');
    const named = short.get(term);
    if (named === undefined) kept.push(written);
    else if (isReached) passing.add(named);
    if (/^[?~-]?all$/.test(term)) isReached = false;
  }
  return kept.join(' ');
}

/**
 * A host that is named passes by its name, or if each of its addresses does. A receiver knows only the address, so that a
 * mistake behind the term that names it is none.
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
 * Each name is looked up once, and nothing after the time is up. Before each answer, also a known one, other work gets its
 * turn, and so does the timer: the owner of a domain decides how long the records are.
 */
function boundLookups(lookups: SpfLookups, signal: AbortSignal): SpfLookups {
  const late = new Promise<DnsAnswer<never>>((resolve) => {
    const message = 'its look-ups took too long';
    signal.addEventListener('abort', () => resolve({ kind: 'error', message }), { once: true });
  });
  const once = <T>(look: (name: string) => Promise<DnsAnswer<T>>) => {
    const known = new Map<string, Promise<DnsAnswer<T>>>();
    return async (name: string): Promise<DnsAnswer<T>> => {
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
