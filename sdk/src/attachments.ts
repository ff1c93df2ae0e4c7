/**
 * Attachments as bytes: what a program has in memory (Buffer, Uint8Array, ArrayBuffer, Blob, File) becomes the
 * base64 of the API. A text stays as it is, because it is base64 already.
 */
import type { Attachment } from './api.ts';

/** The bytes of an attachment; a text is taken as base64. */
export type AttachmentContent = string | ArrayBufferView | ArrayBufferLike | Blob;

/** An attachment of an email to send. A `File` brings its name and type. */
export type AttachmentToSend =
  | (Omit<Attachment, 'content'> & { content?: AttachmentContent | undefined })
  | (Omit<Attachment, 'content' | 'filename'> & { filename?: string | undefined; content: File });

/** `String.fromCharCode` takes this many arguments in every runtime; a multiple of 3 keeps the base64 whole. */
const PIECE_BYTES = 3 * 4_096;

/** @param place of their email, for errors */
export async function attachmentsOf(
  attachments: readonly AttachmentToSend[],
  place: string,
): Promise<Attachment[]> {
  return Promise.all(
    attachments.map((one, index) => attachmentOf(one, `${place}attachments[${index}]`)),
  );
}

/**
 * @param place names it in an error: `attachments[0]`
 * @throws TypeError for content that has no bytes, such as a stream
 */
async function attachmentOf(attachment: AttachmentToSend, place: string): Promise<Attachment> {
  const { content, ...rest } = attachment;
  if (content === undefined || content === null || typeof content === 'string') {
    return attachment as Attachment;
  }
  const { name, type } = content as Partial<File>;
  return {
    ...(isBlob(content) && typeof name === 'string' && { filename: name }),
    ...(isBlob(content) && type && { content_type: type }),
    ...withoutUndefined(rest),
    content: base64Of(await bytesOf(content, place)),
  } as Attachment;
}

async function bytesOf(content: unknown, place: string): Promise<Uint8Array> {
  if (ArrayBuffer.isView(content)) {
    return new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
  }
  // By name: those of another realm, such as a test runner's, are no instances of this one's classes.
  if (/^\[object (?:Shared)?ArrayBuffer\]$/.test(nameOf(content))) {
    return new Uint8Array(content as ArrayBufferLike);
  }
  if (isBlob(content)) return new Uint8Array(await content.arrayBuffer());
  throw new TypeError(`${place}.content ${adviceAbout(content)}`);
}

function adviceAbout(content: unknown): string {
  const kinds = 'base64, a Buffer, Uint8Array, ArrayBuffer, Blob or File';
  if (typeof content !== 'object' || content === null) return `must be ${kinds}.`;
  if ('then' in content) return 'is a promise; await it.';
  if ('getReader' in content || 'pipe' in content || Symbol.asyncIterator in content) {
    return (
      'is a stream, which could not be sent again when a request is repeated. Read it first: ' +
      'await new Response(stream).arrayBuffer() of a web stream, buffer(stream) of node:stream/consumers.'
    );
  }
  return `must be ${kinds}, not a plain object or an array.`;
}

function isBlob(content: unknown): content is Blob {
  return /^\[object (?:Blob|File)\]$/.test(nameOf(content));
}

function nameOf(value: unknown): string {
  return Object.prototype.toString.call(value);
}

/** What is undefined gives way to what a File brings. */
function withoutUndefined(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + PIECE_BYTES)));
  }
  return text;
}
