/** Completions of a typed search: operators, and the values that exist for each. */
import { filterBy } from '../../../lib/search-filter.ts';
import { midnight, OPERATORS } from './email-search.ts';
import { CATEGORIES, FINAL_STATUSES, OPEN_STATUSES } from '../../../../../src/core/statuses.ts';

export const STATUSES = ['sending', ...OPEN_STATUSES, ...FINAL_STATUSES] as const;

/** The values of this project and environment. */
export type Known = Readonly<
  Record<'domain' | 'tag' | 'template' | 'key' | 'provider', readonly string[]>
>;

export type Completion = {
  /** The added word, such as `status:bounced`. */
  token: string;
  about: string;
  /** The whole search after the completion. */
  text: string;
};

const SHOWN_MAX = 8;

/** @param nowMs for dates */
export function complete(text: string, known: Known, nowMs: number): Completion[] {
  // Only the last word is completed, and no quoted text.
  const [, before = '', word = ''] = /^([^]*?)(\S*)$/.exec(text) ?? [];
  if (word === '' || word.startsWith('"') || countOf(before, '"') % 2 === 1) return [];
  const typed = word.toLowerCase();
  return (
    candidates(known, nowMs)
      .filter(([token]) => token.toLowerCase().startsWith(typed) && token.toLowerCase() !== typed)
      // Values only after their operator, else its name.
      .filter(([token]) => typed.includes(':') || token.endsWith(':'))
      .slice(0, SHOWN_MAX)
      .map(([token, about]) => ({
        token,
        about,
        text: `${before}${token}${token.endsWith(':') ? '' : ' '}`,
      }))
  );
}

function candidates(known: Known, nowMs: number): [token: string, about: string][] {
  const dates: [string, string][] = [
    [midnight(nowMs, 0), 'today'],
    [midnight(nowMs, 1), 'yesterday'],
    [midnight(nowMs, 7), 'a week ago'],
    [midnight(nowMs, 30), '30 days ago'],
  ];
  return [
    ...OPERATORS.map(([name, about]): [string, string] => [name, about]),
    ...STATUSES.map((status): [string, string] => [`status:${status}`, '']),
    ...CATEGORIES.map((category): [string, string] => [`reason:${category}`, '']),
    ...Object.entries(known).flatMap(([operator, values]) =>
      values
        .filter((value) => !value.includes('"'))
        .map((value): [string, string] => [filterBy(operator, value), '']),
    ),
    ...dates.map(([date, about]): [string, string] => [`after:${date}`, about]),
    ...dates.map(([date, about]): [string, string] => [`before:${date}`, about]),
  ];
}

function countOf(text: string, character: string): number {
  return text.split(character).length - 1;
}
