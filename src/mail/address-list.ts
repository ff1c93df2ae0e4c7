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

/** A quoted string, a comment without another in it, or what separates: a comma, a group's ends. */
const TOKEN = /"(?:[^"\\]|\\.)*"|\((?:[^()\\]|\\.)*\)|<[^<>]*>|[,;]|[^",;:()<>]+:(?!\/)|[^]/g;

function splitList(value: string): string[] {
  const items: string[] = [];
  let item = '';
  for (const [token] of value.matchAll(TOKEN)) {
    if (token === ',' || token === ';') {
      items.push(item);
      item = '';
    } else if (!token.startsWith('(') && !(token.length > 1 && token.endsWith(':'))) {
      item += token;
    }
  }
  return [...items, item].filter((text) => text.trim() !== '');
}
