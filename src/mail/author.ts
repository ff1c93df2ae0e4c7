/**
 * Whom a header names as its author (RFC 5322 §3.6.2), read from the field as it goes out: exactly one
 * From with exactly one address, in a form that no two readers take for two different people.
 *
 * Asked twice of the same octets: when a message is handed in, and right before it is signed, so that
 * a signature never stands beside a From that it is not the signature for. Linear in the field.
 * Used by sending/submission.ts and dkim.ts.
 */
import { type Address, localPartOf, parseAddress } from './address.ts';
import { decodeWords } from './mime-decode.ts';

type Field = { name: string; value: string };

/** Before the address: nothing, a quoted string, or words that end at the bracket. */
const AUTHOR = /^(?:(?:"((?:[^"\\]|\\.)*)" *|([^()<>:;@\\,"]*))<([^<>]*)>|([^<>]*))$/;
/** C0, DEL, C1, and the line ends of Unicode. */
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;

/** The one address that the header's only From has; null when it is not that clear. */
export function authorOf(headers: readonly Field[]): Address | null {
  let author: Field | null = null;
  for (const header of headers) {
    if (header.name.length !== 4 || header.name.toLowerCase() !== 'from') continue;
    if (author !== null) return null;
    author = header;
  }
  return author === null ? null : addressOf(author.value);
}

/** The only address in the value of an address field, folded or not; null: not exactly one. */
export function addressOf(value: string): Address | null {
  const text = value
    .replace(/\r\n(?=[ \t])/g, '')
    .replaceAll('\t', ' ')
    .trim();
  const [, quoted, words, bracketed, bare] = AUTHOR.exec(text) ?? [];
  const name = quoted ?? words ?? '';
  // An encoded word may hide what would end the field for a reader that decodes it first.
  if (CONTROL.test(name) || (name.includes('=?') && CONTROL.test(decodeWords(name)))) return null;
  const address = parseAddress(bracketed ?? bare ?? '');
  return address !== null && isClear(address) ? address : null;
}

/** Not `"ceo@bank.example"@acme.example`: of that, some readers take what is in quotes. */
export function isClear(address: Address): boolean {
  return !localPartOf(address).includes('@');
}
