/**
 * Adds tracking to the html of a submitted message. Only html that mail programs show as the text of the message is
 * rewritten (mail/mime/body-parts.ts), and only if it has links to track. Signed and encrypted messages, files,
 * embedded messages, and parts that parsers read in different ways do not change.
 */
import { bodyPartsOf } from '../mime/body-parts.ts';
import { headerLine } from '../mime/header.ts';
import {
  type MimePart,
  type PlacedField,
  readHeader,
  readMessage,
  fieldValue,
  fieldValues,
} from '../mime/reader.ts';
import { encodeText } from '../mime/transfer-encoding.ts';

/** Multiparts whose parts may be rewritten. In others, parts are evidence or would become invalid. */
const REWRITABLE_MULTIPARTS = new Set([
  'multipart/alternative',
  'multipart/related',
  'multipart/mixed',
]);
const DESCRIBING_FIELDS = ['content-type', 'content-transfer-encoding', 'content-disposition'];
/** Fields that describe the octets of a part, and would be wrong for the new octets. */
const OCTET_FIELDS = new Set(['content-transfer-encoding', 'content-md5', 'content-length']);
/** Signatures of the client, which cover the body. */
const SIGNATURES = ['dkim-signature', 'domainkey-signature', 'arc-seal'];
const UTF8 = /^(?:utf-?8|us-ascii|)$/i;

/** Searches the field and its continuation lines; the value may contain comments (`text/(x) html`). */
const HTML_TYPE = /^content-type[ \t]*:(?:[^\r\n]|\r?\n[ \t]){0,998}html/im;
const CR = 13;
const LF = 10;

/** Returns whether the message could have html. It is not parsed, and the common spelling is found at once. */
export function mayHaveHtml(content: Buffer): boolean {
  return content.includes('text/html') || HTML_TYPE.test(content.toString('latin1'));
}

export function trackMessage(raw: Buffer, track: (html: string) => string): Buffer {
  const message = readMessage(raw);
  if (SIGNATURES.some((name) => fieldValue(message.fields, name) !== undefined)) return raw;
  const pieces: Buffer[] = [];
  let copied = 0;
  for (const part of htmlPartsOf(message)) {
    const tracked = trackPart(part, track);
    if (tracked === null) continue;
    const start = part.octets.byteOffset - raw.byteOffset;
    pieces.push(raw.subarray(copied, start), tracked);
    copied = start + part.octets.length;
  }
  return copied === 0 ? raw : Buffer.concat([...pieces, raw.subarray(copied)]);
}

function* htmlPartsOf(message: MimePart): Generator<MimePart> {
  for (const part of bodyPartsOf(message, isRewritable)) {
    const { type, parameters } = part.contentType;
    if (type === 'text/html' && UTF8.test(parameters.get('charset') ?? '') && isUnambiguous(part)) {
      yield part;
    }
  }
}

/** A multipart must not have an encoding (RFC 2045 §6.4). Parsers differ on one that declares it. */
function isRewritable(multipart: MimePart): boolean {
  const { encoding, contentType } = multipart;
  return (
    REWRITABLE_MULTIPARTS.has(contentType.type) &&
    encoding === 'identity' &&
    hasUniqueDescription(multipart)
  );
}

/** Returns whether all parsers read the same html in a part, so that encoding it again loses nothing. */
function isUnambiguous(part: MimePart): boolean {
  return hasUniqueDescription(part) && (part.encoding !== 'base64' || isBase64(part.octets));
}

/** Parsers differ on which of two equal fields counts. */
function hasUniqueDescription({ fields }: MimePart): boolean {
  return DESCRIBING_FIELDS.every((name) => fieldValues(fields, name).length < 2);
}

function isBase64(part: Buffer): boolean {
  const body = part.toString('latin1', readHeader(part).bodyStart);
  const end = body.search(/[^A-Za-z0-9+/\s]/);
  return end < 0 || ['=', '=='].includes(body.slice(end).replaceAll(/\s+/g, ''));
}

/** Returns the new part with its header; null when it has nothing to track. */
function trackPart(part: MimePart, track: (html: string) => string): Buffer | null {
  const html = part.body.toString('utf8');
  const tracked = track(html);
  // Octets that are not UTF-8 would be lost.
  if (tracked === html || html.includes('\ufffd')) return null;
  const { fields, octets } = part;
  // Without an empty line here, the header contains more fields than were parsed.
  if (!isLineEnd(octets[fields.at(-1)?.end ?? 0])) return null;
  const { encoding, body } = encodeText(tracked);
  const kept = fields
    .filter(({ name }) => !OCTET_FIELDS.has(name.toLowerCase()))
    .map(({ start, end }: PlacedField) => octets.subarray(start, end));
  const field = headerLine({ name: 'Content-Transfer-Encoding', value: encoding });
  // The line end before a boundary belongs to the boundary.
  const content = octets.at(-1) === LF ? body : body.subarray(0, -2);
  return Buffer.concat([...kept, Buffer.from(`${field}\r\n`), content]);
}

function isLineEnd(octet: number | undefined): boolean {
  return octet === CR || octet === LF;
}
