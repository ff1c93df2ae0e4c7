/**
 * Reads a message as it was sent, for who wants to see what is in it: its header, its attachments, and its texts.
 * Pure; bounded like mail/mime/reader.ts.
 */
import { bodyPartsOf, contentIdOf, fileNameOf } from '../../mail/mime/body-parts.ts';
import { decodeWords } from '../../mail/mime/decode.ts';
import { type MimePart, readMessage, textOfPart } from '../../mail/mime/reader.ts';

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
  const texts = [...bodyPartsOf(message)];
  const shown = new Set(texts);
  const first = (type: string): string | null => {
    const part = texts.find(({ contentType }) => contentType.type === type);
    return part === undefined ? null : clean(textOfPart(part));
  };
  return {
    headers: message.fields
      .filter(({ name }) => name !== '')
      .map(({ name, value }) => ({ name, value: clean(decodeWords(value)) })),
    attachments: leavesOf(message)
      .filter((part) => !shown.has(part))
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

function attachedFile(part: MimePart, number: number): AttachedFile {
  const id = contentIdOf(part);
  return {
    number,
    filename: storableName(fileNameOf(part) ?? '') || `attachment-${number}`,
    contentType: part.contentType.type,
    contentId: id === null ? null : clean(id),
    content: part.body,
  };
}

/** Controls, those of the writing direction (which can hide an extension), and separators of folders. */
const NOT_IN_A_NAME =
  /[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069/\\]/g;

/** Of a name that a stranger chose; '' when nothing of it is left. Windows drops dots and spaces at its end. */
function storableName(name: string): string {
  return clean(name)
    .replaceAll(NOT_IN_A_NAME, '_')
    .replace(/[. ]+$/, '');
}

/** JSON has no lone surrogates, and some readers refuse NUL. */
function clean(text: string): string {
  return text.toWellFormed().replaceAll('\0', '');
}
