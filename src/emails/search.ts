/**
 * Parses the search of `GET /v1/emails?q=` and `letterhaus emails list --query`: words, and operators with a value,
 * like `to:jo@example.com after:2026-11-21 receipt "order 4711"`. Each operator is a filter of the list with its
 * bounds. Words and quoted texts are parts of the subject, and an email must contain all of them.
 */
import { FINAL_STATUSES, OPEN_STATUSES, type Status } from '../core/statuses.ts';
import { addressKey, parseDomain, parseMailbox } from '../mail/address.ts';
import type { EmailFilter } from './email-store.ts';
import { TAG_PATTERN } from '../accept/draft.ts';

export const SEARCH_MAX = 1_000;

/** Each word is searched in 50,000 subjects: eight take 0.4 s, a hundred several seconds. */
const WORDS_MAX = 8;

export type Search = Omit<EmailFilter, 'keyId'>;

const NO_FILTERS: Search = {
  to: null,
  from: null,
  status: null,
  domain: null,
  tag: null,
  createdAfter: null,
  createdBefore: null,
  subject: null,
};

const STATUSES: readonly Status[] = ['sending', ...OPEN_STATUSES, ...FINAL_STATUSES];

type Operator = {
  field: Exclude<keyof Search, 'subject'>;
  parse: (text: string) => Search[Operator['field']];
  /** Completes "is not". */
  what: string;
};

const A_DATE = 'a date or a time with its offset, like 2026-11-21 or 2026-11-21T09:00:00+01:00';

const OPERATORS: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ['to', { field: 'to', parse: parseAddressKey, what: 'an email address' }],
  ['from', { field: 'from', parse: parseAddressKey, what: 'an email address' }],
  ['status', { field: 'status', parse: parseStatus, what: `one of ${STATUSES.join(', ')}` }],
  ['domain', { field: 'domain', parse: parseDomain, what: 'a domain name, like acme.com' }],
  ['tag', { field: 'tag', parse: parseTag, what: 'a tag, like kind or kind:receipt' }],
  ['after', { field: 'createdAfter', parse: parseTime, what: A_DATE }],
  ['before', { field: 'createdBefore', parse: parseTime, what: A_DATE }],
]);

const NAMES = [...OPERATORS.keys()].map((name) => `${name}:`).join(', ');

/** A word up to white space. Quotation marks keep text together: `"a b"`, `tag:"a"`. */
const TERM = /(?:([a-z_]{1,32}):)?("[^"]*"|[^\s"]+|(?=\s|$))/giy;

/** @returns the filters, or problems that each complete a sentence */
export function readSearch(text: string): Search | { problems: string[] } {
  const problems: string[] = [];
  const found: Record<string, unknown> = {};
  const words: string[] = [];
  for (const term of termsOf(text, problems)) {
    const { name, value } = term;
    const operator = name === null ? undefined : OPERATORS.get(name.toLowerCase());
    if (name === null || (operator === undefined && value === '')) {
      words.push(name === null ? value : `${name}:`);
    } else if (operator === undefined) problems.push(unknownOperator(name));
    else if (operator.field in found) problems.push(`has ${name}: twice; remove one of them`);
    else {
      found[operator.field] = operator.parse(value);
      if (found[operator.field] === null) {
        problems.push(`${name}: ${JSON.stringify(value)} is not ${operator.what}`);
      }
    }
  }
  if (words.length > WORDS_MAX) {
    problems.push(`has more than ${WORDS_MAX} words; put consecutive words in quotation marks`);
  }
  if (problems.length > 0) return { problems };
  return { ...NO_FILTERS, ...found, subject: words.length === 0 ? null : words };
}

function unknownOperator(name: string): string {
  return `${name}: is not an operator; use ${NAMES}, or put the text in quotation marks`;
}

type Term = { name: string | null; value: string };

function* termsOf(text: string, problems: string[]): Generator<Term> {
  for (let at = 0; at < text.length;) {
    if (/\s/.test(text[at]!)) {
      at += 1;
      continue;
    }
    TERM.lastIndex = at;
    const match = TERM.exec(text);
    if (match === null) {
      problems.push('has an unclosed quotation mark');
      return;
    }
    const [whole, name = null, raw = ''] = match;
    const value = raw.startsWith('"') ? raw.slice(1, -1) : raw;
    if (name !== null || value !== '') yield { name, value };
    at += whole.length;
  }
}

/**
 * Combines the filter of the query parameters with the filter of the search.
 * @returns `duplicate`: the operator whose filter is already set
 */
export function mergeSearch(
  filter: EmailFilter,
  search: Search,
): EmailFilter | { duplicate: string } {
  const given = Object.entries(search).filter(([, value]) => value !== null);
  const twice = given.find(([field]) => filter[field as keyof Search] !== null)?.[0];
  if (twice === undefined) return { ...filter, ...Object.fromEntries(given) };
  const operator = [...OPERATORS].find(([, { field }]) => field === twice);
  return { duplicate: operator === undefined ? 'a part of the subject' : `${operator[0]}:` };
}

/** Returns an addressKey, the format of the filters. */
export function parseAddressKey(text: string): string | null {
  const mailbox = parseMailbox(text);
  return mailbox && addressKey(mailbox.address);
}

/** `name` or `name:value`. */
export function parseTag(text: string): EmailFilter['tag'] {
  const [name = '', value, ...more] = text.split(':');
  if (!TAG_PATTERN.test(name) || more.length > 0) return null;
  if (value === undefined) return { name };
  return TAG_PATTERN.test(value) ? { name, value } : null;
}

function parseStatus(text: string): Status | null {
  return STATUSES.find((status) => status === text.toLowerCase()) ?? null;
}

const DATE_OR_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/i;

function parseTime(text: string): Date | null {
  if (!DATE_OR_TIME.test(text)) return null;
  const time = new Date(text.toUpperCase());
  if (Number.isNaN(time.getTime())) return null;
  // Date would read 2026-02-30 as a day in March.
  const isReal = new Date(`${text.slice(0, 10)}T00:00:00Z`)
    .toISOString()
    .startsWith(text.slice(0, 10));
  return isReal ? time : null;
}
