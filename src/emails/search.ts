/**
 * Parses the search of `GET /v1/emails?q=` and `letterhaus emails list --query`: words, and operators with a value,
 * like `to:jo@example.com after:2026-11-21 receipt "order 4711"`. Each operator is a filter of the list with its
 * bounds. Words and quoted texts are parts of the subject, an address, a name, a tag or the Message-ID, and an email
 * must contain all of them. An id alone, or the Message-ID that the service made of it, is that of an email.
 */
import {
  CATEGORIES,
  type Category,
  FINAL_STATUSES,
  OPEN_STATUSES,
  type Status,
} from '../core/statuses.ts';
import { addressKey, parseDomain, parseMailbox } from '../mail/address.ts';
import { type EmailFilter, NO_FILTER } from './list/email-list-store.ts';
import { TAG_PATTERN } from '../accept/draft.ts';

export const SEARCH_MAX = 1_000;

/** Each word is searched in up to 50,000 emails: a hundred would take several seconds. */
const WORDS_MAX = 8;

export type Search = Omit<EmailFilter, 'keyId'>;

const STATUSES: readonly Status[] = ['sending', ...OPEN_STATUSES, ...FINAL_STATUSES];

type Operator = {
  /** Returns the filters, or null when the text has another form. */
  parse: (text: string) => Partial<Search> | null;
  /** Completes "is not". */
  what: string;
};

const A_DATE = 'a date or a time with its offset, like 2026-11-21 or 2026-11-21T09:00:00+01:00';

const OPERATORS: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ['to', { parse: parseTo, what: 'an address or a part of one' }],
  ['from', { parse: parseFrom, what: 'an address or a part of one' }],
  ['subject', { parse: partOf('subject'), what: 'a part of a subject' }],
  ['status', { parse: field('status', parseStatus), what: `one of ${STATUSES.join(', ')}` }],
  ['domain', { parse: field('domain', parseDomain), what: 'a domain name, like acme.com' }],
  ['tag', { parse: field('tag', parseTag), what: 'a tag, like kind or kind:receipt' }],
  [
    'template',
    { parse: field('template', parseName), what: 'the name, alias or id of a template' },
  ],
  ['key', { parse: field('key', parseName), what: 'the name or id of an API key' }],
  ['provider', { parse: field('provider', parseName), what: 'a provider, like google' }],
  ['reason', { parse: field('reason', parseReason), what: `one of ${CATEGORIES.join(', ')}` }],
  ['reply', { parse: partOf('reply'), what: 'a part of a reply' }],
  ['server', { parse: partOf('server'), what: 'a part of the name of a mail server' }],
  ['id', { parse: field('id', parseEmailId), what: 'the id of an email' }],
  ['after', { parse: field('createdAfter', parseTime), what: A_DATE }],
  ['before', { parse: field('createdBefore', parseTime), what: A_DATE }],
]);

const NAMES = [...OPERATORS.keys()].map((name) => `${name}:`).join(', ');

function field<Name extends keyof Search>(name: Name, parse: (text: string) => Search[Name]) {
  return (text: string): Partial<Search> | null => {
    const value = parse(text);
    return value === null ? null : { [name]: value };
  };
}

function partOf(name: 'subject' | 'reply' | 'server') {
  return (text: string): Partial<Search> | null => {
    if (text === '') return null;
    return name === 'subject' ? { subject: [text] } : { [name]: text };
  };
}

/** A whole address has an index, and compares as addresses do. */
function parseTo(text: string): Partial<Search> | null {
  if (text === '') return null;
  const to = parseAddressKey(text);
  return to === null ? { toPart: text } : { to };
}

function parseFrom(text: string): Partial<Search> | null {
  if (text === '') return null;
  const from = parseAddressKey(text);
  return from === null ? { fromPart: text } : { from };
}

/** A word up to white space. Quotation marks keep text together: `"a b"`, `tag:"a"`. */
const TERM = /(?:([a-z_]{1,32}):)?("[^"]*"|[^\s"]+|(?=\s|$))/giy;

/** @returns the filters, or problems that each complete a sentence */
export function readSearch(text: string): Search | { problems: string[] } {
  const problems: string[] = [];
  const found: Partial<Search> = {};
  const given = new Set<string>();
  const words: string[] = [];
  const add = (name: string, filters: Partial<Search>): void => {
    if (given.has(name)) problems.push(`has ${name}: twice; remove one of them`);
    given.add(name);
    Object.assign(found, filters);
  };
  for (const { name, value, isQuoted } of termsOf(text, problems)) {
    const operator = name === null ? undefined : OPERATORS.get(name.toLowerCase());
    const id = name === null && !isQuoted ? parseEmailId(value) : null;
    if (id !== null) add('id', { id });
    else if (name === null) words.push(value);
    else if (operator === undefined && value === '') words.push(`${name}:`);
    else if (operator === undefined) problems.push(unknownOperator(name));
    else {
      const filters = operator.parse(value);
      if (filters !== null) add(name.toLowerCase(), filters);
      else problems.push(`${name}: ${JSON.stringify(value)} is not ${operator.what}`);
    }
  }
  if (words.length > WORDS_MAX) {
    problems.push(`has more than ${WORDS_MAX} words; put consecutive words in quotation marks`);
  }
  if (problems.length > 0) return { problems };
  return { ...NO_FILTER, ...found, words: words.length === 0 ? null : words };
}

function unknownOperator(name: string): string {
  return `${name}: is not an operator; use ${NAMES}, or put the text in quotation marks`;
}

type Term = { name: string | null; value: string; isQuoted: boolean };

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
    const isQuoted = raw.startsWith('"');
    const value = isQuoted ? raw.slice(1, -1) : raw;
    if (name !== null || value !== '') yield { name, value, isQuoted };
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
  const twice = given.find(([name]) => filter[name as keyof Search] !== null)?.[0];
  if (twice === undefined) return { ...filter, ...Object.fromEntries(given) };
  return { duplicate: `${OPERATOR_OF_FIELD[twice] ?? twice}:` };
}

const OPERATOR_OF_FIELD: Readonly<Record<string, string>> = {
  createdAfter: 'after',
  createdBefore: 'before',
};

/** Returns an addressKey, the format of the filters. */
export function parseAddressKey(text: string): string | null {
  const mailbox = parseMailbox(text);
  return mailbox && addressKey(mailbox.address);
}

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';
const EMAIL_ID = new RegExp(`^(?:(${UUID})|<?(${UUID})@[^<>@]+>?)$`, 'i');

/** An id, or a Message-ID that has one, as those of the service have. */
function parseEmailId(text: string): string | null {
  const [, id, ofMessage] = EMAIL_ID.exec(text) ?? [];
  return (id ?? ofMessage)?.toLowerCase() ?? null;
}

/** `name` or `name:value`. */
export function parseTag(text: string): EmailFilter['tag'] {
  const [name = '', value, ...more] = text.split(':');
  if (!TAG_PATTERN.test(name) || more.length > 0) return null;
  if (value === undefined) return { name };
  return TAG_PATTERN.test(value) ? { name, value } : null;
}

function parseName(text: string): string | null {
  return text === '' ? null : text;
}

function parseReason(text: string): Category | null {
  return CATEGORIES.find((category) => category === text.toLowerCase()) ?? null;
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
