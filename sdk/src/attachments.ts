/**
 * Converts attachments in memory (Buffer, Uint8Array, ArrayBuffer, Blob, File) to the base64 of the API. A string is
 * base64 already and does not change.
 */
import type { Attachment } from './api.ts';

/** Bytes of an attachment. A string must be base64. */
export type AttachmentContent = string | ArrayBufferView | ArrayBufferLike | Blob;

/** An attachment of an email to send. A `File` has its own name and type. */
export type AttachmentToSend =
  | (Omit<Attachment, 'content'> & { content?: AttachmentContent | undefined })
  | (Omit<Attachment, 'content' | 'filename'> & { filename?: string | undefined; content: File });

/**
 * Every runtime accepts this many arguments for `String.fromCharCode`. A multiple of 3 needs no padding between
 * pieces.
 */
const PIECE_BYTES = 3 * 4_096;

/** @param place prefix of their names in errors */
export async function attachmentsOf(
  attachments: readonly AttachmentToSend[],
  place: string,
): Promise<Attachment[]> {
  return Promise.all(
    attachments.map((one, index) => attachmentOf(one, `${place}attachments[${index}]`)),
  );
}

/**
 * @param place its name in errors, such as `attachments[0]`
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
  // Compares names, because values of another realm, such as a test runner's, are not instances of these
  // classes.
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

/** Undefined fields must not override those of a File. */
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
