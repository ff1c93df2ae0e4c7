/**
 * Address fields that others wrote (RFC 5322 §3.4, §3.6.2), linear in their length, read for two purposes.
 *
 * The author is read strictly: exactly one From with exactly one address, in a form that no two readers
 * take for two different addresses. It is read twice from the same octets, when a message is submitted and
 * right before it is signed, so that a signature never stands beside a From of another domain.
 *
 * Lists are read leniently, for showing To and Cc and for telling which recipients are copied.
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

/** The one address that the header's only From has; null when it is not that clear. */
export function authorOf(headers: readonly HeaderField[]): Address | null {
  let author: HeaderField | null = null;
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

/** Readers that do not know Unicode in domains see the same as those that map it (UTS #46). */
function isAsWritten(address: Address, written: string): boolean {
  const domain = written.slice(written.lastIndexOf('@') + 1).toLowerCase();
  return domain === domainOf(address) || domain === domainToUnicode(domainOf(address));
}

/** False for `"ceo@bank.example"@acme.example`: some readers take the part in quotes for the address. */
export function isClear(address: Address): boolean {
  return !localPartOf(address).includes('@');
}

const ADDRESSES_MAX = 1_000;

/** The addresses of a To or Cc field: groups give their members, what is no address is left out. */
export function readAddressList(value: string): Mailbox[] {
  return splitList(value)
    .slice(0, ADDRESSES_MAX)
    .flatMap((item) => readOne(item) ?? []);
}

/** One address as it stands in a header: `Name <a@b.c>`, its name decoded. */
export function readOne(text: string): Mailbox | null {
  const mailbox = parseMailbox(text.replace(/[ \t]+/g, ' ').trim());
  if (mailbox === null || mailbox.name === null) return mailbox;
  const name = decodeWords(mailbox.name)
    .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]+/g, ' ')
    .trim();
  // What is shown has to be readable again as a mailbox.
  return { ...mailbox, name: name.toWellFormed().slice(0, 300).toWellFormed() || null };
}

/** Cut at commas and at the ends of groups, outside of quotes; comments and names of groups left out. */
function splitList(value: string): string[] {
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
