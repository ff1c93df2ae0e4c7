/**
 * Splits a report with any MIME structure into its own header, the text for people, the fields for machines, and the
 * header of the original message. These decide the kind of message: a bounce or delay by its text, an automatic
 * reply (RFC 3834), a complaint (RFC 5965). The quoted original never decides it.
 *
 * Only the layout of RFC 3462 separates the parts. Other systems write one text, with a line that announces the
 * original. Some declare a boundary that does not occur.
 */
import type { HeaderField } from '../mime/header.ts';
import {
  decodedFieldValue,
  type MimePart,
  partsWithin,
  readHeader,
  readMessage,
  partText,
  fieldValue,
} from '../mime/reader.ts';
import {
  ORIGINAL_PHRASES,
  BOUNCE_PHRASES,
  DELAY_PHRASES,
  GIVEN_UP_PHRASES,
} from './report-phrases.ts';
import { textFromHtml } from '../html/text-from-html.ts';

export type ReportParts = {
  fields: readonly HeaderField[];
  contentType: MimePart['contentType'];
  /** Lines of the text for people, up to the original. */
  lines: readonly string[];
  text: string;
  /** message/delivery-status or a similar part, or a text with such fields; '' when there is none. */
  statusText: string;
  /** message/feedback-report; null when there is none. */
  feedbackText: string | null;
  /** Fields of the original; empty without it. */
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

export function splitReport(bytes: Buffer): ReportParts {
  const message = readMessage(bytes);
  const ownParts = partsBeforeOriginal(message);
  const text = reportText(ownParts).slice(0, TEXT_CHARS_MAX);
  const { lines, originalLines } = splitAtOriginal(splitLines(text));
  const ofType = (types: ReadonlySet<string>) =>
    ownParts.filter(({ contentType }) => types.has(contentType.type));
  const [original] = ofType(ORIGINAL_TYPES);
  const [feedback] = ofType(new Set(['message/feedback-report']));
  const statusText = ofType(STATUS_TYPES).map(partText).join('\n\n').slice(0, TEXT_CHARS_MAX);
  return {
    fields: message.fields,
    contentType: message.contentType,
    lines,
    text: lines.join(' '),
    statusText: statusText === '' && hasStatusFields(text) ? text : statusText,
    feedbackText: feedback === undefined ? null : partText(feedback).slice(0, TEXT_CHARS_MAX),
    originalFields: original === undefined ? fieldsOf(originalLines) : originalHeader(original),
  };
}

/** Returns the parts outside of the first original. A returned report may contain others. */
function partsBeforeOriginal(message: MimePart): MimePart[] {
  const ownParts: MimePart[] = [];
  const inOriginal = new Set<MimePart>();
  for (const part of partsWithin(message)) {
    if (inOriginal.has(part)) {
      for (const within of part.parts) inOriginal.add(within);
      continue;
    }
    ownParts.push(part);
    if (ORIGINAL_TYPES.has(part.contentType.type)) {
      for (const within of part.parts) inOriginal.add(within);
    }
  }
  return ownParts;
}

/** Returns plain text, else HTML as text. When the boundary does not occur, returns the raw octets. */
function reportText(ownParts: readonly MimePart[]): string {
  const leaves = ownParts.filter(({ parts }) => parts.length === 0);
  const plain = leaves.filter(
    ({ contentType: { type } }) => type === 'text/plain' || type.startsWith('multipart/'),
  );
  const texts = plain.map(partText).filter((text) => text.trim() !== '');
  if (texts.length > 0) return texts.join('\n');
  const html = leaves.find(({ contentType }) => contentType.type === 'text/html');
  return html === undefined ? '' : textFromHtml(partText(html).slice(0, TEXT_CHARS_MAX));
}

function splitLines(text: string): string[] {
  return text
    .split('\n', LINES_MAX)
    .map((line) => line.slice(0, LINE_CHARS_MAX).replaceAll('\r', '').replaceAll('\0', ''));
}

/** A read receipt has the same fields and also a Disposition (RFC 8098 §3.2.6). */
function hasStatusFields(text: string): boolean {
  const names = /^(?:Final-Recipient|Original-Recipient|X-Actual-Recipient):/im;
  return names.test(text) && !/^Disposition:/im.test(text);
}

/** Splits at the line that announces the original, or at the beginning of its header. */
function splitAtOriginal(all: readonly string[]): { lines: string[]; originalLines: string[] } {
  const isMark = (line: string, index: number) =>
    isAnnounced(line) || (index > 0 && /^(?:return-path|received): ?\S/i.test(line));
  const at = all.findIndex(isMark);
  if (at < 0) return { lines: [...all], originalLines: [] };
  const start = isAnnounced(all[at] ?? '') ? at + 1 : at;
  return { lines: all.slice(0, at), originalLines: all.slice(start) };
}

function isAnnounced(line: string): boolean {
  const lowerCase = line.toLowerCase();
  return ORIGINAL_PHRASES.some((phrase) => lowerCase.includes(phrase));
}

/** Returns the first lines that look like fields, up to an empty line. */
function fieldsOf(originalLines: readonly string[]): readonly HeaderField[] {
  const start = originalLines.findIndex((line) => /^\s*[\w-]{2,60}:/.test(line));
  if (start < 0) return [];
  const lines = originalLines.slice(start);
  const indent = /^ +/.exec(lines[0] ?? '')?.[0] ?? '';
  const flush = lines.map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
  return readHeader(Buffer.from(flush.join('\n'))).fields;
}

function originalHeader(original: MimePart): readonly HeaderField[] {
  const [message] = original.parts;
  return message === undefined ? readHeader(original.body).fields : message.fields;
}

export type Feedback = {
  /** `abuse`, `fraud`, `auth-failure` or another type, in lower case. */
  type: string;
  fields: readonly HeaderField[];
};

/** Feedback types that are not complaints. */
const OTHER_FEEDBACK_TYPES: ReadonlySet<string> = new Set(['auth-failure', 'not-spam', 'dmarc']);

export function isComplaint({ type }: Feedback): boolean {
  return !OTHER_FEEDBACK_TYPES.has(type);
}

/** Returns null for a message that is not a feedback report. */
export function feedbackOf({ fields, contentType, feedbackText }: ReportParts): Feedback | null {
  if (feedbackText !== null) {
    const reported = readHeader(Buffer.from(feedbackText.replace(/^[\r\n]+/, ''))).fields;
    const type = /^[\w-]+/.exec(fieldValue(reported, 'feedback-type') ?? '')?.[0] ?? 'abuse';
    return { type: type.toLowerCase(), fields: reported };
  }
  // Apple Mail unsubscribes with an automatic reply.
  if (fieldValue(fields, 'x-apple-unsubscribe')?.toLowerCase() === 'true') {
    return { type: 'opt-out', fields: [] };
  }
  const isFeedback = contentType.parameters.get('report-type')?.toLowerCase() === 'feedback-report';
  return isFeedback || isFromMicrosoft(fields) ? { type: 'abuse', fields: [] } : null;
}

/** Outlook.com's feedback loop sends the unchanged message with a new subject. */
function isFromMicrosoft(fields: readonly HeaderField[]): boolean {
  const subject = (decodedFieldValue(fields, 'subject') ?? '').toLowerCase();
  return (
    subject.startsWith('complaint about message from ') &&
    /staff@(?:hotmail|outlook|live)\.com/i.test(fieldValue(fields, 'from') ?? '')
  );
}

/** Returns whether the text, or a field that names a failed recipient, reports a failed delivery. */
export function textReportsBounce(parts: ReportParts): boolean {
  const { fields } = parts;
  if (fieldValue(fields, 'x-failed-recipients') !== undefined) return true;
  const text = parts.text.toLowerCase();
  const subject = (decodedFieldValue(fields, 'subject') ?? '').toLowerCase();
  const reportsBounce = (lowerCase: string) =>
    BOUNCE_PHRASES.some((phrase) => lowerCase.includes(phrase));
  if (isFromMailSystem(fields))
    return reportsBounce(subject) || reportsBounce(text) || textReportsDelay(parts);
  // Subject and text must both report a bounce, because an automatic reply may quote one in its subject.
  return reportsBounce(subject)
    ? reportsBounce(text) || /\b[45]\d\d[ -]/.test(text)
    : reportsBounce(text) && !isReply(subject);
}

function isReply(subject: string): boolean {
  return /^(?:re|aw|sv|antw|auto|out of office|abwesen)\b/.test(subject);
}

function isFromMailSystem(fields: readonly HeaderField[]): boolean {
  const from =
    `${fieldValue(fields, 'from') ?? ''} ${fieldValue(fields, 'sender') ?? ''}`.toLowerCase();
  const returnPath = fieldValue(fields, 'return-path');
  return (
    /mailer-?daemon|postmaster|mail ?delivery|mail ?administrator|system ?administrator|mail ?system|\bmdaemon\b|no-?reply/.test(
      from,
    ) || returnPath === '<>'
  );
}

/** Returns whether the text reports a delay, for a report without an `Action` field. */
export function textReportsDelay(parts: ReportParts): boolean {
  const subject = decodedFieldValue(parts.fields, 'subject') ?? '';
  const text = `${subject} ${parts.text}`.toLowerCase();
  const has = (phrases: readonly string[]) => phrases.some((phrase) => text.includes(phrase));
  return has(DELAY_PHRASES) && !has(GIVEN_UP_PHRASES);
}

const AUTO_REPLY_FIELDS = [
  'x-autoreply',
  'x-autorespond',
  'x-autoresponder',
  'x-auto-response',
  'x-autogenerated',
  'x-autoreply-from',
  'x-vacation',
  'x-mail-autoreply',
];

const AUTO_REPLY_SUBJECT = new RegExp(
  [
    '^(?:re: ?|aw: ?)?(?:auto(?:matic|matische|matisk)?[ -:]{0,2}(?:reply|response|antwort|svar|re:)',
    '|auto: |autoreply|autoresponse|autosvar|autom\\.? antw|automatisch antwoord',
    '|out of (?:the )?office|ooo\\b|away from|on vacation|on leave|vacation|i am (?:currently )?(?:away|out)',
    '|abwesen|ich bin (?:nicht|derzeit)|r\u00e9ponse automatique|absen|respuesta autom|fuera de la oficina',
    '|risposta automatica|resposta autom|\u81ea\u52d5\u5fdc\u7b54|\u4e0d\u5728|\u81ea\u52a8\u56de\u590d|\u0430\u0432\u0442\u043e\u043e\u0442\u0432\u0435\u0442|odpowied\u017a automatyczna)',
  ].join(''),
  'i',
);

export function isAutoReply(fields: readonly HeaderField[]): boolean {
  const submitted = (fieldValue(fields, 'auto-submitted') ?? 'no').toLowerCase();
  if (/^auto-(?:replied|notified|generated)/.test(submitted)) return true;
  if (AUTO_REPLY_FIELDS.some((name) => fieldValue(fields, name) !== undefined)) return true;
  if (/auto.?reply/i.test(fieldValue(fields, 'precedence') ?? '')) return true;
  return AUTO_REPLY_SUBJECT.test(decodedFieldValue(fields, 'subject') ?? '');
}
