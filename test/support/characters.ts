/**
 * The characters that generated strings and URLs are made of: `fc.string({ unit: CHARACTER })`.
 *
 * In place of `unit: 'binary'`, `webUrl` and its parts in fast-check, which make a table of all 1.1 million
 * characters to look up those of its examples: a second of CPU time in every process.
 */
import fc from 'fast-check';

const SURROGATES = { first: 0xd800, count: 0x800 };
const LAST = 0x10ffff;

/** Any code point that is not a surrogate. */
export const CHARACTER = fc.nat({ max: LAST - SURROGATES.count }).map(toCharacter, toNumber);

const PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@";
const URL_CHARACTER = fc.oneof(
  { weight: 10, arbitrary: fc.constantFrom(...PLAIN.split('')) },
  { weight: 1, arbitrary: CHARACTER.map(encodeURIComponent) },
);
const URL_SEGMENT = fc.string({ unit: URL_CHARACTER });

/** A query or a fragment. */
export const URL_PART = fc.string({
  unit: fc.oneof(
    { weight: 20, arbitrary: URL_CHARACTER },
    { weight: 1, arbitrary: fc.constantFrom('/', '?') },
  ),
});
/** With a domain and a path. */
export const WEB_URL = fc
  .tuple(fc.constantFrom('http', 'https'), fc.domain(), fc.array(URL_SEGMENT, { maxLength: 5 }))
  .map(([scheme, domain, path]) => `${scheme}://${[domain, ...path].join('/')}`);

function toCharacter(number: number): string {
  const { first, count } = SURROGATES;
  return String.fromCodePoint(number < first ? number : number + count);
}

/** @throws when the value is no character, as fast-check asks of what reverses a `map` */
function toNumber(value: unknown): number {
  const codePoint = typeof value === 'string' ? value.codePointAt(0) : undefined;
  if (codePoint === undefined) throw new TypeError('not a character');
  const { first, count } = SURROGATES;
  const number = codePoint < first ? codePoint : codePoint - count;
  if (toCharacter(number) !== value) throw new TypeError('not a character');
  return number;
}
