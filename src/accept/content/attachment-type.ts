/**
 * The media type of an attachment: the one that the client names, else by the extension of its file name.
 *
 * Text gets `charset=utf-8` when its bytes are UTF-8, because without it many readers show "Grüße" as "GrÃ¼ÃŸe":
 * also when the client names `text/csv`, as most mail libraries do, since a missing parameter says nothing. A charset that
 * the client names stays. None is added to what may be another one: bytes that are not UTF-8 or that 7-bit charsets and
 * UTF-16 have (escapes, NUL), and html, XML and CSS that declare another one. RTF and types other than text/*
 * (JSON, RFC 8259) have no such parameter.
 */
import { isUtf8 } from 'node:buffer';
import { isMediaType } from '../../mail/mime/header.ts';
import { readContentType } from '../../mail/mime/fields.ts';

const UNKNOWN = 'application/octet-stream';

export function typeByName(filename: string): string {
  const extension = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase();
  return TYPE_OF_EXTENSION.get(extension) ?? UNKNOWN;
}

/** The most common ones; others are application/octet-stream unless the client names the type. */
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
 * The type with the charset of the content.
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
  const declared = DECLARING.test(mediaType) ? declaredIn(bytes) : null;
  return declared === null || /^utf-?8$/i.test(declared);
}

const DECLARING = /^text\/(?:html|css|xml|.*\+xml)$/;
/** HTML asks for the declaration within these. */
const DECLARED_WITHIN_BYTES = 1_024;
/** `<meta charset="…">`, `content="text/html; charset=…"`, `<?xml … encoding="…"?>`, `@charset "…"` */
const DECLARATION =
  /(?:(?<!accept-)(?:charset|encoding)\s{0,9}=|@charset)\s{0,9}["']?\s{0,9}([\w.:-]{1,40})/i;

function declaredIn(bytes: Buffer): string | null {
  return DECLARATION.exec(bytes.toString('latin1', 0, DECLARED_WITHIN_BYTES))?.[1] ?? null;
}
