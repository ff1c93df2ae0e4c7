/**
 * Parses address fields of submitted and received messages in linear time (RFC 5322 §3.4, §3.6.2), with comments,
 * quoted strings and white space wherever the grammar allows them.
 *
 * The author is parsed strictly: one From with one address, in a form that no parser reads as another address. It is
 * parsed at submission and, from the same octets, before signing, so a signature always matches the domain of From.
 * A valid form that parsers read in different ways, such as a comment within the address, is rewritten
 * (accept/submitted-message.ts).
 *
 * Lists are parsed leniently, to show To and Cc and to find the copied recipients.
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

/** C0, DEL, C1, and Unicode line ends. */
const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;
const QUOTED = /"((?:[^"\\]|\\.)*)"/g;
const WORDS = /^[^()<>:;@\\,"]*$/;
const ADDRESSES_MAX = 1_000;
const MAILBOX_LENGTH_MAX = 1_000;

/**
 * Returns the address of the header's only From; null when it is ambiguous.
 * @param parse addressInAnyForm also accepts forms that parsers read in different ways
 */
export function authorOf(
  headers: readonly HeaderField[],
  parse: (value: string) => Address | null = unambiguousAddress,
): Address | null {
  let author: HeaderField | null = null;
  for (const header of headers) {
    if (header.name.length !== 4 || header.name.toLowerCase() !== 'from') continue;
    if (author !== null) return null;
    author = header;
  }
  return author === null ? null : parse(author.value);
}

/** Returns the only address of a field, if all parsers read it alike, else null. The value may be folded. */
export function unambiguousAddress(value: string): Address | null {
  const parts = mailboxParts(value);
  return parts !== null && allParsersAgree(parts) ? strictAddress(parts) : null;
}

/** Returns the same, also from a form that parsers read in different ways. Such a field must be rewritten. */
export function addressInAnyForm(value: string): Address | null {
  const parts = mailboxParts(value);
  return parts === null ? null : strictAddress(parts);
}

type MailboxParts = {
  /** Words and quoted strings before the bracket. */
  phrase: string;
  comments: readonly string[];
  address: string;
  /** The address contains white space or a comment in it, or between it and its brackets. */
  hasInnerSpace: boolean;
};

/** Splits a value without checking the parts; null when a comment or bracket is not closed. */
function mailboxParts(value: string): MailboxParts | null {
  const uncommented = takeOutComments(value.replace(/\r\n(?=[ \t])/g, '').replace(/[ \t]+/g, ' '));
  if (uncommented === null) return null;
  const { comments } = uncommented;
  const text = trimSpaces(uncommented.text);
  const bracketAt = findBracket(text);
  if (bracketAt >= 0 && !text.endsWith('>')) return null;
  const rawAddress = bracketAt < 0 ? text : text.slice(bracketAt + 1, -1);
  const at = rawAddress.lastIndexOf('@');
  const address =
    at < 0
      ? rawAddress
      : `${trimSpaces(rawAddress.slice(0, at))}@${trimSpaces(rawAddress.slice(at + 1))}`;
  const phrase = bracketAt < 0 ? '' : trimSpaces(text.slice(0, bracketAt));
  return { phrase, comments, address, hasInnerSpace: address !== rawAddress };
}

function findBracket(text: string): number {
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted && character === '\\') at += 1;
    else if (!isQuoted && character === '<') return at;
  }
  return -1;
}

/** Returns the text of a phrase (RFC 5322 §3.2.5) with its encoded words; null when it contains another character. */
function phraseText(phrase: string): string | null {
  if (!WORDS.test(phrase.replace(QUOTED, ''))) return null;
  return phrase.replace(QUOTED, (_quoted, text: string) => text.replace(/\\(.)/gu, '$1'));
}

function strictAddress({ phrase, comments, address: rawAddress }: MailboxParts): Address | null {
  if (phraseText(phrase) === null || hasHiddenControl(phrase)) return null;
  const isHarmless = (comment: string): boolean =>
    !hasHiddenControl(comment) && !/[@<>]/.test(comment) && !/[@<>]/.test(decodeWords(comment));
  if (!comments.every(isHarmless)) return null;
  const address = parseAddress(rawAddress);
  return address !== null && isUnambiguous(address) && isDomainUnchanged(address, rawAddress)
    ? address
    : null;
}

/** Decoded encoded words may contain a character that ends the field for some parsers. */
function hasHiddenControl(text: string): boolean {
  return CONTROL.test(text) || (text.includes('=?') && CONTROL.test(decodeWords(text)));
}

/**
 * Returns whether parsers agree. They differ on a comment within an address, a comment with a parenthesis or
 * quotation mark in it, several quoted strings, and white space around the `@`.
 */
function allParsersAgree({ phrase, comments, address, hasInnerSpace }: MailboxParts): boolean {
  const isOneName = /^(?:"(?:[^"\\]|\\.)*"|[^"]*)$/.test(phrase);
  if (hasInnerSpace || !isOneName) return false;
  const isPlain = (comment: string): boolean =>
    !/["()\\]/.test(`${comment}${decodeWords(comment)}`);
  if (comments.length === 0) return true;
  return comments.every(isPlain) && !/[()<>@]/.test(phrase) && !address.includes('"');
}

/** Trims spaces only. Other parsers keep white space that trim() removes, such as a non-breaking space. */
function trimSpaces(text: string): string {
  let [start, end] = [0, text.length];
  while (text[start] === ' ') start += 1;
  while (end > start && text[end - 1] === ' ') end -= 1;
  return text.slice(start, end);
}

/** Returns whether Unicode mapping (UTS #46) leaves the domain unchanged. */
function isDomainUnchanged(address: Address, rawAddress: string): boolean {
  const domain = rawAddress.slice(rawAddress.lastIndexOf('@') + 1).toLowerCase();
  return domain === domainOf(address) || domain === domainToUnicode(domainOf(address));
}

/** False for `"ceo@bank.example"@acme.example`: some parsers read the quoted part as the address. */
export function isUnambiguous(address: Address): boolean {
  return !/[@<>]/.test(localPartOf(address));
}

/** Returns the addresses of a To or Cc field, including group members; skips invalid ones. */
export function readAddressList(value: string): Mailbox[] {
  return splitAddressList(value)
    .slice(0, ADDRESSES_MAX)
    .flatMap((item) => readHeaderMailbox(item) ?? []);
}

/** Parses one address of a header, `Name <a@b.c>` or `a@b.c (Name)`, and decodes its name. */
export function readHeaderMailbox(value: string): Mailbox | null {
  const text = value.replace(/[ \t]+/g, ' ');
  const parts = text.length > MAILBOX_LENGTH_MAX || CONTROL.test(text) ? null : mailboxParts(text);
  const address = parts === null ? null : parseAddress(parts.address);
  if (parts === null || address === null) return null;
  const phrase = phraseText(parts.phrase);
  if (phrase === null || phrase.length > NAME_LENGTH_MAX) return null;
  const name = decodeWords(phrase === '' ? parts.comments.join(' ') : phrase)
    .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]+/g, ' ')
    .trim();
  // The result must be a valid mailbox when it is written again.
  return { address, name: name.toWellFormed().slice(0, 300).toWellFormed().trim() || null };
}

/** Splits at commas and group ends outside of quotes. Drops comments and group names. */
export function splitAddressList(value: string): string[] {
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
      // A quoted local part may contain a bracket.
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
