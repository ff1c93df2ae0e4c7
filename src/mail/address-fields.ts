/**
 * Parses address fields of submitted and received messages (RFC 5322 §3.4, §3.6.2) in linear time: comments, quoted
 * strings and white space wherever the grammar allows them.
 *
 * The author is parsed strictly: exactly one From with exactly one address, in a form that no parser can
 * read as another address. It is parsed at submission and again, from the same octets, before signing, so
 * that a signature always matches the domain of From. A form that is valid, but that parsers read in different ways, such
 * as a comment within the address, is written anew (accept/submitted-message.ts).
 *
 * Lists are parsed leniently, for showing To and Cc and for finding the copied recipients.
 */
import { domainToUnicode } from 'node:url';
import {
  type Address,
  domainOf,
  localPartOf,
  type Mailbox,
  NAME_LENGTH_MAX,
  parseAddress,
} from './address.ts';
import { takeOutComments } from './mime/comments.ts';
import type { HeaderField } from './mime/header.ts';
import { decodeWords } from './mime/decode.ts';

/** C0, DEL, C1, and the line ends of Unicode. */
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;

/**
 * The address of the header's only From; null when it is ambiguous.
 * @param parse addressInAnyForm: also in a form that some parsers read in another way
 */
export function authorOf(
  headers: readonly HeaderField[],
  parse: (value: string) => Address | null = addressOf,
): Address | null {
  let author: HeaderField | null = null;
  for (const header of headers) {
    if (header.name.length !== 4 || header.name.toLowerCase() !== 'from') continue;
    if (author !== null) return null;
    author = header;
  }
  return author === null ? null : parse(author.value);
}

/**
 * The only address in the value of an address field, folded or not, in a form that all parsers read the same; null
 * when there is not exactly one.
 */
export function addressOf(value: string): Address | null {
  const parts = mailboxParts(value);
  return parts !== null && isReadAlike(parts) ? strictAddress(parts) : null;
}

/** As addressOf, but in a form that some parsers may read in another way, so that it must be written anew. */
export function addressInAnyForm(value: string): Address | null {
  const parts = mailboxParts(value);
  return parts === null ? null : strictAddress(parts);
}

type MailboxParts = {
  /** Words and quoted strings before the bracket. */
  phrase: string;
  comments: readonly string[];
  address: string;
  /** White space or a comment was within the address, or between it and its brackets. */
  isSpaced: boolean;
};

/** Null: a comment or a bracket is not closed. What is in the parts is not checked. */
function mailboxParts(value: string): MailboxParts | null {
  const uncommented = takeOutComments(value.replace(/\r\n(?=[ \t])/g, '').replace(/[ \t]+/g, ' '));
  if (uncommented === null) return null;
  const { comments } = uncommented;
  const text = trimmed(uncommented.text);
  const open = bracketIn(text);
  if (open >= 0 && !text.endsWith('>')) return null;
  const written = open < 0 ? text : text.slice(open + 1, -1);
  const at = written.lastIndexOf('@');
  const address =
    at < 0 ? written : `${trimmed(written.slice(0, at))}@${trimmed(written.slice(at + 1))}`;
  const phrase = open < 0 ? '' : trimmed(text.slice(0, open));
  return { phrase, comments, address, isSpaced: address !== written };
}

/** The offset of the first `<` outside of quoted strings; -1: there is none. */
function bracketIn(text: string): number {
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted && character === '\\') at += 1;
    else if (!isQuoted && character === '<') return at;
  }
  return -1;
}

const QUOTED = /"((?:[^"\\]|\\.)*)"/g;
const WORDS = /^[^()<>:;@\\,"]*$/;

/** The text of a phrase (RFC 5322 §3.2.5) before its encoded words are decoded; null: it has another character. */
function phraseText(phrase: string): string | null {
  if (!WORDS.test(phrase.replace(QUOTED, ''))) return null;
  return phrase.replace(QUOTED, (_quoted, text: string) => text.replace(/\\(.)/gu, '$1'));
}

function strictAddress({ phrase, comments, address: written }: MailboxParts): Address | null {
  if (phraseText(phrase) === null || hasHiddenControl(phrase)) return null;
  const isHarmless = (comment: string): boolean =>
    !hasHiddenControl(comment) && !/[@<>]/.test(comment) && !/[@<>]/.test(decodeWords(comment));
  if (!comments.every(isHarmless)) return null;
  const address = parseAddress(written);
  return address !== null && isClear(address) && isAsWritten(address, written) ? address : null;
}

/** A decoded encoded word may contain a character that ends the field for some readers. */
function hasHiddenControl(text: string): boolean {
  return CONTROL.test(text) || (text.includes('=?') && CONTROL.test(decodeWords(text)));
}

/**
 * False where parsers are known to differ: a comment within an address or with a parenthesis or a quotation mark in it, several
 * quoted strings, and white space around the `@`.
 */
function isReadAlike({ phrase, comments, address, isSpaced }: MailboxParts): boolean {
  const isOneName = /^(?:"(?:[^"\\]|\\.)*"|[^"]*)$/.test(phrase);
  if (isSpaced || !isOneName) return false;
  const isPlain = (comment: string): boolean =>
    !/["()\\]/.test(`${comment}${decodeWords(comment)}`);
  if (comments.length === 0) return true;
  return comments.every(isPlain) && !/[()<>@]/.test(phrase) && !address.includes('"');
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
  return !/[@<>]/.test(localPartOf(address));
}

const ADDRESSES_MAX = 1_000;
/** Of one of them, with its name and comments. */
const MAILBOX_LENGTH_MAX = 1_000;

/** The addresses of a To or Cc field, including members of groups; invalid ones are left out. */
export function readAddressList(value: string): Mailbox[] {
  return splitList(value)
    .slice(0, ADDRESSES_MAX)
    .flatMap((item) => readOne(item) ?? []);
}

/** One address of a header, `Name <a@b.c>` or `a@b.c (Name)`, with its name decoded. */
export function readOne(value: string): Mailbox | null {
  const text = value.replace(/[ \t]+/g, ' ');
  const parts = text.length > MAILBOX_LENGTH_MAX || CONTROL.test(text) ? null : mailboxParts(text);
  const address = parts === null ? null : parseAddress(parts.address);
  if (parts === null || address === null) return null;
  const phrase = phraseText(parts.phrase);
  if (phrase === null || phrase.length > NAME_LENGTH_MAX) return null;
  const name = decodeWords(phrase === '' ? parts.comments.join(' ') : phrase)
    .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]+/g, ' ')
    .trim();
  // The result has to be a valid mailbox when it is written again.
  return { address, name: name.toWellFormed().slice(0, 300).toWellFormed().trim() || null };
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
      // A quoted local part may have a bracket in it.
      if (character === '"') isQuoted = !isQuoted;
      else if (character === '>' && !isQuoted) isInBrackets = false;
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
