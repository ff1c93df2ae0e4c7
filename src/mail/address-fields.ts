/**
 * Parses address fields of submitted and received messages (RFC 5322 §3.4, §3.6.2) in linear time.
 *
 * The author is parsed strictly: exactly one From with exactly one address, in a form that no parser can
 * read as another address. It is parsed at submission and again, from the same octets, before signing, so
 * that a signature always matches the domain of From.
 *
 * Lists are parsed leniently, for showing To and Cc and for finding the copied recipients.
 */
import { domainToUnicode } from 'node:url';
import {
  type Address,
  domainOf,
  localPartOf,
  type Mailbox,
  parseAddress,
  parseMailbox,
} from './address.ts';
import type { HeaderField } from './header.ts';
import { decodeWords } from './mime-decode.ts';

/** Before the address: nothing, a quoted string, or words that end at the bracket. */
const AUTHOR = /^(?:(?:"((?:[^"\\]|\\.)*)" *|([^()<>:;@\\,"]*))<([^<>]*)>|([^<>]*))$/;
/** C0, DEL, C1, and the line ends of Unicode. */
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;

/** The address of the header's only From; null when it is ambiguous. */
export function authorOf(headers: readonly HeaderField[]): Address | null {
  let author: HeaderField | null = null;
  for (const header of headers) {
    if (header.name.length !== 4 || header.name.toLowerCase() !== 'from') continue;
    if (author !== null) return null;
    author = header;
  }
  return author === null ? null : addressOf(author.value);
}

/** The only address in the value of an address field, folded or not; null when there is not exactly one. */
export function addressOf(value: string): Address | null {
  const text = trimmed(value.replace(/\r\n(?=[ \t])/g, '').replaceAll('\t', ' '));
  const [, quoted, words, bracketed, bare] = AUTHOR.exec(text) ?? [];
  const name = quoted ?? words ?? '';
  // A decoded encoded word may contain a character that ends the field for some readers.
  if (CONTROL.test(name) || (name.includes('=?') && CONTROL.test(decodeWords(name)))) return null;
  const written = bracketed ?? bare ?? '';
  const address = parseAddress(written);
  return address !== null && isClear(address) && isAsWritten(address, written) ? address : null;
}

/** Unlike trim(), keeps white space that other parsers keep, such as a non-breaking space. */
function trimmed(text: string): string {
  let [start, end] = [0, text.length];
  while (text[start] === ' ') start += 1;
  while (end > start && text[end - 1] === ' ') end -= 1;
  return text.slice(start, end);
}

/** Whether the domain is the same with and without Unicode mapping (UTS #46). */
function isAsWritten(address: Address, written: string): boolean {
  const domain = written.slice(written.lastIndexOf('@') + 1).toLowerCase();
  return domain === domainOf(address) || domain === domainToUnicode(domainOf(address));
}

/** False for `"ceo@bank.example"@acme.example`: some parsers take the quoted part for the address. */
export function isClear(address: Address): boolean {
  return !localPartOf(address).includes('@');
}

const ADDRESSES_MAX = 1_000;

/** The addresses of a To or Cc field, including members of groups; invalid ones are left out. */
export function readAddressList(value: string): Mailbox[] {
  return splitList(value)
    .slice(0, ADDRESSES_MAX)
    .flatMap((item) => readOne(item) ?? []);
}

/** One address of a header: `Name <a@b.c>`, with its name decoded. */
export function readOne(text: string): Mailbox | null {
  const mailbox = parseMailbox(text.replace(/[ \t]+/g, ' ').trim());
  if (mailbox === null || mailbox.name === null) return mailbox;
  const name = decodeWords(mailbox.name)
    .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]+/g, ' ')
    .trim();
  // The result has to be a valid mailbox when it is written again.
  return { ...mailbox, name: name.toWellFormed().slice(0, 300).toWellFormed() || null };
}

/** Splits at commas and ends of groups outside of quotes; drops comments and names of groups. */
export function splitList(value: string): string[] {
  const items: string[] = [];
  let item = '';
  let comments = 0;
  let isQuoted = false;
  let isInBrackets = false;
  for (let at = 0; at < value.length; at += 1) {
    const character = value[at]!;
    const isEscape = character === '\\' && (isQuoted || comments > 0);
    if (comments > 0) {
      if (isEscape) at += 1;
      else if (character === '(') comments += 1;
      else if (character === ')') comments -= 1;
    } else if (isQuoted || isInBrackets) {
      item += isEscape ? value.slice(at, (at += 1) + 1) : character;
      if (character === (isQuoted ? '"' : '>')) isQuoted = isInBrackets = false;
    } else if (character === '(') {
      comments = 1;
    } else if (character === ',' || character === ';') {
      items.push(item);
      item = '';
    } else if (character === ':') {
      item = '';
    } else {
      item += character;
      isQuoted = character === '"';
      isInBrackets = character === '<';
    }
  }
  return [...items, item].filter((text) => text.trim() !== '');
}
