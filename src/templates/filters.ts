/**
 * The filters and operators that templates may use, each with its cost (work.ts). They are LiquidJS's own. Left out
 * are those that evaluate text as an expression, draw random numbers, print the internals of a value or belong to
 * another product.
 *
 * A list is converted to text and charged here before a text filter gets it. The library would convert it at every
 * use. Lists as arguments are refused, except where a filter takes a list.
 */
import { type Context, defaultOperators, filters as libraryFilters } from 'liquidjs';
import { isPlainObject, type Work, workOf } from './work.ts';

const CALL_UNITS = 12;

/** The cost of a filter beyond one pass over its value and arguments. */
type ExtraCost = (work: Work, value: unknown, args: readonly unknown[]) => void;

const noExtraCost: ExtraCost = () => {};

/** Compares at each place of the text, in the worst case with the whole pattern. */
function useForSearch(work: Work, text: unknown, pattern: unknown): void {
  const [textLength, patternLength] = [lengthOf(text), lengthOf(pattern)];
  work.use((textLength * Math.min(textLength, patternLength)) / 64);
}

const chargeSplit: ExtraCost = (work, text, [pattern]) => {
  work.use(lengthOf(text) / 2);
  useForSearch(work, text, pattern);
};

/** The worst case replaces every character. */
const chargeReplacement: ExtraCost = (work, text) => work.use(lengthOf(text) / 2);

const chargeSearch: ExtraCost = (work, text, [pattern]) => useForSearch(work, text, pattern);

/** LiquidJS parses the path of the property again for each item. */
const chargeProperties: ExtraCost = (work, list, [property]) => {
  const items = Array.isArray(list) ? list.length : 1;
  work.use(items * (48 + lengthOf(property) / 4));
};

const chargeSort: ExtraCost = (work, list, args) => {
  chargeProperties(work, list, args);
  const rounds = Math.ceil(Math.log2(2 + (Array.isArray(list) ? list.length : 1)));
  for (let round = 0; round < rounds; round++) work.use(4 * work.useFor(list));
};

const DATE_TEXT_MAX = 64;
const DATE_UNITS = 1_000;
/** Names of days, months and time zones come from slow tables of the locale. */
const DATE_NAME_UNITS = 2_500;

/** Refuses "now", which would make two renderings differ. Refuses long formats: a width pads without limit. */
const chargeDate: ExtraCost = (work, value, args) => {
  if (value === 'now' || value === 'today') {
    throw new Error(`"${value}" is not known to templates; pass the time as a variable`);
  }
  if (isListOrObject(value)) throw new Error('a list or an object is not a time');
  for (const text of [value, ...args]) {
    if (lengthOf(text) > DATE_TEXT_MAX || (typeof text === 'string' && /%\D*\d{3}/.test(text))) {
      throw new Error('a time or its format is too long');
    }
  }
  const [format] = args;
  // Without a format, LiquidJS also writes names.
  const names = typeof format === 'string' ? format.match(/%[^A-Za-z]*[aAbBhcxXpPZ]/g) : null;
  work.use(DATE_UNITS + DATE_NAME_UNITS * (names?.length ?? (format === undefined ? 3 : 0)));
};

/** Searches each character among those to trim. */
const chargeTrim: ExtraCost = (work, text, [characters]) => {
  if (characters !== undefined) work.use(lengthOf(text) + lengthOf(characters));
};

/** The library converts each item twice. */
const chargeJoin: ExtraCost = (work, list) => work.use(2 * work.useFor(list));

const EXTRA_COSTS: Record<string, ExtraCost> = {
  ...withoutExtraCost('append prepend capitalize upcase downcase strip_newlines'),
  ...withoutExtraCost('newline_to_br squish truncate slice size raw default'),
  ...withoutExtraCost('plus minus times divided_by modulo round ceil floor abs at_least at_most'),
  ...withoutExtraCost('first last reverse uniq compact concat'),
  strip: chargeTrim,
  lstrip: chargeTrim,
  rstrip: chargeTrim,
  join: chargeJoin,
  escape: chargeReplacement,
  escape_once: (work, text) => work.use(lengthOf(text)),
  url_encode: (work, text) => work.use(3 * lengthOf(text)),
  replace: chargeSplit,
  replace_first: chargeSearch,
  remove: chargeSplit,
  remove_first: chargeSearch,
  split: chargeSplit,
  truncatewords: (work, text) => work.use(lengthOf(text) / 2),
  map: chargeProperties,
  where: chargeProperties,
  sum: chargeProperties,
  sort: chargeSort,
  sort_natural: chargeSort,
  date: chargeDate,
};

const TEXT_FILTERS = new Set(
  (
    'append prepend capitalize upcase downcase strip lstrip rstrip strip_newlines newline_to_br squish truncate ' +
    'truncatewords escape escape_once url_encode replace replace_first remove remove_first split'
  ).split(' '),
);
const LIST_FILTERS = new Set(['concat', 'default', 'where']);

function withoutExtraCost(names: string): Record<string, ExtraCost> {
  return Object.fromEntries(names.split(' ').map((name) => [name, noExtraCost]));
}

/** Returns the length of a text or list, and 0 for other values. */
function lengthOf(value: unknown): number {
  return typeof value === 'string' || Array.isArray(value) ? value.length : 0;
}

type FilterCall = { context: Context };
type Handler = (this: FilterCall, value: unknown, ...args: unknown[]) => unknown;

/** Returns the handlers by name. Only the result of `raw` is not escaped. */
export function meteredFilters(): [
  name: string,
  filter: Handler | { handler: Handler; raw: true },
][] {
  const library = libraryFilters as Record<string, unknown>;
  return Object.entries(EXTRA_COSTS).map(([name, extraCost]) => {
    const filter = library[name];
    const handler = metered(handlerOf(filter), { extraCost, ...rulesOf(name) });
    return [name, name === 'raw' ? { handler, raw: true } : handler];
  });
}

function handlerOf(filter: unknown): Handler {
  if (typeof filter === 'function') return filter as Handler;
  // The library's `raw` is only a marker.
  return (value) => value;
}

type FilterRules = {
  extraCost: ExtraCost;
  isOfText?: boolean;
  refuses?: (argument: unknown) => boolean;
};

function rulesOf(name: string): Omit<FilterRules, 'extraCost'> {
  return {
    isOfText: TEXT_FILTERS.has(name),
    refuses: LIST_FILTERS.has(name) ? () => false : isListOrObject,
  };
}

function metered(handler: Handler, { extraCost, isOfText, refuses }: FilterRules): Handler {
  return function (given, ...args) {
    const work = workOf(this.context);
    work.use(CALL_UNITS);
    for (const argument of [given, ...args]) work.useFor(argument);
    if (args.some((argument) => refuses?.(argument))) {
      throw new Error('a list or an object is not an argument of this filter');
    }
    const value = isOfText && Array.isArray(given) ? textOf(given) : given;
    extraCost(work, value, args);
    return handler.call(this, value, ...args);
  };
}

function isListOrObject(value: unknown): boolean {
  return Array.isArray(value) || isPlainObject(value);
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join('');
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return value === null || value === undefined ? '' : '[object Object]';
}

/** Applies to every output in html whose last filter is not `raw`. */
export const escapeOutput: Handler = metered(libraryFilters['escape'] as Handler, {
  extraCost: chargeReplacement,
  isOfText: true,
});

export const plainOutput: Handler = metered((value) => value, { extraCost: noExtraCost });

/** Searching a text converts a list to text. */
function chargeContains(work: Work, [where, what]: readonly unknown[]): void {
  if (typeof where !== 'string') return;
  if (isListOrObject(what)) throw new Error('a list or an object is not part of a text');
  useForSearch(work, where, what);
}

/** The operators of conditions. The engine passes the operands and then the context. */
export function meteredOperators(): typeof defaultOperators {
  return Object.fromEntries(
    Object.entries(defaultOperators).map(([name, operator]) => [
      name,
      (...operands: unknown[]) => {
        const work = workOf(operands.at(-1) as Context);
        work.use(CALL_UNITS);
        for (const operand of operands.slice(0, -1)) work.use(4 * work.useFor(operand));
        if (name === 'contains') chargeContains(work, operands);
        return (operator as (...all: unknown[]) => boolean)(...operands);
      },
    ]),
  );
}
