/**
 * Reads a message as it was sent, for who wants to see what is in it: its header, its attachments, and its texts.
 * Pure; bounded like mime-reader.ts.
 */
import { decodeWords, readParameters } from './mime-decode.ts';
import { type MimePart, readMessage, textOfPart, valueOf } from './mime-reader.ts';

export type AttachedFile = {
  /** From 1, in the order of the message. */
  number: number;
  filename: string;
  contentType: string;
  /** Without angle brackets; the html shows it where it says `cid:`. */
  contentId: string | null;
  content: Buffer;
};

export type InspectedMessage = {
  /** Unfolded and decoded, in their order. */
  headers: { name: string; value: string }[];
  attachments: AttachedFile[];
  html: string | null;
  text: string | null;
};

export function inspectMessage(bytes: Buffer): InspectedMessage {
  const message = readMessage(bytes);
  const leaves = leavesOf(message);
  const texts = leaves.filter(isShown);
  const first = (type: string): string | null => {
    const part = texts.find(({ contentType }) => contentType.type === type);
    return part === undefined ? null : clean(textOfPart(part));
  };
  return {
    headers: message.fields
      .filter(({ name }) => name !== '')
      .map(({ name, value }) => ({ name, value: clean(decodeWords(value)) })),
    attachments: leaves
      .filter((part) => !isShown(part))
      .map((part, index) => attachedFile(part, index + 1)),
    html: first('text/html'),
    text: first('text/plain'),
  };
}

/** An attached message is one file, whatever is in it. */
function leavesOf(part: MimePart): MimePart[] {
  if (!part.contentType.type.startsWith('multipart/')) return [part];
  return part.parts.flatMap(leavesOf);
}

function isShown({ fields, contentType }: MimePart): boolean {
  const isText = contentType.type === 'text/html' || contentType.type === 'text/plain';
  return isText && !/^attachment\b/i.test(valueOf(fields, 'content-disposition') ?? '');
}

function attachedFile({ fields, contentType, body }: MimePart, number: number): AttachedFile {
  const disposition = readParameters(valueOf(fields, 'content-disposition') ?? '');
  const name = disposition.get('filename') ?? contentType.parameters.get('name');
  const filename = clean(decodeWords(name ?? '')).replaceAll(/[\u0001-\u001f\u007f/\\]/g, '_');
  const id = /^<(.{1,998})>$/.exec(valueOf(fields, 'content-id') ?? '')?.[1] ?? null;
  return {
    number,
    filename: filename || `attachment-${number}`,
    contentType: contentType.type,
    contentId: id === null ? null : clean(id),
    content: body,
  };
}

/** JSON has no lone surrogates, and some readers refuse NUL. */
function clean(text: string): string {
  return text.toWellFormed().replaceAll('\0', '');
}
