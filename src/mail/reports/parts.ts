/**
 * What a report consists of, whatever its writer made of MIME: its own header, the words for
 * people, the fields for machines, and the header of the message that it is about.
 *
 * Only RFC 3462's layout has them apart. Others write all in one text, with a line of their own
 * invention before the original; some name a boundary that does not occur.
 */
import { MARKS_OF_ORIGINAL } from './words.ts';
import {
  type HeaderField,
  type MimePart,
  partsWithin,
  readHeader,
  readMessage,
  textOfPart,
} from '../mime-reader.ts';
import { textFromHtml } from '../text-from-html.ts';

export type ReportParts = {
  /** Of the report itself. */
  fields: readonly HeaderField[];
  contentType: MimePart['contentType'];
  /** For people, in lines, without what follows about the original. */
  lines: readonly string[];
  /** The lines as one. */
  words: string;
  /** message/delivery-status or its like, or a text with such fields; '' when there is none. */
  statusText: string;
  /** message/feedback-report; null when there is none. */
  feedbackText: string | null;
  /** Of the original; empty when it is not there. */
  originalFields: readonly HeaderField[];
};

const TEXT_CHARS_MAX = 32 * 1024;
const LINES_MAX = 800;
const LINE_CHARS_MAX = 1_500;

const STATUS_TYPES: ReadonlySet<string> = new Set([
  'message/delivery-status',
  'message/global-delivery-status',
  'message/xdelivery-status',
  'text/delivery-status',
]);
const ORIGINAL_TYPES: ReadonlySet<string> = new Set([
  'message/rfc822',
  'message/global',
  'message/partial',
  'message/rfc822-headers',
  'message/global-headers',
  'text/rfc822-headers',
  'text/rfc822-header',
  'text/rfc822',
]);

export function partsOfReport(bytes: Buffer): ReportParts {
  const message = readMessage(bytes);
  const own = partsBeforeOriginal(message);
  const text = wordsOf(own).slice(0, TEXT_CHARS_MAX);
  const { lines, rest } = splitAtOriginal(linesOf(text));
  const ofType = (types: ReadonlySet<string>) =>
    own.filter(({ contentType }) => types.has(contentType.type));
  const [original] = ofType(ORIGINAL_TYPES);
  const [feedback] = ofType(new Set(['message/feedback-report']));
  const statusText = ofType(STATUS_TYPES).map(textOfPart).join('\n\n').slice(0, TEXT_CHARS_MAX);
  return {
    fields: message.fields,
    contentType: message.contentType,
    lines,
    words: lines.join(' '),
    statusText: statusText === '' && hasStatusFields(text) ? text : statusText,
    feedbackText: feedback === undefined ? null : textOfPart(feedback).slice(0, TEXT_CHARS_MAX),
    originalFields: original === undefined ? fieldsOf(rest) : originalHeader(original),
  };
}

/** Everything outside of the first original; a report that was sent back may contain others. */
function partsBeforeOriginal(message: MimePart): MimePart[] {
  const own: MimePart[] = [];
  const inOriginal = new Set<MimePart>();
  for (const part of partsWithin(message)) {
    if (inOriginal.has(part)) {
      for (const within of part.parts) inOriginal.add(within);
      continue;
    }
    own.push(part);
    if (ORIGINAL_TYPES.has(part.contentType.type)) {
      for (const within of part.parts) inOriginal.add(within);
    }
  }
  return own;
}

/** Plain text; HTML where there is no other; the raw octets when the boundary does not occur. */
function wordsOf(own: readonly MimePart[]): string {
  const leaves = own.filter(({ parts }) => parts.length === 0);
  const plain = leaves.filter(
    ({ contentType: { type } }) => type === 'text/plain' || type.startsWith('multipart/'),
  );
  const words = plain.map(textOfPart).filter((text) => text.trim() !== '');
  if (words.length > 0) return words.join('\n');
  const html = leaves.find(({ contentType }) => contentType.type === 'text/html');
  return html === undefined ? '' : textFromHtml(textOfPart(html).slice(0, TEXT_CHARS_MAX));
}

function linesOf(text: string): string[] {
  return text
    .split('\n', LINES_MAX)
    .map((line) => line.slice(0, LINE_CHARS_MAX).replaceAll('\r', '').replaceAll('\0', ''));
}

function hasStatusFields(text: string): boolean {
  return /^(?:Final-Recipient|Original-Recipient|X-Actual-Recipient):/im.test(text);
}

/** At the line that announces the original, or where its header begins. */
function splitAtOriginal(all: readonly string[]): { lines: string[]; rest: string[] } {
  const isMark = (line: string, index: number) =>
    isAnnounced(line) || (index > 0 && /^(?:return-path|received): ?\S/i.test(line));
  const at = all.findIndex(isMark);
  if (at < 0) return { lines: [...all], rest: [] };
  const start = isAnnounced(all[at] ?? '') ? at + 1 : at;
  return { lines: all.slice(0, at), rest: all.slice(start) };
}

function isAnnounced(line: string): boolean {
  const words = line.toLowerCase();
  return MARKS_OF_ORIGINAL.some((mark) => words.includes(mark));
}

/** The first lines that look like fields, up to an empty line after them. */
function fieldsOf(rest: readonly string[]): readonly HeaderField[] {
  const start = rest.findIndex((line) => /^\s*[\w-]{2,60}:/.test(line));
  if (start < 0) return [];
  const lines = rest.slice(start);
  const indent = /^ +/.exec(lines[0] ?? '')?.[0] ?? '';
  const flush = lines.map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
  return readHeader(Buffer.from(flush.join('\n'))).fields;
}

function originalHeader(original: MimePart): readonly HeaderField[] {
  const [message] = original.parts;
  return message === undefined ? readHeader(original.body).fields : message.fields;
}
