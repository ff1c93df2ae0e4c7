/**
 * Whom a header names as its author (RFC 5322 §3.6.2), read from the field as it goes out: exactly one
 * From with exactly one address, in a form that no two readers take for two different people.
 *
 * Asked twice of the same octets: when a message is handed in, and right before it is signed, so that
 * a signature never stands beside a From that it is not the signature for. Linear in the field.
 * Used by sending/submission.ts and dkim.ts.
 */
import { domainToUnicode } from 'node:url';
import { type Address, domainOf, localPartOf, parseAddress } from './address.ts';
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
  const text = trimmed(value.replace(/\r\n(?=[ \t])/g, '').replaceAll('\t', ' '));
  const [, quoted, words, bracketed, bare] = AUTHOR.exec(text) ?? [];
  const name = quoted ?? words ?? '';
  // An encoded word may hide what would end the field for a reader that decodes it first.
  if (CONTROL.test(name) || (name.includes('=?') && CONTROL.test(decodeWords(name)))) return null;
  const written = bracketed ?? bare ?? '';
  const address = parseAddress(written);
  return address !== null && isClear(address) && isAsWritten(address, written) ? address : null;
}

/** Not trim(): that takes white space that others leave, as a non-breaking space. */
function trimmed(text: string): string {
  let [start, end] = [0, text.length];
  while (text[start] === ' ') start += 1;
  while (end > start && text[end - 1] === ' ') end -= 1;
  return text.slice(start, end);
}

/** Readers that know nothing of Unicode in domains see what those that map it (UTS #46) see. */
function isAsWritten(address: Address, written: string): boolean {
  const domain = written.slice(written.lastIndexOf('@') + 1).toLowerCase();
  return domain === domainOf(address) || domain === domainToUnicode(domainOf(address));
}

/** Not `"ceo@bank.example"@acme.example`: of that, some readers take what is in quotes. */
export function isClear(address: Address): boolean {
  return !localPartOf(address).includes('@');
}
