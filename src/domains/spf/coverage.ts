/**
 * Determines which hosts of this installation a published SPF record authorises, directly or through `include:`,
 * `redirect=`, `a`, `mx` and `exists` (spf.ts). Ends within EVALUATION_MAX_MS and asks DNS for each name once.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DnsResult } from '../../net/dns/resolver.ts';
import type { InstallationHosts } from '../dns/records.ts';
import { checkHost, type SpfClient, type SpfLookups, type SpfResult } from './spf.ts';

export type SpfCoverage = {
  /** Returns whether the record passes a mechanism of ours, such as `ip4:192.0.2.7` or `a:mail.example.org`. */
  passes: (mechanism: string) => boolean;
  /** The error when a receiver or DNS gave no result; null when there was one. */
  error: Extract<SpfResult, { why: string }> | null;
};

/** Milliseconds. RFC 7208 §4.6.4 gives receivers at least 20 s. The check of a domain ends within 30 s. */
const EVALUATION_MAX_MS = 15_000;

export async function findSpfCoverage(
  mechanisms: readonly string[],
  found: {
    domain: string;
    texts: readonly string[];
    installation: InstallationHosts;
    lookups: SpfLookups;
  },
): Promise<SpfCoverage> {
  const passing = new Set<string>();
  let error: SpfCoverage['error'] = null;
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), EVALUATION_MAX_MS);
  const lookups = limitLookups(found.lookups, deadline.signal);
  const singleLabelTerms = singleLabelTermsOf(mechanisms);
  for (const text of found.texts) {
    for (const mechanism of passingSingleLabels(text, singleLabelTerms)) passing.add(mechanism);
  }
  const texts = found.texts.map((text) => removeTerms(text, singleLabelTerms));
  try {
    for (const mechanism of new Set(mechanisms)) {
      if (passing.has(mechanism)) continue;
      const result = await evaluateMechanism(mechanism, { ...found, texts, lookups });
      if (result.result === 'pass') passing.add(mechanism);
      if ('why' in result) error ??= result;
    }
  } finally {
    clearTimeout(timer);
  }
  return { passes: (mechanism) => passing.has(mechanism), error };
}

type PublishedRecord = Parameters<typeof findSpfCoverage>[1];

/**
 * Returns the mechanisms with a host name of one label, by their lower case. Receivers treat them as a mistake
 * (RFC 7208 §7.1), but our record has one while LETTERHAUS_HOSTNAME is not a full name. dns/advice.ts warns about
 * that name.
 */
function singleLabelTermsOf(mechanisms: readonly string[]): ReadonlyMap<string, string> {
  const singleLabels = mechanisms.filter((mechanism) => /^a:[^.]+$/.test(mechanism));
  return new Map(singleLabels.map((mechanism) => [mechanism.toLowerCase(), mechanism]));
}

/** Returns the mechanisms that the record lists before `all`. */
function passingSingleLabels(text: string, mechanisms: ReadonlyMap<string, string>): string[] {
  const terms = text.split(' ').map(normalizeTerm);
  const end = terms.findIndex((term) => /^[?~-]?all$/.test(term));
  return (end === -1 ? terms : terms.slice(0, end)).flatMap((term) => mechanisms.get(term) ?? []);
}

function removeTerms(text: string, mechanisms: ReadonlyMap<string, string>): string {
  return text
    .split(' ')
    .filter((term) => !mechanisms.has(normalizeTerm(term)))
    .join(' ');
}

function normalizeTerm(term: string): string {
  return term.toLowerCase().replace(/^\+/, '');
}

/**
 * Evaluates one mechanism. A host with a name passes by its name, or if each of its addresses passes. A receiver
 * knows only the address, so mistakes behind the matching term do not count.
 */
async function evaluateMechanism(mechanism: string, found: PublishedRecord): Promise<SpfResult> {
  const { installation, lookups } = found;
  const [, address] = /^ip[46]:(.*)$/.exec(mechanism) ?? [];
  if (address !== undefined) {
    const host = installation.hosts.find(({ sourceIps }) => sourceIps.includes(address));
    const helo = host?.name ?? installation.returnPathHost;
    return checkHost({ name: null, ip: address, helo }, found);
  }
  const name = mechanism.replace(/^a:/, '');
  const byName = await checkHost({ name, ip: null, helo: name }, found);
  if (byName.result === 'pass') return byName;
  const responses = await Promise.all([lookups.a(name), lookups.aaaa(name)]);
  const ips = responses.flatMap((response) =>
    response.kind === 'records' ? response.records : [],
  );
  for (const ip of ips) {
    const client: SpfClient = { name: null, ip, helo: name };
    const result = await checkHost(client, found);
    if (result.result !== 'pass') return result;
  }
  return ips.length > 0 ? { result: 'pass' } : byName;
}

/**
 * Looks up each name once, and nothing after the deadline. Yields before each response, even a known one: the owner of
 * a domain chooses how long the records are, and they must not block other work or the timer.
 */
function limitLookups(lookups: SpfLookups, signal: AbortSignal): SpfLookups {
  const deadlineResult = new Promise<DnsResult<never>>((resolve) => {
    const message = 'its look-ups took too long';
    signal.addEventListener('abort', () => resolve({ kind: 'error', message }), { once: true });
  });
  const lookUpOnce = <T>(lookUp: (name: string) => Promise<DnsResult<T>>) => {
    const known = new Map<string, Promise<DnsResult<T>>>();
    return async (name: string): Promise<DnsResult<T>> => {
      await nextTurn();
      if (signal.aborted) return deadlineResult;
      const response = known.get(name) ?? Promise.race([lookUp(name), deadlineResult]);
      known.set(name, response);
      return response;
    };
  };
  return {
    a: lookUpOnce((name) => lookups.a(name)),
    aaaa: lookUpOnce((name) => lookups.aaaa(name)),
    mx: lookUpOnce((name) => lookups.mx(name)),
    ptr: lookUpOnce((ip) => lookups.ptr(ip)),
    txt: lookUpOnce((name) => lookups.txt(name)),
  };
}
