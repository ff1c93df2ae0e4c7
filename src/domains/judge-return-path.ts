/**
 * Do MX and SPF of the return path lead to this service? Like judge-dkim.ts: meaning, not text, and
 * one sentence per typical mistake. SPF is RFC 7208. Pure.
 */
import { BlockList, isIP } from 'node:net';
import type { MxRecord } from '../net/dns/resolver.ts';
import type { Judgement } from './judge-dkim.ts';

/** RFC 7208 §4.6.4: with more, receivers give up with an error. */
const MAX_SPF_LOOKUPS = 10;
const COSTS_LOOKUP = /^[+?~-]?(include:|exists:|redirect=|(a|mx|ptr)([:/]|$))/;

/**
 * @param names those that lead to this installation; the first is the value that is asked for
 * @param records at least one, by preference
 * @param zones the domain and its parents, any of which a panel may append
 */
export function judgeMx(
  names: readonly string[],
  records: readonly MxRecord[],
  zones: readonly string[],
): Judgement {
  const [host = ''] = names;
  const best = Math.min(...records.map(({ preference }) => preference));
  const others = records.filter(({ exchange }) => !names.includes(exchange));
  const inTheWay = others.find(({ preference }) => preference <= best);
  if (inTheWay === undefined) return { status: 'verified', problem: null };
  const { exchange } = inTheWay;
  if (exchange === '.') {
    return mismatch(`the MX says that this name takes no mail (null MX): replace it with ${host}`);
  }
  if (zones.some((zone) => exchange === `${host}.${zone}`)) {
    return mismatch(
      `the MX points to ${exchange}: your DNS panel appended the zone name, so end the value with a dot: "${host}."`,
    );
  }
  if (isIP(exchange) !== 0) {
    return mismatch(`the MX holds an address (${exchange}), but must hold the name ${host}`);
  }
  if (records.length > others.length) {
    return mismatch(
      `the MX ${exchange} comes before or beside ours, so bounces would not reach this service: remove it`,
    );
  }
  return mismatch(`the MX points to ${exchange} instead of ${host}: replace it`);
}

/**
 * @param texts the TXT records at the name, at least one, the strings of each joined
 * @param sufficient sets of mechanisms; with any of them the rest of the expected is a wish
 */
export function judgeSpf(
  expected: string,
  texts: readonly string[],
  sufficient: readonly (readonly string[])[] = [],
): Judgement {
  const records = texts.filter((text) => /^v=spf1( |$)/i.test(text));
  const [found] = records;
  if (found === undefined) return notSpf(texts);
  if (records.length > 1) {
    return mismatch(
      `there are ${records.length} SPF records, which receivers treat as an error: merge them into "${merged(expected, records)}" and delete the others`,
    );
  }
  const terms = termsOf(found);
  const missing = mechanismsOf(expected).filter((wanted) => !covers(terms, wanted));
  const holds = (wanted: string): boolean => covers(terms, wanted);
  const isOurs = sufficient.some((mechanisms) => mechanisms.every(holds));
  if (missing.length > 0 && !isOurs) {
    return mismatch(
      `the SPF record does not name this service (${missing.join(' ')}): change it to "${merged(expected, records)}"`,
    );
  }
  const lookups = terms.filter((term) => COSTS_LOOKUP.test(term)).length;
  if (lookups > MAX_SPF_LOOKUPS) {
    return mismatch(
      `the SPF record needs ${lookups} DNS look-ups and receivers stop after ${MAX_SPF_LOOKUPS}: remove what you no longer use`,
    );
  }
  if (missing.length === 0) return { status: 'verified', problem: null };
  const problem = `mail also leaves from where the SPF record does not name it (${missing.join(' ')}), and fails SPF then: change it to "${merged(expected, records)}"`;
  return { status: 'verified', problem };
}

function notSpf(texts: readonly string[]): Judgement {
  if (texts.some((text) => /^[\s"'“”]+v=spf1/i.test(text))) {
    return mismatch(
      'the SPF record starts with a quotation mark or a space: enter it without, from "v=spf1" on',
    );
  }
  return {
    status: 'missing',
    problem:
      'there are TXT records at this name, but none that starts with "v=spf1": add the value shown',
  };
}

/** What follows `v=spf1`, in lower case. */
function termsOf(record: string): string[] {
  return record.toLowerCase().split(/\s+/).slice(1).filter(Boolean);
}

function mechanismsOf(record: string): string[] {
  return termsOf(record).filter((term) => !isAll(term));
}

function isAll(term: string): boolean {
  return /^[+?~-]?all$/.test(term);
}

/** True when a term before `all`, which ends the evaluation, passes what `wanted` passes. */
function covers(terms: readonly string[], wanted: string): boolean {
  const end = terms.findIndex(isAll);
  const evaluated = end === -1 ? terms : terms.slice(0, end);
  return evaluated.some((term) => {
    const passing = term.replace(/^\+/, '').replace(/\.$/, '');
    return passing === wanted || networkHolds(passing, wanted);
  });
}

/** `ip4:192.0.2.0/24` covers `ip4:192.0.2.7`. */
function networkHolds(term: string, wanted: string): boolean {
  const [, version, network = '', bits] = /^ip([46]):([^/]+)(?:\/(\d{1,3}))?$/.exec(term) ?? [];
  const family = isIP(network);
  if (version === undefined || family !== Number(version)) return false;
  const type = family === 4 ? 'ipv4' : 'ipv6';
  const longest = family === 4 ? 32 : 128;
  const length = Number(bits ?? longest);
  const address = wanted.replace(/^ip[46]:/, '');
  if (length > longest || isIP(address) !== family) return false;
  const list = new BlockList();
  list.addSubnet(network, length, type);
  return list.check(address, type);
}

/** One record that passes all that ours and the found ones pass, ours first. */
function merged(expected: string, records: readonly string[]): string {
  const theirs = records.flatMap(termsOf);
  const modifiers = theirs.filter(isModifier);
  // `redirect=` only works without an `all` (RFC 7208 §6.1).
  const redirected = modifiers.some((term) => term.startsWith('redirect='));
  const end = theirs.find(isAll) ?? (redirected ? '' : '~all');
  const mechanisms = theirs.filter((term) => !isAll(term) && !isModifier(term));
  const terms = new Set([...mechanismsOf(expected), ...mechanisms, ...modifiers, end]);
  return ['v=spf1', ...terms].join(' ').trim();
}

function isModifier(term: string): boolean {
  return /^[a-z][a-z0-9_.-]*=/.test(term);
}

function mismatch(problem: string): Judgement {
  return { status: 'mismatch', problem };
}
