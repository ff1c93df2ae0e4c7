/**
 * Determines the media type of an attachment: the client's type, else the type of the file name's extension.
 *
 * Text in UTF-8 gets `charset=utf-8`, because without it many readers show "Grüße" as "GrÃ¼ÃŸe". That includes types
 * that the client names, because most mail libraries name `text/csv` without a charset.
 *
 * No charset is added in these cases:
 * - the client names one
 * - the bytes are not UTF-8, or contain escapes or NUL, which occur in 7-bit charsets and UTF-16
 * - html, XML or CSS declares another one
 * - the type has no such parameter: RTF, and types other than text/* (JSON, RFC 8259)
 */
import { isUtf8 } from 'node:buffer';
import { isMediaType } from '../../mail/mime/header.ts';
import { readContentType } from '../../mail/mime/fields.ts';

const UNKNOWN_TYPE = 'application/octet-stream';

export function typeByName(filename: string): string {
  const extension = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase();
  return TYPE_OF_EXTENSION.get(extension) ?? UNKNOWN_TYPE;
}

const TYPE_OF_EXTENSION = new Map([
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
  ['svg', 'image/svg+xml'],
  ['csv', 'text/csv'],
  ['txt', 'text/plain'],
  ['html', 'text/html'],
  ['ics', 'text/calendar'],
  ['json', 'application/json'],
  ['zip', 'application/zip'],
]);

/**
 * Returns the type with the charset of the content.
 * @param type accepted by isMediaType
 * @param content base64
 */
export function withCharset(type: string, content: string): string {
  if (!/^text\//i.test(type)) return type;
  const { type: mediaType, parameters } = readContentType(type);
  if (WITHOUT_CHARSET.has(mediaType) || parameters.has('charset')) return type;
  const bytes = Buffer.from(content, 'base64');
  const typed = `${type}; charset=utf-8`;
  return isMediaType(typed) && isTextInUtf8(bytes, mediaType) ? typed : type;
}

const WITHOUT_CHARSET = new Set(['text/rtf', 'text/richtext']);

const NUL = 0;
/** Begins the escape sequences of ISO-2022-JP, whose octets are all ASCII. */
const ESCAPE = 0x1b;

function isTextInUtf8(bytes: Buffer, mediaType: string): boolean {
  if (!isUtf8(bytes) || bytes.includes(NUL) || bytes.includes(ESCAPE)) return false;
  const declared = DECLARING_TYPE.test(mediaType) ? declaredCharset(bytes) : null;
  return declared === null || /^utf-?8$/i.test(declared);
}

const DECLARING_TYPE = /^text\/(?:html|css|xml|.*\+xml)$/;
const DECLARED_WITHIN_BYTES = 1_024;
/** `<meta charset="…">`, `content="text/html; charset=…"`, `<?xml … encoding="…"?>`, `@charset "…"` */
const DECLARATION =
  /(?:(?<!accept-)(?:charset|encoding)\s{0,9}=|@charset)\s{0,9}["']?\s{0,9}([\w.:-]{1,40})/i;

function declaredCharset(bytes: Buffer): string | null {
  return DECLARATION.exec(bytes.toString('latin1', 0, DECLARED_WITHIN_BYTES))?.[1] ?? null;
}
