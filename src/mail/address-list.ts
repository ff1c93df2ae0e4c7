/**
 * The addresses in a To or Cc field that somebody else wrote (RFC 5322 §3.4), for showing them and
 * for telling who is copied. Lenient: groups give their members, what is no address is left out.
 */
import { type Mailbox, parseMailbox } from './address.ts';
import { decodeWords } from './mime-decode.ts';

const ADDRESSES_MAX = 1_000;

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
