/**
 * The html of a message that an SMTP client wrote, with the links of a tracked email. Only html parts that change are
 * encoded anew; every other octet stays. Signed and encrypted messages are not changed at all, nor are
 * attachments and messages within the message.
 */
import { headerLine } from './header.ts';
import { type MimePart, type PlacedField, readMessage, valueOf } from './mime-reader.ts';
import { encodeText } from './transfer-encoding.ts';

/** Multiparts whose parts are shown; those of others are evidence, or would become invalid. */
const SHOWN = ['multipart/alternative', 'multipart/related', 'multipart/mixed'];
/** A signature of the client, which covers the body. */
const SIGNATURES = ['dkim-signature', 'arc-seal'];
const UTF8 = /^(?:utf-?8|us-ascii|)$/i;

export function trackMessage(raw: Buffer, track: (html: string) => string): Buffer {
  const message = readMessage(raw);
  if (SIGNATURES.some((name) => valueOf(message.fields, name) !== undefined)) return raw;
  const pieces: Buffer[] = [];
  let copied = 0;
  for (const part of htmlPartsOf(message)) {
    const tracked = trackedPart(part, track);
    if (tracked === null) continue;
    const start = part.octets.byteOffset - raw.byteOffset;
    pieces.push(raw.subarray(copied, start), tracked);
    copied = start + part.octets.length;
  }
  return copied === 0 ? raw : Buffer.concat([...pieces, raw.subarray(copied)]);
}

function* htmlPartsOf(part: MimePart): Generator<MimePart> {
  const { type, parameters } = part.contentType;
  if (SHOWN.includes(type)) {
    for (const within of part.parts) yield* htmlPartsOf(within);
    return;
  }
  const isAttached = /^attachment\b/i.test(valueOf(part.fields, 'content-disposition') ?? '');
  const isShown = type === 'text/html' && !isAttached;
  if (isShown && UTF8.test(parameters.get('charset') ?? '')) yield part;
}

/** The part with its header; null when nothing in it is tracked. */
function trackedPart(part: MimePart, track: (html: string) => string): Buffer | null {
  const html = part.body.toString('utf8');
  const tracked = track(html);
  // Octets that are not UTF-8 would not survive.
  if (tracked === html || html.includes('\ufffd')) return null;
  const { fields, octets } = part;
  // Otherwise the header has more fields than were read.
  if (!isLineEnd(octets[fields.at(-1)?.end ?? 0])) return null;
  const { encoding, body } = encodeText(tracked);
  const kept = fields
    .filter(({ name }) => name.toLowerCase() !== 'content-transfer-encoding')
    .map(({ start, end }: PlacedField) => octets.subarray(start, end));
  const field = headerLine({ name: 'Content-Transfer-Encoding', value: encoding });
  // The line end before a boundary belongs to the boundary.
  const content = octets.at(-1) === LF ? body : body.subarray(0, -2);
  return Buffer.concat([...kept, Buffer.from(`${field}\r\n`), content]);
}

const CR = 13;
const LF = 10;

function isLineEnd(octet: number | undefined): boolean {
  return octet === CR || octet === LF;
}
