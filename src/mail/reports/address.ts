/**
 * Addresses in the midst of other text, as reports name them. Linear, whatever the text is: from one
 * `@` to the next, and from each a bounded way to the left and to the right.
 */

export type Found = { address: string; start: number; end: number };

/** Of one text: a line, or the value of a field. Reports name one, or a few. */
const ADDRESSES_MAX = 50;
const LOCAL_CHARS_MAX = 64;
/** Between its quotes. */
const QUOTED_CHARS_MAX = 62;
const DOMAIN_CHARS_MAX = 255;

const QUOTE = '"';

/** The addresses of a text, the first ADDRESSES_MAX of them. */
export function addressesIn(text: string): Found[] {
  const found: Found[] = [];
  const hasQuotes = text.includes(QUOTE);
  let last = 0;
  for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', Math.max(at + 1, last))) {
    const one = hasQuotes ? quotedAround(text, at, last) : null;
    const start = one?.start ?? startOfLocal(text, at, last);
    const end = endOfDomain(text, one?.at ?? at);
    if (end === null || start === null) continue;
    last = end;
    const address = cleaned(text.slice(start, end));
    if (address !== '') found.push({ address, start, end });
    if (found.length >= ADDRESSES_MAX) break;
  }
  return found;
}

const FIELD_CHARS_MAX = 4_096;

/** The first address of a field: `rfc822; <jo@acme.test>`, `utf-8; ...` (RFC 6533 §3). */
export function addressIn(value: string): string | null {
  const text = value
    .slice(0, FIELD_CHARS_MAX)
    .replace(/\\x\{([0-9a-f]{1,6})\}/gi, (escaped, hex: string) => {
      const codePoint = Number.parseInt(hex, 16);
      return codePoint > 0x7f && codePoint <= 0x10ffff ? String.fromCodePoint(codePoint) : escaped;
    });
  const [first] = addressesIn(text);
  return first?.address ?? null;
}

/** Where the local part in front of the `@` begins; null: there is none. */
function startOfLocal(text: string, at: number, from: number): number | null {
  const least = Math.max(from, at - LOCAL_CHARS_MAX);
  let start = at;
  while (start > least && isOf(LOCAL, text, start - 1)) start -= 1;
  return start === at ? null : start;
}

/** A quoted local part which this `@` follows, or within which it stands, and the `@` behind it. */
function quotedAround(
  text: string,
  at: number,
  from: number,
): { start: number; at: number } | null {
  const isBehind = text[at - 1] === QUOTE;
  const inner = isBehind ? at - 1 : at;
  const least = Math.max(from, inner - QUOTED_CHARS_MAX - 1);
  const open = text.slice(least, inner).lastIndexOf(QUOTE) + least;
  if (open < least) return null;
  const close = text.slice(inner, open + QUOTED_CHARS_MAX + 2).indexOf(QUOTE) + inner;
  const isWhole = close >= inner && close > open + 1 && text[close + 1] === '@';
  if (!isWhole || /[\r\n]/.test(text.slice(open, close))) return null;
  return endOfDomain(text, close + 1) === null ? null : { start: open, at: close + 1 };
}

/** Where the domain behind the `@` ends, on a letter or a digit; null: there is none. */
function endOfDomain(text: string, at: number): number | null {
  if (!isOf(DOMAIN_BEGINNING, text, at + 1)) return null;
  const most = Math.min(text.length, at + 1 + DOMAIN_CHARS_MAX);
  let end = at + 2;
  while (end < most && isOf(DOMAIN, text, end)) end += 1;
  while (end > at + 2 && !isOf(ALPHANUMERIC, text, end - 1)) end -= 1;
  return end;
}

/** Sets of characters, by their bits; everything outside of ASCII is in each. */
const LOCAL = 1;
const DOMAIN_BEGINNING = 2;
const DOMAIN = 4;
const ALPHANUMERIC = 8;
const SETS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  return (
    (/[\w!#$%&'*+/=?^`{|}~.-]/.test(character) ? LOCAL : 0) |
    (/\w/.test(character) ? DOMAIN_BEGINNING : 0) |
    (/[\w.-]/.test(character) ? DOMAIN : 0) |
    (/[A-Za-z0-9]/.test(character) ? ALPHANUMERIC : 0)
  );
});

function isOf(set: number, text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  // NaN, beyond the end, is in none.
  return code < 128 ? (SETS[code]! & set) !== 0 : code >= 128;
}

/** Without a quote or the `=` of a field that ran into it. */
function cleaned(address: string): string {
  return address.replace(/^(?:mailto:|['`=]+)/i, '').replace(/^@.*/, '');
}
