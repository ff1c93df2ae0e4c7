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
import { valueOf, valuesOf } from '../mime/reader.ts';
import type { Classification } from '../replies/meanings.ts';
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
import { readStatusClaims, type StatusClaim } from './status-fields.ts';

export type ReportKind = 'bounce' | 'delay' | 'complaint' | 'delivered' | 'auto_reply' | 'other';

export type ReportedRecipient = {
  /** The result for this recipient; `other`: forwarded to others, without a result yet. */
  kind: ReportKind;
  /** The recipient in the report, which is another address after forwarding; null: not named. */
  recipient: string | null;
  /** Original-Recipient: the address that the sender used; null: not named. */
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
  /** Whether the report has fields for each recipient (RFC 3464); else its text names them. */
  hasFields: boolean;
  feedbackType: string | null;
  /** Envelope senders in the header of the original, the most reliable first. */
  returnPaths: readonly string[];
  /** Message-ID of the original, without brackets. */
  originalMessageId: string | null;
};

/** Limit on the octets that are read. They suffice, because the report precedes the original. */
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

type Found = Pick<Report, 'kind' | 'recipients' | 'hasFields'>;

function readFeedback({ fields, originalFields }: ReportParts, feedback: Feedback): Found {
  const named =
    firstAddress(feedback.fields, ['original-rcpt-to', 'original-recipient']) ??
    firstAddress(originalFields, ['x-hmxmroriginalrecipient', 'to', 'x-original-to']) ??
    firstAddress(feedback.fields, ['removal-recipient']) ??
    (feedback.fields.length === 0 ? firstAddress(fields, ['from']) : null);
  const nothing = {
    original: null,
    status: null,
    code: null,
    classification: null,
    diagnostic: null,
  };
  const kind = isComplaint(feedback) ? 'complaint' : 'other';
  return { kind, recipients: [{ kind, recipient: named, ...nothing }], hasFields: false };
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
    const kind = isAutoReply(parts.fields) ? 'auto_reply' : 'other';
    return { kind, recipients: [], hasFields: false };
  }
  const isDelay = isDelayInWords(parts);
  const textClaims = textClaimsOf(parts);
  const whole = parts.words;
  const recipients = (textClaims.length > 0 ? textClaims : fromOriginal(parts)).map((claim) =>
    reported({
      recipient: claim.recipient,
      original: null,
      // The whole text concerns a recipient only if it is the only one.
      texts: textClaims.length > 1 ? [claim.diagnostic] : [claim.diagnostic, whole],
      status: null,
      isDelay,
    }),
  );
  return { kind: isDelay ? 'delay' : 'bounce', recipients, hasFields: false };
}

/** Returns the only recipient in To of the original, for a report that names none. */
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
  const toThemselves = new Set(recipients.map(({ address }) => addressKey(address)));
  return readTextClaims(lines, {
    notRecipients: new Set(
      senders.map(({ address }) => addressKey(address)).filter((one) => !toThemselves.has(one)),
    ),
    known: Array.from(new Set(known.map(({ address }) => address))),
  });
}

type Claim = StatusClaim & { kind: ReportKind };

function readStatus(parts: ReportParts, claims: readonly StatusClaim[]): Found {
  // The text is parsed at most once, and only if the fields are incomplete.
  const isDelay = once(() => isDelayInWords(parts));
  const said = once(() => textClaimsOf(parts));
  const all = claims.map((claim) => ({ ...claim, kind: kindOf(claim, isDelay) }));
  const refused = all.filter(isRefused);
  const named = atMost(RECIPIENTS_MAX, refused, all);
  const isOnly = (refused.length > 0 ? refused : all).length === 1;
  const isAlone = all.length === 1;
  return {
    kind: KINDS.find((kind) => all.some((claim) => claim.kind === kind)) ?? 'other',
    recipients: named.map((claim) => recipientOf(claim, { parts, isOnly, isAlone, said })),
    hasFields: true,
  };
}

function once<Value>(work: () => Value): () => Value {
  let done: { value: Value } | null = null;
  return () => (done ??= { value: work() }).value;
}

/** Returns all claims in order; if there are too many, the refused ones first. */
function atMost(max: number, refused: readonly Claim[], all: readonly Claim[]): readonly Claim[] {
  if (all.length <= max) return all;
  return [...refused, ...all.filter((claim) => !isRefused(claim))].slice(0, max);
}

function isRefused({ kind }: Claim): boolean {
  return kind === 'bounce' || kind === 'delay';
}

/** The most important kind first. */
const KINDS = ['bounce', 'delay', 'delivered'] as const;

const DELAYS = /^(?:delay|defer|warn|retr|transient|temporar)/;
/** `deliverable`: Postfix's result of an address probe. */
const DELIVERIES = /^(?:delivered|deliverable|success)/;
/** Actions of a server that forwarded the message, so the result is not known yet (RFC 3464 §2.3.3). */
const PASSED_ON: ReadonlySet<string> = new Set(['relayed', 'expanded']);

/** Returns the kind by the action, then by the status; the text decides only if both are missing. */
function kindOf(
  { action, status, isRetried }: StatusClaim,
  isDelayInTheWords: () => boolean,
): ReportKind {
  if (DELAYS.test(action)) return 'delay';
  if (DELIVERIES.test(action)) return 'delivered';
  if (PASSED_ON.has(action)) return 'other';
  if (status?.startsWith('2') === true) return 'delivered';
  if (action.startsWith('fail')) return 'bounce';
  if (isRetried) return 'delay';
  // Actions outside of RFC 3464, such as `undeliverable`.
  if (action !== '') return 'bounce';
  return status?.startsWith('4') === true || isDelayInTheWords() ? 'delay' : 'bounce';
}

type ClaimContext = {
  parts: ReportParts;
  /** No other claim is refused, so the text of the report concerns this one. */
  isOnly: boolean;
  /** There is no other claim, so it concerns the recipient of the original. */
  isAlone: boolean;
  said: () => TextClaim[];
};

function recipientOf(
  claim: Claim,
  { parts, isOnly, isAlone, said }: ClaimContext,
): ReportedRecipient {
  const { kind, status, original, diagnostics } = claim;
  const [diagnostic = ''] = diagnostics;
  const recipient = claim.recipient ?? (isAlone ? onlyRecipient(said(), parts) : null);
  if (!isRefused(claim)) {
    const nothing = { code: null, classification: null, diagnostic: shown(diagnostic) };
    const relayed = claim.action === 'relayed' && ({ isRelayed: true } as const);
    return { kind, recipient, original, status, ...nothing, ...relayed };
  }
  const isDelay = kind === 'delay';
  const byField = reported({ recipient, original, texts: diagnostics, status, isDelay });
  if (isKnown(byField, diagnostic)) return byField;
  const inText = said().find(
    (one) => recipient !== null && addressKey(one.recipient) === addressKey(recipient),
  )?.diagnostic;
  const texts = [...diagnostics, inText ?? '', isOnly ? parts.words : ''];
  return reported({ recipient, original, texts, status, isDelay });
}

/** Returns the recipient of a block whose recipient is not an address (`@mx.acme.test`, `IMCEAEX-...`). */
function onlyRecipient(said: readonly TextClaim[], parts: ReportParts): string | null {
  const claims = said.length === 1 ? said : fromOriginal(parts);
  return claims[0]?.recipient ?? null;
}

/** Returns whether the text for people cannot add anything. */
function isKnown({ classification, status }: ReportedRecipient, diagnostic: string): boolean {
  const isVague = /^[245]\.0\.0$/.test(status ?? '5.0.0');
  return classification?.suppress === true || (diagnostic.length > 20 && !isVague);
}

const DIAGNOSTIC_CHARS_MAX = 2_000;

function reported(claim: {
  recipient: string | null;
  original: string | null;
  texts: readonly string[];
  status: string | null;
  isDelay: boolean;
}): ReportedRecipient {
  const { classification, status, code } = classifyReported(claim);
  const { recipient, original, isDelay } = claim;
  const diagnostic = shown(claim.texts.find((text) => text !== '') ?? '');
  const kind = isDelay ? 'delay' : 'bounce';
  return { kind, recipient, original, status, code, classification, diagnostic };
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
