/**
 * Numbers the items of an `<ol>` like browsers (HTML, "The ol element", "The li element"): `start`, `reversed`,
 * `type`, and `value` and `type` of an item.
 *
 * A reversed list without `start` counts down to 1, so its numbers are only known at its end. Its items are first
 * numbered from 0 downwards, and `fromEnd` says that the number of items must be added.
 */
import { attributeOf } from './html.ts';

export type Item = { number: number; fromEnd: boolean; type: string };

/** The largest number that browsers count with. */
const INTEGER_MAX = 2 ** 31 - 1;
const LETTERS = 26;
const CODE_OF_A = 97;
const ROMAN_MAX = 3_999;

export class OrderedList {
  readonly #step: 1 | -1;
  readonly #type: string;
  #next: number;
  #fromEnd: boolean;
  #count = 0;

  constructor(attributes: string) {
    const isReversed = attributeOf(attributes, 'reversed') !== null;
    const start = integerOf(attributeOf(attributes, 'start'));
    this.#step = isReversed ? -1 : 1;
    this.#type = attributeOf(attributes, 'type') ?? '';
    this.#fromEnd = isReversed && start === null;
    this.#next = start ?? (isReversed ? 0 : 1);
  }

  beginItem(attributes: string): Item {
    const value = integerOf(attributeOf(attributes, 'value'));
    if (value !== null) {
      this.#next = value;
      this.#fromEnd = false;
    }
    const number = this.#next;
    this.#next += this.#step;
    this.#count += 1;
    const type = attributeOf(attributes, 'type') ?? this.#type;
    return { number, fromEnd: this.#fromEnd, type };
  }

  /** Returns `3.`, `c.` or `iii.` */
  markOf({ number, fromEnd, type }: Item): string {
    return `${formatNumber(fromEnd ? number + this.#count : number, type)}.`;
  }
}

/** Parses a number by the rules of HTML ("Rules for parsing integers"): text after the digits is ignored. */
function integerOf(value: string | null): number | null {
  const digits = /^[\t\n\f\r ]*([+-]?\d{1,10})(?!\d)/.exec(value ?? '')?.[1];
  const number = digits === undefined ? Number.NaN : Number(digits);
  return Math.abs(number) <= INTEGER_MAX ? number : null;
}

/** Writes digits where letters or Roman numerals cannot express the number, like browsers. */
function formatNumber(number: number, type: string): string {
  const lower = type.toLowerCase();
  const text =
    lower === 'a' ? inLetters(number) : lower === 'i' ? inRomanNumerals(number) : String(number);
  return type === lower ? text : text.toUpperCase();
}

function inLetters(number: number): string {
  if (number < 1) return String(number);
  let letters = '';
  for (let remainder = number; remainder > 0; remainder = Math.floor((remainder - 1) / LETTERS)) {
    letters = String.fromCharCode(CODE_OF_A + ((remainder - 1) % LETTERS)) + letters;
  }
  return letters;
}
const ROMAN: readonly (readonly [numeral: string, worth: number])[] = [
  ['m', 1000],
  ['cm', 900],
  ['d', 500],
  ['cd', 400],
  ['c', 100],
  ['xc', 90],
  ['l', 50],
  ['xl', 40],
  ['x', 10],
  ['ix', 9],
  ['v', 5],
  ['iv', 4],
  ['i', 1],
];

function inRomanNumerals(number: number): string {
  if (number < 1 || number > ROMAN_MAX) return String(number);
  let [text, remainder] = ['', number];
  for (const [numeral, worth] of ROMAN) {
    text += numeral.repeat(Math.floor(remainder / worth));
    remainder %= worth;
  }
  return text;
}
