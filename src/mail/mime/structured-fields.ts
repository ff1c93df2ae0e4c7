/**
 * Grammars of the structured header fields that a client may set (RFC 5322 §2.2.2). Each parses a value and returns
 * the words of a field, between which it may be folded, or a problem. A value is completed (angle brackets,
 * A-labels, percent-encoding) if only one meaning is possible, and refused otherwise.
 *
 * mail/custom-fields.ts has removed outer white space and refused control characters and more than 8,000 characters.
 */
import { domainToASCII } from 'node:url';
import { explainAddress, type Mailbox, needsSmtpUtf8, parseMailbox } from '../address.ts';
import { splitAddressList } from '../address-fields.ts';
import {
  addressWords,
  dateText,
  isPrintableAscii,
  phraseWords,
  separateBySpaces,
  wordsOf,
} from './header.ts';
import { asciiUrl } from './header-url.ts';

type Problem = { problem: string };

/** @param name the name of the field, which needs space on its first line */
export type Grammar = (value: string, name: string) => readonly string[] | Problem;

const COMMENTS = String.raw`((?:\([ -'*-~]*\) *)*)`;
const URL_ITEM = new RegExp(String.raw`^ *${COMMENTS}<([^<>]*)> *${COMMENTS}(,|$)`);
const RFC_DATE =
  /^(?:(?:mon|tue|wed|thu|fri|sat|sun), *)?\d{1,2} +(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) +\d{4} +\d\d:\d\d(?::\d\d)? +(?:[+-]\d{4}|GMT|UT|[ECMP][SD]T)(?: *\([ -'*-~]*\))?$/i;
const ISO_DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;
const TOKEN = "[A-Za-z0-9!#$%&'*+.^_`{|}~-]+";
const TOKEN_WITH_PARAMETERS = new RegExp(
  `^${TOKEN}(?: *; *${TOKEN}=(?:${TOKEN}|"[ !#-[\\]-~]*"))*(?: *\\([ -'*-~]*\\))?$`,
);
const LIST_ID = /^[A-Za-z0-9!#$%&'*+./=?^_`{|}~-]+$/;
const SHOWN_MAX = 80;

/** URLs in angle brackets, separated by commas, with comments (RFC 2369 §2). */
export function urls({ max = Infinity, orNo = false } = {}): Grammar {
  return (value) => {
    if (orNo && /^no(?: *\([ -~]*\))?$/i.test(value)) return wordsOf(value);
    const isBare = !/[<>\s]|,[a-z]+:/i.test(value);
    const items: string[] = [];
    for (let remaining = isBare ? `<${value}>` : value; /[^ ,]/.test(remaining);) {
      const match = URL_ITEM.exec(remaining.replace(/^[ ,]+/, ''));
      if (match === null)
        return problem('must be URLs in angle brackets, like <https://acme.com/a>');
      const [matched, before = '', text = '', after = ''] = match;
      const url = asciiUrl(text.trim());
      if (url === null)
        return problem(`has no absolute URL without spaces in ${truncate(`<${text}>`)}`);
      items.push(`${before}<${url}>${after === '' ? '' : ` ${after.trimEnd()}`}`);
      remaining = remaining.replace(/^[ ,]+/, '').slice(matched.length);
    }
    if (items.length === 0) return problem('must have a URL in angle brackets');
    if (items.length > max) return problem(`may have ${max} URL in angle brackets, not more`);
    return separateByCommas(items);
  };
}

/** Message ids (RFC 5322 §3.6.4). Only missing angle brackets are added, because an id names a message. */
export const messageIds: Grammar = (value) => {
  const ids = value.match(/<[^<>\s]+>|[^\s<>,]+/g) ?? [];
  const isAll = value.replace(/<[^<>\s]+>|[^\s<>,]+/g, '').replace(/[ ,]/g, '') === '';
  const isEach = ids.every((id) => id.startsWith('<') || /^[^@]+@[^@]+$/.test(id));
  if (ids.length > 0 && isAll && isEach && isPrintableAscii(value)) {
    return separateBySpaces(ids.map((id) => (id.startsWith('<') ? id : `<${id}>`)));
  }
  return problem('must be message ids in ASCII in angle brackets, like <4711@acme.com>');
};

/** Mailboxes, separated by commas (RFC 5322 §3.4). */
export const addresses: Grammar = (value, name) => {
  const mailboxes: Mailbox[] = [];
  for (const item of splitAddressList(value)) {
    const mailbox = parseMailbox(item);
    if (mailbox === null) return problem(`must be email addresses; ${explainAddress(item.trim())}`);
    if (needsSmtpUtf8(mailbox.address)) {
      return problem('has an address with characters outside of ASCII before its @');
    }
    mailboxes.push(mailbox);
  }
  return mailboxes.length === 0
    ? problem('has no email address in it')
    : addressWords(name, mailboxes);
};

/** A date of RFC 5322 §3.3. A time in ISO 8601 is converted to it. */
export const dateTime: Grammar = (value) => {
  const date = new Date(value);
  if (RFC_DATE.test(value) && !Number.isNaN(date.getTime())) return wordsOf(value);
  if (ISO_DATE.test(value) && !Number.isNaN(date.getTime())) return [dateText(date)];
  return problem('must be a date like Thu, 26 Nov 2026 08:30:00 +0000');
};

/** One of a few words in any case; the field gets the spelling of its standard. */
export function oneOf(...words: readonly string[]): Grammar {
  return (value) => {
    const word = words.find((spelling) => spelling.toLowerCase() === value.toLowerCase());
    return word === undefined ? problem(`must be ${words.join(' or ')}`) : [word];
  };
}

/** A word, optionally with parameters (RFC 3834 §5). */
export const token: Grammar = (value) =>
  TOKEN_WITH_PARAMETERS.test(value)
    ? wordsOf(value)
    : problem('must be one word of ASCII, like bulk or auto-generated');

/** Phrases, separated by commas (RFC 5322 §3.6.5). */
export const phrases: Grammar = (value, name) => {
  const parts = value.match(/(?:"(?:[^"\\]|\\.)*"|[^",])+/g) ?? [];
  const texts = parts.map((part) => unquote(part.trim())).filter((text) => text !== '');
  if (texts.length === 0) return problem('has no word; leave it out');
  const last = texts.length - 1;
  const words = texts.flatMap((text, index) => {
    const phrase = phraseWords(text, index === 0 ? name : '');
    return index < last ? [...phrase.slice(0, -1), `${phrase.at(-1)},`] : phrase;
  });
  return separateBySpaces(words);
};

/** A phrase, then the id of the list in angle brackets (RFC 2919 §3). */
export const listId: Grammar = (value, name) => {
  const isBare = /^[^\s<>@]+\.[^\s<>@]+$/.test(value);
  const [, phrase = '', id = ''] =
    /^([^<>]*)<([^<>\s]+)>$/.exec(isBare ? `<${value}>` : value) ?? [];
  const ascii = isPrintableAscii(id) ? id : domainToASCII(id);
  if (!LIST_ID.test(ascii)) {
    return problem('must be the id of a list in angle brackets, like Acme News <news.acme.com>');
  }
  const text = unquote(phrase.trim());
  return separateBySpaces([...(text === '' ? [] : phraseWords(text, name)), `<${ascii}>`]);
};

/** ASCII for machines, unchanged. The grammar of the field is not checked. */
export const ascii: Grammar = (value) =>
  isPrintableAscii(value)
    ? wordsOf(value)
    : problem('has characters outside of ASCII, which machines that read this field do not decode');

function unquote(text: string): string {
  const [, quoted] = /^"((?:[^"\\]|\\.)*)"$/.exec(text) ?? [];
  return quoted === undefined ? text : quoted.replace(/\\(.)/gu, '$1').trim();
}

function separateByCommas(items: readonly string[]): string[] {
  return separateBySpaces(
    items.map((item, index) => (index < items.length - 1 ? `${item},` : item)),
  );
}

function problem(text: string): Problem {
  return { problem: text };
}

function truncate(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}
