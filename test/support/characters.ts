/**
 * Characters for generated strings and URLs: `fc.string({ unit: CHARACTER })`.
 *
 * Replaces `unit: 'binary'`, `webUrl` and its parts. For those, fast-check builds a table of all 1.1 million
 * characters, which takes a second of CPU time in every process.
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

export const URL_PART = fc.string({
  unit: fc.oneof(
    { weight: 20, arbitrary: URL_CHARACTER },
    { weight: 1, arbitrary: fc.constantFrom('/', '?') },
  ),
});
/** A URL with a domain and a path. */
export const WEB_URL = fc
  .tuple(fc.constantFrom('http', 'https'), fc.domain(), fc.array(URL_SEGMENT, { maxLength: 5 }))
  .map(([scheme, domain, path]) => `${scheme}://${[domain, ...path].join('/')}`);

function toCharacter(number: number): string {
  const { first, count } = SURROGATES;
  return String.fromCodePoint(number < first ? number : number + count);
}

/** @throws when the value is not a character, as fast-check requires of the reverse of a `map` */
function toNumber(value: unknown): number {
  const codePoint = typeof value === 'string' ? value.codePointAt(0) : undefined;
  if (codePoint === undefined) throw new TypeError('not a character');
  const { first, count } = SURROGATES;
  const number = codePoint < first ? codePoint : codePoint - count;
  if (toCharacter(number) !== value) throw new TypeError('not a character');
  return number;
}
