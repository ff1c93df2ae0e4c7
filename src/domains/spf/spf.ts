/**
 * Evaluates an SPF record as receivers do (RFC 7208 §4 to §7): decides whether a host may send for the domain. It
 * follows `include:` and `redirect=`, and looks up `a`, `mx`, `ptr` and `exists`. It has the limits of a receiver: ten
 * look-ups, two of them without a record, and ten names of an MX. A host matches by its address, or by its name where a
 * record contains that name.
 *
 * Never throws. `temperror` means that DNS did not respond.
 */
import { isIP, isIPv6 } from 'node:net';
import type { Resolver } from '../../net/dns/resolver.ts';
import { expandMacros } from './macros.ts';
import { networksContain, isSpf, parseSpf, type SpfRecord, type Term } from './record.ts';

export type SpfResult = { result: 'pass' | 'fail' | 'softfail' | 'neutral' | 'none' } | SpfError;

/** `why` ends a sentence that begins with "because". */
type SpfError = { result: 'permerror' | 'temperror'; why: string };

export type SpfLookups = Pick<Resolver, 'a' | 'aaaa' | 'mx' | 'ptr' | 'txt'>;

/** The sending host, known by its address or by its name. An `a:` mechanism may contain the name. */
export type SpfClient = { helo: string } & (
  | { ip: string; name: null }
  | { ip: null; name: string }
);

/** RFC 7208 §4.6.4 */
export const SPF_LOOKUPS_MAX = 10;
const VOID_LOOKUPS_MAX = 2;
const NAMES_OF_HOST_MAX = 10;

const RESULT_OF_QUALIFIER = { '+': 'pass', '-': 'fail', '~': 'softfail', '?': 'neutral' } as const;

/** One evaluation of a record and of those that it includes. It counts their look-ups. */
type Evaluation = {
  client: SpfClient;
  lookups: SpfLookups;
  sender: string;
  lookupCount: number;
  voidCount: number;
};

/**
 * Returns the result of the record for this host.
 * @param texts TXT records at the domain, each with its strings joined
 */
export function checkHost(
  client: SpfClient,
  { domain, texts, lookups }: { domain: string; texts: readonly string[]; lookups: SpfLookups },
): Promise<SpfResult> {
  const evaluation = { client, lookups, sender: domain, lookupCount: 0, voidCount: 0 };
  return evaluateTexts(evaluation, texts, [domain.toLowerCase()]);
}

/**
 * Evaluates the record among the texts.
 * @param path the domain of the record, then the domains that included it, the last one first
 */
async function evaluateTexts(
  evaluation: Evaluation,
  texts: readonly string[],
  path: readonly string[],
): Promise<SpfResult> {
  const records = texts.filter(isSpf);
  const [text] = records;
  if (text === undefined) return { result: 'none' };
  if (records.length > 1) return permerror(`${path[0]} has ${records.length} SPF records`);
  const record = parseSpf(text);
  if ('problem' in record) return permerror(`the record of ${path[0]} has ${record.problem}`);
  for (const term of record.terms) {
    const match = await matchTerm(evaluation, term, path);
    if (match === true) return { result: RESULT_OF_QUALIFIER[term.qualifier] };
    if (match !== false) return match;
  }
  return evaluateRedirect(evaluation, record, path);
}

/** Follows `redirect=` (§6.1). `all` always matches, so `redirect=` counts only in a record without `all`. */
async function evaluateRedirect(
  evaluation: Evaluation,
  { redirect }: SpfRecord,
  path: readonly string[],
): Promise<SpfResult> {
  if (redirect === null) return { result: 'neutral' };
  const found = await evaluateAt(evaluation, redirect, path);
  return found.result === 'none' ? permerror(`${redirect} has no SPF record`) : found;
}

async function evaluateAt(
  evaluation: Evaluation,
  spec: string,
  path: readonly string[],
): Promise<SpfResult> {
  const target = countAndExpand(evaluation, spec, path);
  if (typeof target !== 'string') return target;
  if (path.includes(target)) return permerror(`${target} includes itself`);
  const response = await evaluation.lookups.txt(target);
  if (response.kind === 'error') return temperror(response.message);
  const texts = response.kind === 'records' ? response.records : [];
  return evaluateTexts(evaluation, texts, [target, ...path]);
}

/** Counts a look-up, and returns the name to look up: the expanded spec, or the domain of the record without one. */
function countAndExpand(
  evaluation: Evaluation,
  spec: string,
  [domain = '']: readonly string[],
): string | SpfError {
  evaluation.lookupCount += 1;
  if (evaluation.lookupCount > SPF_LOOKUPS_MAX) {
    return permerror(`it needs more than ${SPF_LOOKUPS_MAX} DNS look-ups`);
  }
  if (spec === '') return domain;
  const { client, sender } = evaluation;
  const target = expandMacros(spec, {
    ip: client.ip ?? '0.0.0.0',
    domain,
    sender,
    helo: client.helo,
  });
  return target.toLowerCase().replace(/\.$/, '');
}

async function matchTerm(
  evaluation: Evaluation,
  term: Term,
  path: readonly string[],
): Promise<boolean | SpfError> {
  const { client } = evaluation;
  switch (term.name) {
    case 'all':
      return true;
    case 'ip4':
    case 'ip6':
      return client.ip !== null && networksContain(term, [term.spec], client.ip);
    case 'include': {
      const found = await evaluateAt(evaluation, term.spec, path);
      if (found.result === 'none') return permerror(`${term.spec} has no SPF record`);
      return 'why' in found ? found : found.result === 'pass';
    }
    case 'a':
    case 'mx':
    case 'ptr':
    case 'exists': {
      const target = countAndExpand(evaluation, term.spec, path);
      if (typeof target !== 'string') return target;
      if (term.name === 'a' && target === client.name?.toLowerCase()) return true;
      return client.ip === null ? false : matchAddress(evaluation, term, { target, ip: client.ip });
    }
  }
}

async function matchAddress(
  evaluation: Evaluation,
  term: Term,
  { target, ip }: { target: string; ip: string },
): Promise<boolean | SpfError> {
  const { lookups } = evaluation;
  if (term.name === 'ptr') return isNamedBelow(target, ip, lookups);
  if (term.name === 'mx') return matchMx(evaluation, term, { target, ip });
  const isV6 = isIPv6(ip) && term.name === 'a';
  const response = await (isV6 ? lookups.aaaa(target) : lookups.a(target));
  if (response.kind === 'error') return temperror(response.message);
  if (response.kind !== 'records') return countVoid(evaluation);
  return term.name === 'exists' || networksContain(term, response.records, ip);
}

async function matchMx(
  evaluation: Evaluation,
  term: Term,
  { target, ip }: { target: string; ip: string },
): Promise<boolean | SpfError> {
  const { lookups } = evaluation;
  const response = await lookups.mx(target);
  if (response.kind === 'error') return temperror(response.message);
  if (response.kind !== 'records') return countVoid(evaluation);
  if (response.records.length > NAMES_OF_HOST_MAX) {
    return permerror(`${target} has more than ${NAMES_OF_HOST_MAX} MX records`);
  }
  for (const { exchange } of response.records) {
    const hosts = await (isIPv6(ip) ? lookups.aaaa(exchange) : lookups.a(exchange));
    if (hosts.kind === 'error') return temperror(hosts.message);
    if (hosts.kind === 'records' && networksContain(term, hosts.records, ip)) return true;
  }
  return false;
}

/** Counts a look-up without a record, which §4.6.4 limits because attacks use them. */
function countVoid(evaluation: Evaluation): false | SpfError {
  evaluation.voidCount += 1;
  if (evaluation.voidCount <= VOID_LOOKUPS_MAX) return false;
  return permerror(`more than ${VOID_LOOKUPS_MAX} of the names in it do not exist`);
}

/** Returns (§5.5) whether a name of the address is the target or below it, and resolves back to the address. */
async function isNamedBelow(target: string, ip: string, lookups: SpfLookups): Promise<boolean> {
  const response = await lookups.ptr(ip);
  const names = response.kind === 'records' ? response.records.slice(0, NAMES_OF_HOST_MAX) : [];
  for (const name of names) {
    const lowerCase = name.toLowerCase().replace(/\.$/, '');
    if (lowerCase !== target && !lowerCase.endsWith(`.${target}`)) continue;
    const addresses = await (isIPv6(ip) ? lookups.aaaa(name) : lookups.a(name));
    if (
      addresses.kind === 'records' &&
      addresses.records.some((address) => isSameAddress(address, ip))
    )
      return true;
  }
  return false;
}

function isSameAddress(a: string, b: string): boolean {
  const bits = isIPv6(b) ? 128 : 32;
  return isIP(a) === isIP(b) && networksContain({ bits4: bits, bits6: bits }, [a], b);
}

function permerror(why: string): SpfError {
  return { result: 'permerror', why };
}

function temperror(why: string): SpfError {
  return { result: 'temperror', why };
}
