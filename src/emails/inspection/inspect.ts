/** Parses a sent message for display: header, attachments and texts. Pure; bounded like mail/mime/reader.ts. */
import { bodyPartsOf, contentIdOf, fileNameOf } from '../../mail/mime/body-parts.ts';
import { decodeWords } from '../../mail/mime/decode.ts';
import { type MimePart, readMessage, partText } from '../../mail/mime/reader.ts';

export type AttachedFile = {
  number: number;
  filename: string;
  contentType: string;
  /** Without angle brackets. The html refers to it as `cid:<contentId>`. */
  contentId: string | null;
  content: Buffer;
};

export type InspectedMessage = {
  /** Unfolded and decoded, in order. */
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
    return part === undefined ? null : clean(partText(part));
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

/** Treats an attached message as one file. */
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

/** Control characters, bidirectional controls (which can hide an extension), and path separators. */
const NOT_IN_A_NAME =
  /[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069/\\]/g;

/** Makes a stranger's file name safe to store; '' when nothing is left. Windows drops trailing dots and spaces. */
function storableName(name: string): string {
  return clean(name)
    .replaceAll(NOT_IN_A_NAME, '_')
    .replace(/[. ]+$/, '');
}

function clean(text: string): string {
  return text.toWellFormed().replaceAll('\0', '');
}
