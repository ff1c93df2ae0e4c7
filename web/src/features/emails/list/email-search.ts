/**
 * The text of the search field, in the grammar of `GET /v1/emails?q=`. An id alone opens its email, and an address
 * alone is searched as a recipient. Filters are shown as chips, the other words stay in the field.
 */
import { dayTime } from '../../../lib/time.ts';

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const ADDRESS_ALONE = /(^|\s)([^\s:"@]+@[^\s:"@.]+\.[^\s:"]+)(?=\s|$)/g;
const STATUS = /(^|\s)status:(\S+)/i;
const DAY = /(^|\s)(after|before):(today|yesterday)(?=\s|$)/gi;

type Wanted = { kind: 'id'; id: string } | { kind: 'search'; q: string };

/** @param nowMs for "today" and "yesterday", which begin at midnight where the member is */
export function readSearchText(text: string, nowMs: number = Date.now()): Wanted {
  const trimmed = text.trim();
  if (ID.test(trimmed)) return { kind: 'id', id: trimmed.toLowerCase() };
  const dated = trimmed.replaceAll(DAY, (_, space: string, operator: string, day: string) => {
    const daysAgo = day.toLowerCase() === 'today' ? 0 : 1;
    return `${space}${operator.toLowerCase()}:${midnight(nowMs, daysAgo)}`;
  });
  return { kind: 'search', q: dated.replaceAll(ADDRESS_ALONE, '$1to:$2') };
}

/** Returns the time at which a day began where the member is. A date alone would be midnight in UTC. */
export function midnight(nowMs: number, daysAgo: number): string {
  const day = new Date(nowMs);
  day.setDate(day.getDate() - daysAgo);
  day.setHours(0, 0, 0, 0);
  return day
    .toISOString()
    .replace(/:00\.000Z$/, 'Z')
    .replace(/T00:00Z$/, '');
}

export function statusOf(q: string): string | null {
  return STATUS.exec(q)?.[2]?.toLowerCase() ?? null;
}

/** @param status '' for any */
export function withStatus(text: string, status: string): string {
  const rest = text.replace(STATUS, '').trim();
  return status === '' ? rest : `${rest} status:${status}`.trim();
}

export const OPERATORS: readonly (readonly [name: string, about: string])[] = [
  ['to:', 'a recipient, or a part of the address'],
  ['from:', 'the sender, or a part of it'],
  ['subject:', 'a part of the subject'],
  ['status:', 'the delivery status'],
  ['domain:', 'the sending domain'],
  ['tag:', 'a tag, as name or name:value'],
  ['template:', 'the name, alias or id of a template'],
  ['key:', 'the name or id of an API key'],
  ['provider:', 'the provider of a recipient'],
  ['reason:', 'why mail is deferred or ended'],
  ['reply:', 'a part of the last SMTP reply'],
  ['server:', 'a part of the mail server that replied'],
  ['id:', 'an email, by its id or Message-ID'],
  ['after:', 'created from this date on, or today, yesterday'],
  ['before:', 'created before this date'],
];

const NAMES: ReadonlySet<string> = new Set(OPERATORS.map(([name]) => name));
const TERM = /(?:[a-z_]{1,32}:)?(?:"[^"]*"|[^\s"]+)/gi;

export type SplitSearch = {
  /** Terms with an operator, as they are written. */
  filters: string[];
  /** The other words. */
  words: string;
};

/** A search that has a mistake stays as it is, in `words`. */
export function splitSearch(q: string): SplitSearch {
  if ((q.split('"').length - 1) % 2 === 1) return { filters: [], words: q };
  const terms = q.match(TERM) ?? [];
  const isFilter = (term: string) => {
    const name = /^[a-z_]+:/i.exec(term)?.[0].toLowerCase() ?? '';
    return NAMES.has(name) && term.length > name.length;
  };
  return {
    filters: terms.filter(isFilter),
    words: terms.filter((term) => !isFilter(term)).join(' '),
  };
}

export function joinSearch({ filters, words }: SplitSearch): string {
  return [...filters, words.trim()].filter((part) => part !== '').join(' ');
}

/** Returns a filter as it is read: its name, and its value without quotation marks, times in the member's zone. */
export function filterInWords(filter: string): { name: string; value: string } {
  const at = filter.indexOf(':');
  const name = filter.slice(0, at).toLowerCase();
  const value = filter.slice(at + 1).replaceAll('"', '');
  const isTime = (name === 'after' || name === 'before') && !Number.isNaN(Date.parse(value));
  return { name, value: isTime ? dayTime(value) : value };
}

const LIVE_CHARACTERS = 3;

/** Whether the list may follow the typing: the last word is long enough, and no operator or quotation is open. */
export function canSearchLive(words: string): boolean {
  if (words.trim() === '') return true;
  const last = /\S*$/.exec(words)?.[0] ?? '';
  const isOpen = (words.split('"').length - 1) % 2 === 1 || words.includes(':');
  return !isOpen && (last === '' || last.length >= LIVE_CHARACTERS);
}
