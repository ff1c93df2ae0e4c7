/**
 * Compares the SPF records of a return path with the one that has to be there (RFC 7208). Records are compared by
 * meaning. Each typical mistake has its own message.
 */
import { BlockList, isIP } from 'node:net';
import { SPF_LOOKUPS_MAX } from '../spf/spf.ts';
import type { SpfCoverage } from '../spf/coverage.ts';
import { isSpf, parseSpf } from '../spf/record.ts';
import { mismatch, type RecordComparison, TRY_AGAIN } from './record-comparison.ts';

const COSTS_LOOKUP = /^[+?~-]?(include:|exists:|redirect=|(a|mx|ptr)([:/]|$))/;

/**
 * Compares the records with the expected one.
 * @param texts TXT records at the name, at least one, each with its strings joined
 * @param sufficient sets of mechanisms; when one set is present, the rest of the expected record is optional
 * @param coverage hosts that receivers authorise when they follow the record; without it, only the record's own text
 * counts
 */
export function compareSpf(
  expected: string,
  texts: readonly string[],
  sufficient: readonly (readonly string[])[] = [],
  coverage: SpfCoverage | null = null,
): RecordComparison {
  const records = texts.filter(isSpf);
  const [found] = records;
  if (found === undefined) return findNoSpf(texts);
  if (records.length > 1) {
    return mismatch(
      `there are ${records.length} SPF records, which receivers treat as an error`,
      `merge them into "${mergeSpf(expected, records)}" and delete the others`,
    );
  }
  const terms = termsOf(found);
  const isCovered =
    coverage?.passes ?? ((mechanism: string): boolean => recordCovers(terms, mechanism));
  const missing = mechanismsOf(expected).filter((mechanism) => !isCovered(mechanism));
  const isAuthorised = sufficient.some((mechanisms) => mechanisms.every(isCovered));
  if (missing.length > 0 && !isAuthorised) {
    const suggestion = 'problem' in parseSpf(found) ? null : mergeSpf(expected, records);
    const error = spfError(coverage?.error ?? null, suggestion);
    if (error !== null) return error;
    return mismatch(
      `the SPF record does not name this service (${missing.join(' ')})`,
      `change it to "${mergeSpf(expected, records)}"`,
    );
  }
  const lookups = terms.filter((term) => COSTS_LOOKUP.test(term)).length;
  if (lookups > SPF_LOOKUPS_MAX) {
    return mismatch(
      `the SPF record needs ${lookups} DNS look-ups and receivers stop after ${SPF_LOOKUPS_MAX}`,
      'remove what you no longer use',
    );
  }
  if (missing.length === 0) return { status: 'verified', problem: null };
  const problem = {
    mistake: `the SPF record does not name all sending hosts (${missing.join(' ')}), whose mail fails SPF`,
    remedy: `change it to "${mergeSpf(expected, records)}"`,
  };
  return { status: 'verified', problem };
}

function spfError(error: SpfCoverage['error'], suggestion: string | null): RecordComparison | null {
  if (error === null) return null;
  const { result, why } = error;
  if (result === 'temperror') {
    const mistake = `DNS gave no answer about a part of the SPF record, so nothing is known about it (${why})`;
    return { status: 'dns_error', problem: { mistake, remedy: TRY_AGAIN } };
  }
  const advice =
    suggestion === null ? 'correct it' : `correct that, or change the record to "${suggestion}"`;
  return mismatch(`receivers treat the SPF record as an error, because ${why}`, advice);
}

function findNoSpf(texts: readonly string[]): RecordComparison {
  if (texts.some((text) => /^[\s"'“”]+v=spf1/i.test(text))) {
    return mismatch(
      'the SPF record starts with a quotation mark or a space',
      'enter it without, from "v=spf1" on',
    );
  }
  return {
    status: 'missing',
    problem: {
      mistake: 'there are TXT records at this name, but none that starts with "v=spf1"',
      remedy: 'add the value shown',
    },
  };
}

function termsOf(record: string): string[] {
  return record.toLowerCase().split(/\s+/).slice(1).filter(Boolean);
}

export function mechanismsOf(record: string): string[] {
  return termsOf(record).filter((term) => !isAll(term));
}

function isAll(term: string): boolean {
  return /^[+?~-]?all$/.test(term);
}

/** `all` ends the evaluation, so later terms do not count. */
function recordCovers(terms: readonly string[], mechanism: string): boolean {
  const end = terms.findIndex(isAll);
  const evaluated = end === -1 ? terms : terms.slice(0, end);
  return evaluated.some((term) => {
    const passing = term.replace(/^\+/, '').replace(/\.$/, '');
    return passing === mechanism || networkContains(passing, mechanism);
  });
}

/** `ip4:192.0.2.0/24` contains `ip4:192.0.2.7`. */
function networkContains(term: string, mechanism: string): boolean {
  const [, version, network = '', bits] = /^ip([46]):([^/]+)(?:\/(\d{1,3}))?$/.exec(term) ?? [];
  const family = isIP(network);
  if (version === undefined || family !== Number(version)) return false;
  const type = family === 4 ? 'ipv4' : 'ipv6';
  const longest = family === 4 ? 32 : 128;
  const length = Number(bits ?? longest);
  const address = mechanism.replace(/^ip[46]:/, '');
  if (length > longest || isIP(address) !== family) return false;
  const list = new BlockList();
  list.addSubnet(network, length, type);
  return list.check(address, type);
}

/** Merges our record and the records found into one that passes what each of them passes. Our terms come first. */
function mergeSpf(expected: string, records: readonly string[]): string {
  const foundTerms = records.flatMap(termsOf);
  const modifiers = foundTerms.filter(isModifier);
  // `redirect=` is ignored if there is an `all` (RFC 7208 §6.1).
  const hasRedirect = modifiers.some((term) => term.startsWith('redirect='));
  const end = foundTerms.find(isAll) ?? (hasRedirect ? '' : '~all');
  const mechanisms = foundTerms.filter((term) => !isAll(term) && !isModifier(term));
  const terms = new Set([...mechanismsOf(expected), ...mechanisms, ...modifiers, end]);
  return ['v=spf1', ...terms].join(' ').trim();
}

function isModifier(term: string): boolean {
  return /^[a-z][a-z0-9_.-]*=/.test(term);
}
