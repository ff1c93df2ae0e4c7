/**
 * Reads a received message: a bounce, a delay notice, a complaint, a delivery confirmation, an automatic
 * reply, or another message; and the result for each recipient that it names.
 *
 * Reports are untrusted. The signed return path identifies the email and the recipient (inbound/); only the
 * result is read here. The cost is bounded for any message: the first REPORT_BYTES_MAX are read, each part
 * once, and at most RECIPIENTS_MAX recipients are classified.
 */
import type { HeaderField } from '../header.ts';
import { readHeader, valueOf, valuesOf } from '../mime-reader.ts';
import type { Verdict } from '../replies/meanings.ts';
import { addressesIn, addressIn, readTextClaims, RECIPIENTS_MAX, type TextClaim } from './text.ts';
import {
  type Feedback,
  feedbackOf,
  isAutoReply,
  isBounceInWords,
  isComplaint,
  isDelayInWords,
  partsOfReport,
  type ReportParts,
} from './parts.ts';
import { classifyReported } from './classify-report.ts';

export type ReportKind = 'bounce' | 'delay' | 'complaint' | 'delivered' | 'auto_reply' | 'other';

export type ReportedRecipient = {
  /** As the report names it, which after forwarding differs from our recipient; null: not named. */
  recipient: string | null;
  /** Enhanced code, or null. */
  status: string | null;
  /** The code of the reply that the report quotes, or null. */
  code: number | null;
  /** Null when nothing was refused. */
  verdict: Verdict | null;
  /** At most 2 KB, on one line; null when the report has none. */
  diagnostic: string | null;
};

export type Report = {
  kind: ReportKind;
  recipients: readonly ReportedRecipient[];
  /** The feedback type of RFC 5965, for feedback reports. */
  feedbackType: string | null;
  /** Envelope senders in the header of the original; the first is the most reliable. */
  returnPaths: readonly string[];
  /** Message-ID of the original, without its brackets. */
  originalMessageId: string | null;
};

/** Sufficient, because the report precedes the original that it quotes. */
export const REPORT_BYTES_MAX = 256 * 1024;

export function readReport(bytes: Buffer): Report {
  const parts = partsOfReport(bytes.subarray(0, REPORT_BYTES_MAX));
  const feedback = feedbackOf(parts);
  const found = feedback === null ? readFailures(parts) : readFeedback(parts, feedback);
  return {
    ...found,
    feedbackType: feedback?.type ?? null,
    returnPaths: returnPathsOf(parts, feedback),
    originalMessageId: messageIdOf(parts.originalFields),
  };
}

type Found = Pick<Report, 'kind' | 'recipients'>;

function readFeedback({ fields, originalFields }: ReportParts, feedback: Feedback): Found {
  const named =
    firstAddress(feedback.fields, ['original-rcpt-to', 'original-recipient']) ??
    firstAddress(originalFields, ['x-hmxmroriginalrecipient', 'to', 'x-original-to']) ??
    firstAddress(feedback.fields, ['removal-recipient']) ??
    (feedback.fields.length === 0 ? firstAddress(fields, ['from']) : null);
  const nothing = { status: null, code: null, verdict: null, diagnostic: null };
  return {
    kind: isComplaint(feedback) ? 'complaint' : 'other',
    recipients: [{ recipient: named, ...nothing }],
  };
}

function firstAddress(fields: readonly HeaderField[], names: readonly string[]): string | null {
  for (const name of names) {
    const address = addressIn(valueOf(fields, name) ?? '');
    if (address !== null) return address;
  }
  return null;
}

function readFailures(parts: ReportParts): Found {
  const claims = readStatusClaims(parts.statusText);
  if (claims.length > 0) return readStatus(parts, claims);
  if (!isBounceInWords(parts)) {
    return { kind: isAutoReply(parts.fields) ? 'auto_reply' : 'other', recipients: [] };
  }
  const isDelay = isDelayInWords(parts);
  const textClaims = textClaimsOf(parts);
  const whole = parts.words;
  const recipients = (textClaims.length > 0 ? textClaims : fromOriginal(parts)).map((claim) =>
    reported({
      recipient: claim.recipient,
      // The whole text concerns a recipient only when it is the only one.
      texts: textClaims.length > 1 ? [claim.diagnostic] : [claim.diagnostic, whole],
      status: null,
      isDelay,
    }),
  );
  return { kind: isDelay ? 'delay' : 'bounce', recipients };
}

/** If the report names no recipient: the one in To of the original, if it is the only one. */
function fromOriginal({ originalFields }: ReportParts): TextClaim[] {
  const to = valuesOf(originalFields, 'to').flatMap((value) => addressesIn(value));
  const addresses = new Set(to.map(({ address }) => address));
  return Array.from(addresses.size === 1 ? addresses : [], (recipient) => ({
    recipient,
    diagnostic: '',
  }));
}

function textClaimsOf({ fields, lines, originalFields }: ReportParts): TextClaim[] {
  const known = valuesOf(fields, 'x-failed-recipients').flatMap(addressesIn);
  const senders = [
    ...['to', 'from', 'delivered-to', 'reply-to'].flatMap((name) => valuesOf(fields, name)),
    ...['from', 'sender', 'return-path'].flatMap((name) => valuesOf(originalFields, name)),
  ].flatMap(addressesIn);
  const recipients = valuesOf(originalFields, 'to').flatMap(addressesIn);
  const toThemselves = new Set(recipients.map(({ address }) => address.toLowerCase()));
  return readTextClaims(lines, {
    notRecipients: new Set(
      senders.map(({ address }) => address.toLowerCase()).filter((one) => !toThemselves.has(one)),
    ),
    known: Array.from(new Set(known.map(({ address }) => address))),
  });
}

/** `deliverable`: Postfix's result of an address verification probe. */
const SUCCESSES: ReadonlySet<string> = new Set(['delivered', 'relayed', 'expanded', 'deliverable']);

function readStatus(parts: ReportParts, claims: readonly StatusClaim[]): Found {
  // The human-readable text is read at most once, and only if the fields are incomplete.
  const isDelay = once(() => isDelayInWords(parts));
  const said = once(() => textClaimsOf(parts));
  const all = claims.map((claim) => ({ ...claim, action: actionOf(claim, isDelay) }));
  const failed = all.filter(({ action }) => !SUCCESSES.has(action));
  const named = (failed.length > 0 ? failed : all).slice(0, RECIPIENTS_MAX);
  const actions = new Set(named.map(({ action }) => action));
  const kind = ACTIONS.find((action) => actions.has(action));
  const recipients = named.map((claim) =>
    recipientOf(claim, { parts, isOnly: named.length === 1, said }),
  );
  return { kind: kind === undefined ? 'other' : KIND_OF_ACTION[kind], recipients };
}

function once<Value>(work: () => Value): () => Value {
  let done: { value: Value } | null = null;
  return () => (done ??= { value: work() }).value;
}

const ACTIONS = ['failed', 'delayed', 'delivered', 'deliverable'] as const;
const KIND_OF_ACTION = {
  failed: 'bounce',
  delayed: 'delay',
  delivered: 'delivered',
  deliverable: 'delivered',
} as const;

/** The action by the fields; the text decides only if Action and Status are missing. */
function actionOf({ action, status }: StatusClaim, isDelayInTheWords: () => boolean): string {
  if (action === 'delayed' || SUCCESSES.has(action)) return action;
  if (status?.startsWith('2') === true) return 'delivered';
  // An action outside of RFC 3464: `failure`, `undeliverable`.
  if (action !== '') return 'failed';
  return status?.startsWith('4') === true || isDelayInTheWords() ? 'delayed' : 'failed';
}

function recipientOf(
  claim: StatusClaim,
  { parts, isOnly, said }: { parts: ReportParts; isOnly: boolean; said: () => TextClaim[] },
): ReportedRecipient {
  const { status, diagnostic, action } = claim;
  const recipient = claim.recipient ?? (isOnly ? onlyRecipient(said(), parts) : null);
  if (SUCCESSES.has(action)) {
    return { recipient, status, code: null, verdict: null, diagnostic: shown(diagnostic) };
  }
  const isDelay = action === 'delayed';
  const byField = reported({ recipient, texts: [diagnostic], status, isDelay });
  if (isKnown(byField, diagnostic)) return byField;
  const inText = said().find(
    (one) => one.recipient.toLowerCase() === recipient?.toLowerCase(),
  )?.diagnostic;
  const texts = [diagnostic, inText ?? '', isOnly ? parts.words : ''];
  return reported({ recipient, texts, status, isDelay });
}

/** For a block whose recipient is not an address (`@mx.acme.test`, `IMCEAEX-...`). */
function onlyRecipient(said: readonly TextClaim[], parts: ReportParts): string | null {
  const claims = said.length === 1 ? said : fromOriginal(parts);
  return claims[0]?.recipient ?? null;
}

/** Whether the human-readable text cannot add anything. */
function isKnown({ verdict, status }: ReportedRecipient, diagnostic: string): boolean {
  const isVague = /^[245]\.0\.0$/.test(status ?? '5.0.0');
  return verdict?.suppress === true || (diagnostic.length > 20 && !isVague);
}

const DIAGNOSTIC_CHARS_MAX = 2_000;

function reported(claim: {
  recipient: string | null;
  texts: readonly string[];
  status: string | null;
  isDelay: boolean;
}): ReportedRecipient {
  const { verdict, status, code } = classifyReported(claim);
  const first = claim.texts.find((text) => text !== '') ?? '';
  return { recipient: claim.recipient, status, code, verdict, diagnostic: shown(first) };
}

function shown(text: string): string | null {
  const line = text
    .slice(0, 2 * DIAGNOSTIC_CHARS_MAX)
    .replace(/[\s\0-\x1f\x7f-\x9f]+/g, ' ')
    .trim();
  return line === '' ? null : line.slice(0, DIAGNOSTIC_CHARS_MAX).toWellFormed();
}

const RETURN_PATHS_MAX = 20;

function returnPathsOf({ originalFields }: ReportParts, feedback: Feedback | null): string[] {
  const values = [
    ...valuesOf(feedback?.fields ?? [], 'original-mail-from'),
    ...['return-path', 'x-original-mail-from', 'x-envelope-from', 'x-original-return-path'].flatMap(
      (name) => valuesOf(originalFields, name),
    ),
    ...valuesOf(originalFields, 'received-spf'),
    ...valuesOf(originalFields, 'authentication-results'),
    ...valuesOf(originalFields, 'received'),
  ];
  const found = new Set<string>();
  for (const value of values) {
    for (const { address } of addressesIn(value)) found.add(address);
    if (found.size >= RETURN_PATHS_MAX) break;
  }
  return [...found].slice(0, RETURN_PATHS_MAX);
}

function messageIdOf(originalFields: readonly HeaderField[]): string | null {
  return /<([^<>\s]{1,500})>/.exec(valueOf(originalFields, 'message-id') ?? '')?.[1] ?? null;
}

export type StatusClaim = {
  recipient: string | null;
  /** `failed`, `delayed`, `delivered`, `relayed`, `expanded`; '' when it is missing. */
  action: string;
  /** `5.1.1`, or null. */
  status: string | null;
  /** `smtp`, `x-postfix`, ...; '' when there is no diagnostic. */
  diagnosticType: string;
  diagnostic: string;
};

const BLOCKS_MAX = 500;

export function readStatusClaims(text: string): StatusClaim[] {
  return blocksOf(text)
    .map(claimOf)
    .filter((claim): claim is StatusClaim => claim !== null);
}

type Block = Map<string, string>;

const RECIPIENT_FIELDS = ['final-recipient', 'original-recipient', 'x-actual-recipient'] as const;
/**
 * The fields of a recipient's block (RFC 3464, RFC 6533), some of which may precede its recipient. Lenient: a
 * block begins with its first recipient even if the empty line before or after it is missing or doubled.
 */
const OF_RECIPIENT: ReadonlySet<string> = new Set([
  ...RECIPIENT_FIELDS,
  'action',
  'status',
  'diagnostic-code',
  'remote-mta',
  'will-retry-until',
  'last-attempt-date',
]);

function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let block: Block | null = null;
  for (const group of text.split(/\r?\n[ \t]*\r?\n/, BLOCKS_MAX)) {
    let isNewGroup = true;
    for (const field of fieldsIn(group)) {
      const name = field.name.toLowerCase();
      if (!OF_RECIPIENT.has(name)) continue;
      if (block === null || beginsAnother(block, name, isNewGroup)) {
        block = new Map();
        blocks.push(block);
      }
      isNewGroup = false;
      if (!block.has(name)) block.set(name, field.value);
    }
  }
  return blocks;
}

function fieldsIn(group: string): readonly HeaderField[] {
  return readHeader(Buffer.from(group.replace(/^[\r\n]+/, ''))).fields;
}

/** A second field of one kind, or a recipient after an empty line. */
function beginsAnother(block: Block, name: string, isNewGroup: boolean): boolean {
  if (name === 'final-recipient') return block.has(name);
  return isNewGroup && block.has('final-recipient') && block.has(name);
}

function claimOf(block: Block): StatusClaim | null {
  if (!RECIPIENT_FIELDS.some((name) => block.has(name))) return null;
  const [, diagnosticType = '', diagnostic = ''] =
    /^(?:([\w-]{1,30}) *; *)?([^]*)$/.exec(block.get('diagnostic-code') ?? '') ?? [];
  const recipients = RECIPIENT_FIELDS.map((name) => addressIn(block.get(name) ?? ''));
  return {
    recipient: recipients.find((address) => address !== null) ?? null,
    action: /^[a-z]+/.exec((block.get('action') ?? '').toLowerCase())?.[0] ?? '',
    status: /\b[245]\.\d{1,3}\.\d{1,3}\b/.exec(block.get('status') ?? '')?.[0] ?? null,
    diagnosticType: diagnosticType.toLowerCase(),
    diagnostic: diagnostic.replace(/\s+/g, ' ').trim(),
  };
}
