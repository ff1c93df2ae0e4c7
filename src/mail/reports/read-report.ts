/**
 * Reads a received message: its kind (bounce, delay, complaint, delivery confirmation, automatic reply, other) and
 * the result for each recipient that it names.
 *
 * Reports are untrusted. The signed return path identifies the email and the recipient (inbound/); only the result
 * comes from here. The cost is bounded for any message: the first REPORT_BYTES_MAX are read, each part once, and at
 * most RECIPIENTS_MAX recipients are classified.
 */
import { addressKey } from '../address.ts';
import type { HeaderField } from '../mime/header.ts';
import { fieldValue, fieldValues } from '../mime/reader.ts';
import type { Classification } from '../replies/meanings.ts';
import {
  addressesIn,
  addressIn,
  readTextEntries,
  RECIPIENTS_MAX,
  type TextEntry,
} from './text-entries.ts';
import {
  type Feedback,
  feedbackOf,
  isAutoReply,
  textReportsBounce,
  isComplaint,
  textReportsDelay,
  splitReport,
  type ReportParts,
} from './report-parts.ts';
import { classifyReported } from './classify-report.ts';
import { readStatusEntries, type StatusEntry } from './status-fields.ts';

export type ReportKind = 'bounce' | 'delay' | 'complaint' | 'delivered' | 'auto_reply' | 'other';

export type ReportedRecipient = {
  /** The result for this recipient; `other`: forwarded to others, without a result yet. */
  kind: ReportKind;
  /** The recipient in the report, which is another address after forwarding, or null when not named. */
  recipient: string | null;
  /** Original-Recipient: the address that the sender used, or null when not named. */
  original: string | null;
  status: string | null;
  code: number | null;
  /** Null when nothing was refused. */
  classification: Classification | null;
  /** One line of at most 2 KB; null when the report has none. */
  diagnostic: string | null;
  /** Another server has the message and will not report (Action: relayed). */
  isRelayed?: true;
};

export type Report = {
  /** The most important kind of its recipients: one bounce makes the report a bounce. */
  kind: ReportKind;
  recipients: readonly ReportedRecipient[];
  /** True if the report contains fields for each recipient (RFC 3464); else its text names them. */
  hasFields: boolean;
  feedbackType: string | null;
  /** Envelope senders in the header of the original, the most reliable first. */
  returnPaths: readonly string[];
  /** Message-ID of the original, without brackets. */
  originalMessageId: string | null;
};

/** Limit on the octets that are read. They suffice, because the report precedes the original. */
export const REPORT_BYTES_MAX = 256 * 1024;
/** The most important kind first. */
const KINDS = ['bounce', 'delay', 'delivered'] as const;
const DELAYS = /^(?:delay|defer|warn|retr|transient|temporar)/;
/** `deliverable`: Postfix's result of an address probe. */
const DELIVERIES = /^(?:delivered|deliverable|success)/;
/** Actions of a server that forwarded the message, so the result is not known yet (RFC 3464 §2.3.3). */
const PASSED_ON: ReadonlySet<string> = new Set(['relayed', 'expanded']);
const DIAGNOSTIC_CHARS_MAX = 2_000;
const RETURN_PATHS_MAX = 20;

export function readReport(bytes: Buffer): Report {
  const parts = splitReport(bytes.subarray(0, REPORT_BYTES_MAX));
  const feedback = feedbackOf(parts);
  const results = feedback === null ? readFailures(parts) : readFeedback(parts, feedback);
  return {
    ...results,
    feedbackType: feedback?.type ?? null,
    returnPaths: returnPathsOf(parts, feedback),
    originalMessageId: messageIdOf(parts.originalFields),
  };
}

type ReportResults = Pick<Report, 'kind' | 'recipients' | 'hasFields'>;

function readFeedback({ fields, originalFields }: ReportParts, feedback: Feedback): ReportResults {
  const recipient =
    firstAddress(feedback.fields, ['original-rcpt-to', 'original-recipient']) ??
    firstAddress(originalFields, ['x-hmxmroriginalrecipient', 'to', 'x-original-to']) ??
    firstAddress(feedback.fields, ['removal-recipient']) ??
    (feedback.fields.length === 0 ? firstAddress(fields, ['from']) : null);
  const noDetails = {
    original: null,
    status: null,
    code: null,
    classification: null,
    diagnostic: null,
  };
  const kind = isComplaint(feedback) ? 'complaint' : 'other';
  return { kind, recipients: [{ kind, recipient, ...noDetails }], hasFields: false };
}

function firstAddress(fields: readonly HeaderField[], names: readonly string[]): string | null {
  for (const name of names) {
    const address = addressIn(fieldValue(fields, name) ?? '');
    if (address !== null) return address;
  }
  return null;
}

function readFailures(parts: ReportParts): ReportResults {
  const entries = readStatusEntries(parts.statusText);
  if (entries.length > 0) return readStatus(parts, entries);
  if (!textReportsBounce(parts)) {
    const kind = isAutoReply(parts.fields) ? 'auto_reply' : 'other';
    return { kind, recipients: [], hasFields: false };
  }
  const isDelay = textReportsDelay(parts);
  const textEntries = readRecipientsInText(parts);
  const reportText = parts.text;
  const recipients = (textEntries.length > 0 ? textEntries : entriesFromOriginal(parts)).map(
    (entry) =>
      classifyEntry({
        recipient: entry.recipient,
        original: null,
        // The whole text concerns a recipient only if it is the only one.
        texts: textEntries.length > 1 ? [entry.diagnostic] : [entry.diagnostic, reportText],
        status: null,
        isDelay,
      }),
  );
  return { kind: isDelay ? 'delay' : 'bounce', recipients, hasFields: false };
}

/** Returns the only recipient in To of the original, for a report that names none. */
function entriesFromOriginal({ originalFields }: ReportParts): TextEntry[] {
  const to = fieldValues(originalFields, 'to').flatMap((value) => addressesIn(value));
  const addresses = new Set(to.map(({ address }) => address));
  return Array.from(addresses.size === 1 ? addresses : [], (recipient) => ({
    recipient,
    diagnostic: '',
  }));
}

function readRecipientsInText({ fields, lines, originalFields }: ReportParts): TextEntry[] {
  const known = fieldValues(fields, 'x-failed-recipients').flatMap(addressesIn);
  const senders = [
    ...['to', 'from', 'delivered-to', 'reply-to'].flatMap((name) => fieldValues(fields, name)),
    ...['from', 'sender', 'return-path'].flatMap((name) => fieldValues(originalFields, name)),
  ].flatMap(addressesIn);
  const recipients = fieldValues(originalFields, 'to').flatMap(addressesIn);
  const recipientKeys = new Set(recipients.map(({ address }) => addressKey(address)));
  return readTextEntries(lines, {
    notRecipients: new Set(
      senders.map(({ address }) => addressKey(address)).filter((key) => !recipientKeys.has(key)),
    ),
    known: Array.from(new Set(known.map(({ address }) => address))),
  });
}

type Entry = StatusEntry & { kind: ReportKind };

function readStatus(parts: ReportParts, entries: readonly StatusEntry[]): ReportResults {
  // The text is parsed at most once, and only if the fields are incomplete.
  const isDelay = memoize(() => textReportsDelay(parts));
  const textEntries = memoize(() => readRecipientsInText(parts));
  const all = entries.map((entry) => ({ ...entry, kind: entryKind(entry, isDelay) }));
  const refused = all.filter(isRefused);
  const limited = limitEntries(RECIPIENTS_MAX, refused, all);
  const isOnly = (refused.length > 0 ? refused : all).length === 1;
  const isAlone = all.length === 1;
  return {
    kind: KINDS.find((kind) => all.some((entry) => entry.kind === kind)) ?? 'other',
    recipients: limited.map((entry) => recipientOf(entry, { parts, isOnly, isAlone, textEntries })),
    hasFields: true,
  };
}

function memoize<Value>(work: () => Value): () => Value {
  let done: { value: Value } | null = null;
  return () => (done ??= { value: work() }).value;
}

/** Returns all entries in order; if there are too many, the refused ones first. */
function limitEntries(
  max: number,
  refused: readonly Entry[],
  all: readonly Entry[],
): readonly Entry[] {
  if (all.length <= max) return all;
  return [...refused, ...all.filter((entry) => !isRefused(entry))].slice(0, max);
}

function isRefused({ kind }: Entry): boolean {
  return kind === 'bounce' || kind === 'delay';
}

/** Returns the kind by the action, then by the status; the text decides only if both are missing. */
function entryKind(
  { action, status, isRetried }: StatusEntry,
  isDelayByText: () => boolean,
): ReportKind {
  if (DELAYS.test(action)) return 'delay';
  if (DELIVERIES.test(action)) return 'delivered';
  if (PASSED_ON.has(action)) return 'other';
  if (status?.startsWith('2') === true) return 'delivered';
  if (action.startsWith('fail')) return 'bounce';
  if (isRetried) return 'delay';
  // Actions outside of RFC 3464, such as `undeliverable`.
  if (action !== '') return 'bounce';
  return status?.startsWith('4') === true || isDelayByText() ? 'delay' : 'bounce';
}

type EntryContext = {
  parts: ReportParts;
  /** No other entry is refused, so the text of the report concerns this one. */
  isOnly: boolean;
  /** There is no other entry, so it concerns the recipient of the original. */
  isAlone: boolean;
  textEntries: () => TextEntry[];
};

function recipientOf(
  entry: Entry,
  { parts, isOnly, isAlone, textEntries }: EntryContext,
): ReportedRecipient {
  const { kind, status, original, diagnostics } = entry;
  const [diagnostic = ''] = diagnostics;
  const recipient = entry.recipient ?? (isAlone ? onlyRecipient(textEntries(), parts) : null);
  if (!isRefused(entry)) {
    const noDetails = {
      code: null,
      classification: null,
      diagnostic: toDiagnosticLine(diagnostic),
    };
    const relayed = entry.action === 'relayed' && ({ isRelayed: true } as const);
    return { kind, recipient, original, status, ...noDetails, ...relayed };
  }
  const isDelay = kind === 'delay';
  const byField = classifyEntry({ recipient, original, texts: diagnostics, status, isDelay });
  if (isConclusive(byField, diagnostic)) return byField;
  const diagnosticInText = textEntries().find(
    (inText) => recipient !== null && addressKey(inText.recipient) === addressKey(recipient),
  )?.diagnostic;
  const texts = [...diagnostics, diagnosticInText ?? '', isOnly ? parts.text : ''];
  return classifyEntry({ recipient, original, texts, status, isDelay });
}

/** Returns the recipient of a block whose recipient is not an address (`@mx.acme.test`, `IMCEAEX-...`). */
function onlyRecipient(textEntries: readonly TextEntry[], parts: ReportParts): string | null {
  const entries = textEntries.length === 1 ? textEntries : entriesFromOriginal(parts);
  return entries[0]?.recipient ?? null;
}

/** Returns whether the text for people cannot add anything. */
function isConclusive({ classification, status }: ReportedRecipient, diagnostic: string): boolean {
  const isVague = /^[245]\.0\.0$/.test(status ?? '5.0.0');
  return classification?.suppress === true || (diagnostic.length > 20 && !isVague);
}

function classifyEntry(entry: {
  recipient: string | null;
  original: string | null;
  texts: readonly string[];
  status: string | null;
  isDelay: boolean;
}): ReportedRecipient {
  const { classification, status, code } = classifyReported(entry);
  const { recipient, original, isDelay } = entry;
  const diagnostic = toDiagnosticLine(entry.texts.find((text) => text !== '') ?? '');
  const kind = isDelay ? 'delay' : 'bounce';
  return { kind, recipient, original, status, code, classification, diagnostic };
}

function toDiagnosticLine(text: string): string | null {
  const line = text
    .slice(0, 2 * DIAGNOSTIC_CHARS_MAX)
    .replace(/[\s\0-\x1f\x7f-\x9f]+/g, ' ')
    .trim();
  return line === '' ? null : line.slice(0, DIAGNOSTIC_CHARS_MAX).toWellFormed();
}

function returnPathsOf({ originalFields }: ReportParts, feedback: Feedback | null): string[] {
  const values = [
    ...fieldValues(feedback?.fields ?? [], 'original-mail-from'),
    ...['return-path', 'x-original-mail-from', 'x-envelope-from', 'x-original-return-path'].flatMap(
      (name) => fieldValues(originalFields, name),
    ),
    ...fieldValues(originalFields, 'received-spf'),
    ...fieldValues(originalFields, 'authentication-results'),
    ...fieldValues(originalFields, 'received'),
  ];
  const returnPaths = new Set<string>();
  for (const value of values) {
    for (const { address } of addressesIn(value)) returnPaths.add(address);
    if (returnPaths.size >= RETURN_PATHS_MAX) break;
  }
  return [...returnPaths].slice(0, RETURN_PATHS_MAX);
}

function messageIdOf(originalFields: readonly HeaderField[]): string | null {
  return /<([^<>\s]{1,500})>/.exec(fieldValue(originalFields, 'message-id') ?? '')?.[1] ?? null;
}
