/**
 * Parses received messages: header fields in order, with their octets, and MIME parts (RFC 5322, 2045, 2046, 2231).
 * Lenient: a bare LF ends a line, an invalid line becomes a field without a name, and a multipart without its last
 * boundary ends with the message.
 *
 * Bounded: DEPTH_MAX levels, PARTS_MAX parts, FIELDS_MAX fields in total, VALUE_CHARS_MAX per value. The time is
 * linear in the size per level. Everything beyond a limit is a leaf with its octets. Never throws.
 */
import type { HeaderField } from './header.ts';
import { decodeBody, decodeText, decodeWords, type TransferEncoding } from './decode.ts';
import { type ContentType, readContentType, readTransferEncoding } from './fields.ts';

const DEPTH_MAX = 12;
/** An embedded message with a transfer encoding is copied, so it counts as several levels. */
const DEPTH_OF_COPY = 4;
const PARTS_MAX = 300;
const FIELDS_MAX = 2_000;
export const VALUE_CHARS_MAX = 64 * 1024;
const BOUNDARY_CHARS_MAX = 250;

/**
 * A field with its octets from `start` to `end`, including the last line end. The name of an invalid line is ''. The
 * value is unfolded and trimmed; its encoded words are not decoded.
 */
export type PlacedField = HeaderField & { start: number; end: number };

export type Header = {
  /** Consecutive fields without gaps, unless isCut. */
  fields: readonly PlacedField[];
  /** The header contains more fields than were parsed. */
  isCut: boolean;
  /** The start of the body after the empty line, or the end of the bytes. */
  bodyStart: number;
};

export type MimePart = {
  fields: readonly PlacedField[];
  contentType: ContentType;
  /** `unknown` is not removed from `body`. Of a multipart, only `identity` is valid. */
  encoding: TransferEncoding;
  /** The received octets with the header. They share the message's memory, unless an embedded one was decoded. */
  octets: Buffer;
  /** The body without its transfer encoding, for leaves. */
  body: Buffer;
  /** Parts of a multipart; the embedded message of message/rfc822 and message/global. */
  parts: readonly MimePart[];
};

const LF = 10;
const CR = 13;
const NAME_CHARS_MAX = 200;
const FIELD_NAME = /^[!-9;-~]+[ \t]*$/;
const BEYOND_ASCII = /[\x80-\xff]/;
const TAB = 9;
const SPACE = 32;
const DASH = 45;

export function readHeader(bytes: Buffer, fieldsMax = FIELDS_MAX): Header {
  const end = endOfHeader(bytes);
  const bodyStart = afterEmptyLine(bytes, end);
  const text = bytes.toString('latin1', 0, end);
  const fields: PlacedField[] = [];
  for (let at = 0; at < end;) {
    if (fields.length >= fieldsMax) return { fields, isCut: true, bodyStart };
    const fieldEnd = endOfField(text, at);
    fields.push(parseField(text, at, fieldEnd));
    at = fieldEnd;
  }
  return { fields, isCut: false, bodyStart };
}

function endOfHeader(bytes: Buffer): number {
  if (bytes[0] === LF || (bytes[0] === CR && bytes[1] === LF)) return 0;
  const beforeCrlf = bytes.indexOf('\n\r\n', 0, 'latin1');
  const searched = beforeCrlf < 0 ? bytes : bytes.subarray(0, beforeCrlf + 1);
  const beforeLf = searched.indexOf('\n\n', 0, 'latin1');
  const found = beforeLf < 0 ? beforeCrlf : beforeLf;
  return found < 0 ? bytes.length : found + 1;
}

function afterEmptyLine(bytes: Buffer, at: number): number {
  return Math.min(bytes.length, at + (bytes[at] === CR ? 2 : 1));
}

function endOfField(text: string, start: number): number {
  let at = start;
  do {
    at = text.indexOf('\n', at) + 1;
    if (at === 0) return text.length;
  } while (text[at] === ' ' || text[at] === '\t');
  return at;
}

function parseField(text: string, start: number, end: number): PlacedField {
  const beginning = text.slice(start, Math.min(end, start + NAME_CHARS_MAX));
  const name = beginning.slice(0, Math.max(0, beginning.indexOf(':')));
  const isField = FIELD_NAME.test(name);
  const valueStart = isField ? start + name.length + 1 : start;
  const value = unfold(text.slice(valueStart, Math.min(end, valueStart + VALUE_CHARS_MAX)));
  return { name: isField ? name.trimEnd() : '', value, start, end };
}

/** Octets outside of ASCII are UTF-8 (RFC 6532), or Latin-1 if they are not valid UTF-8. */
function unfold(text: string): string {
  const value = text.replace(/\r?\n/g, '');
  // Trim the decoded text: in Latin-1 the last octet of an à is a space.
  return (BEYOND_ASCII.test(value) ? decodeText(Buffer.from(value, 'latin1'), '') : value).trim();
}

/** Returns the value of the first field with this lower-case name. */
export function fieldValue(fields: readonly HeaderField[], name: string): string | undefined {
  return fields.find((field) => isNamed(field, name))?.value;
}

export function fieldValues(fields: readonly HeaderField[], name: string): string[] {
  return fields.filter((field) => isNamed(field, name)).map(({ value }) => value);
}

function isNamed(field: HeaderField, name: string): boolean {
  return field.name.length === name.length && field.name.toLowerCase() === name;
}

type Budget = { partsLeft: number; fieldsLeft: number };

export function readMessage(bytes: Buffer): MimePart {
  const budget = { partsLeft: PARTS_MAX, fieldsLeft: FIELDS_MAX };
  return readPart(bytes, budget, { depth: 0, defaultType: 'text/plain' });
}

type PartPosition = { depth: number; defaultType: string };

function readPart(bytes: Buffer, budget: Budget, { depth, defaultType }: PartPosition): MimePart {
  budget.partsLeft -= 1;
  const { fields, bodyStart } = readHeader(bytes, budget.fieldsLeft);
  budget.fieldsLeft -= fields.length;
  const declaredType = fieldValue(fields, 'content-type');
  const contentType = readContentType(declaredType ?? defaultType);
  const encoding = readTransferEncoding(fieldValue(fields, 'content-transfer-encoding'));
  const raw = bytes.subarray(bodyStart);
  const leaf = (body: Buffer, parts: MimePart[] = []) => ({
    fields,
    contentType,
    encoding,
    octets: bytes,
    body,
    parts,
  });
  const boundary = contentType.parameters.get('boundary') ?? '';
  const isMultipart = contentType.type.startsWith('multipart/') && boundary !== '';
  if (isMultipart && depth < DEPTH_MAX && boundary.length <= BOUNDARY_CHARS_MAX) {
    const childPosition = {
      depth: depth + 1,
      defaultType: contentType.type === 'multipart/digest' ? 'message/rfc822' : 'text/plain',
    };
    return leaf(
      raw,
      splitMultipart(raw, boundary, budget.partsLeft).flatMap((part) =>
        budget.partsLeft > 0 ? [readPart(part, budget, childPosition)] : [],
      ),
    );
  }
  const body = decodeBody(raw, encoding);
  const isMessage = contentType.type === 'message/rfc822' || contentType.type === 'message/global';
  if (!isMessage || depth >= DEPTH_MAX || budget.partsLeft <= 0) return leaf(body);
  const levels = body === raw ? 1 : DEPTH_OF_COPY;
  return leaf(body, [readPart(body, budget, { depth: depth + levels, defaultType: 'text/plain' })]);
}

/** Returns the bodies between the delimiter lines. The line end before a delimiter belongs to the delimiter. */
function splitMultipart(body: Buffer, boundary: string, partsMax: number): Buffer[] {
  const line = Buffer.from(`\n--${boundary}`);
  const parts: Buffer[] = [];
  const isFirstLine = line.subarray(1).equals(body.subarray(0, line.length - 1));
  let at = isFirstLine ? delimiterAt(body, 0, line.length - 1) : null;
  at ??= nextDelimiter(body, line, 0);
  while (at !== null && !at.isLast && parts.length < partsMax) {
    // The line end of a delimiter may also begin the next one.
    const next = nextDelimiter(body, line, at.end - 1);
    parts.push(body.subarray(at.end, next === null ? body.length : beforeLineEnd(body, next)));
    at = next;
  }
  return parts;
}

type Delimiter = { start: number; end: number; isLast: boolean };

function nextDelimiter(body: Buffer, line: Buffer, from: number): Delimiter | null {
  for (let at = from; ; at += 1) {
    at = body.indexOf(line, at);
    if (at < 0) return null;
    const delimiter = delimiterAt(body, at + 1, line.length - 1);
    if (delimiter !== null) return delimiter;
  }
}

/** Returns null when the line continues, because it then belongs to another multipart. */
function delimiterAt(body: Buffer, start: number, octets: number): Delimiter | null {
  let end = start + octets;
  const isLast = body[end] === DASH && body[end + 1] === DASH;
  while (isBlank(body[end])) end += 1;
  if (!isLast && end < body.length && body[end] !== LF) return null;
  const lineEnd = body.indexOf(LF, end);
  return { start, end: lineEnd < 0 ? body.length : lineEnd + 1, isLast };
}

function isBlank(octet: number | undefined): boolean {
  return octet === SPACE || octet === TAB || octet === CR;
}

function beforeLineEnd(body: Buffer, { start }: Delimiter): number {
  return body[start - 2] === CR ? start - 2 : start - 1;
}

export function partText({ body, contentType }: MimePart): string {
  return decodeText(body, contentType.parameters.get('charset') ?? '');
}

export function decodedFieldValue(
  fields: readonly HeaderField[],
  name: string,
): string | undefined {
  const value = fieldValue(fields, name);
  return value === undefined ? undefined : decodeWords(value);
}

/** Yields a part and all parts within it, in order, including the parts of embedded messages. */
export function* partsWithin(part: MimePart): Generator<MimePart> {
  yield part;
  for (const child of part.parts) yield* partsWithin(child);
}
