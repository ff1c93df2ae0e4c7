/**
 * Rewrites the header of a submitted message in ASCII, for a server without SMTPUTF8. RFC 6531 §3.2 permits this
 * instead of returning the message.
 *
 * Only fields with octets above 127 are rewritten. Names and texts become encoded words (RFC 2047). Addresses in To
 * and Cc become names of empty groups (RFC 6857 §3.1.8).
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { readAddressList } from '../address-fields.ts';
import { addressField, type HeaderField, headerLine, textField } from './header.ts';
import { decodeWords } from './decode.ts';
import { readHeader } from './reader.ts';

const CONTROL = /[\0-\x1f\x7f-\x9f\u2028\u2029]/;
const RECIPIENTS: ReadonlySet<string> = new Set(['to', 'cc']);
const AUTHORS: ReadonlySet<string> = new Set(['from', 'sender', 'reply-to']);
const TEXTS =
  /^(?:subject|comments|keywords|organization|content-description|thread-topic|x-[\w-]+)$/;

/** Returns null when a field has no ASCII form: an address in From or Reply-To, a Message-ID, a Content-Type. */
export function withAsciiHeader(raw: Buffer): Buffer | null {
  const { fields, isCut } = readHeader(raw);
  const headerEnd = fields.at(-1)?.end ?? 0;
  if (isCut || !isUtf8(raw.subarray(0, headerEnd))) return null;
  const pieces: Buffer[] = [];
  for (const { name, start, end } of fields) {
    const octets = raw.subarray(start, end);
    const field = isAscii(octets) ? octets : asciiField(name, octets.toString());
    if (field === null) return null;
    pieces.push(Buffer.isBuffer(field) ? field : Buffer.from(headerLine(field)));
  }
  return Buffer.concat([...pieces, raw.subarray(headerEnd)]);
}

function asciiField(name: string, field: string): HeaderField | null {
  const value = field
    .slice(field.indexOf(':') + 1)
    .replace(/\r?\n(?=[ \t]|$)/g, '')
    .replaceAll('\t', ' ')
    .trim();
  if (CONTROL.test(value)) return null;
  const key = name.toLowerCase();
  if (TEXTS.test(key)) {
    const text = decodeWords(value);
    return CONTROL.test(text) ? null : textField(name, text);
  }
  const mailboxes = readAddressList(value);
  if (mailboxes.length === 0) return null;
  if (RECIPIENTS.has(key)) return addressField(name, mailboxes, { asciiOnly: true });
  const isWritable = mailboxes.every(({ address }) => isAscii(Buffer.from(address)));
  return AUTHORS.has(key) && isWritable ? addressField(name, mailboxes) : null;
}
