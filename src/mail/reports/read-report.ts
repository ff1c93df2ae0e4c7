/**
 * What came back, read: a bounce, a notice of delay, a complaint, a confirmation, an automatic
 * reply, or something else; for every recipient that it names what is said and what it means.
 *
 * A message of a stranger: nothing here is believed about whom it concerns. Who settles takes the
 * recipient from a signed return path (inbound/), and from here only what happened to it. Whatever it
 * contains, reading it takes milliseconds: its beginning is read, each part of that once, and at most
 * RECIPIENTS_MAX recipients are judged.
 */
import { addressesIn, addressIn } from './address.ts';
import {
  type Feedback,
  feedbackOf,
  isAutoReply,
  isBounceInWords,
  isComplaint,
  isDelayInWords,
} from './kind.ts';
import { partsOfReport, type ReportParts } from './parts.ts';
import { readStatusClaims, type StatusClaim } from './status.ts';
import { readTextClaims, RECIPIENTS_MAX, type TextClaim } from './text.ts';
import { judge } from './verdict.ts';
import type { Verdict } from '../replies/classify.ts';
import { type HeaderField, valueOf, valuesOf } from '../mime-reader.ts';

export type ReportKind = 'bounce' | 'delay' | 'complaint' | 'delivered' | 'auto_reply' | 'other';

export type ReportedRecipient = {
  /** As the report names it, which after forwarding is not whom we sent to; null: it does not. */
  recipient: string | null;
  /** Enhanced code, or null. */
  status: string | null;
  /** Of the reply that is told, or null. */
  code: number | null;
  /** Null where nothing was refused. */
  verdict: Verdict | null;
  /** At most 2 KB, in one line; null when nothing is said. */
  diagnostic: string | null;
};

export type Report = {
  kind: ReportKind;
  recipients: readonly ReportedRecipient[];
  /** RFC 5965's, for feedback reports. */
  feedbackType: string | null;
  /** Envelope senders of the original, as far as it still tells them; the first is the best. */
  returnPaths: readonly string[];
  /** Message-ID of the original, without its brackets. */
  originalMessageId: string | null;
};

/** Of a message so much is read: what a report says stands before the original that it quotes. */
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
      // What is said of one of several need not be true of the others.
      texts: textClaims.length > 1 ? [claim.diagnostic] : [claim.diagnostic, whole],
      status: null,
      isDelay,
    }),
  );
  return { kind: isDelay ? 'delay' : 'bounce', recipients };
}

/** When nobody is named, whom the original was addressed to. */
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

/** The last is what Postfix says when it was only asked whether it could deliver. */
const SUCCESSES: ReadonlySet<string> = new Set(['delivered', 'relayed', 'expanded', 'deliverable']);

function readStatus(parts: ReportParts, claims: readonly StatusClaim[]): Found {
  // The words for people are read only where those for machines leave something open, and once.
  const isDelay = once(() => isDelayInWords(parts));
  const said = once(() => textClaimsOf(parts));
  const all = claims.map((claim) => ({ ...claim, action: actionOf(claim, isDelay) }));
  const failed = all.filter(({ action }) => !SUCCESSES.has(action));
  const told = (failed.length > 0 ? failed : all).slice(0, RECIPIENTS_MAX);
  const actions = new Set(told.map(({ action }) => action));
  const kind = ACTIONS.find((action) => actions.has(action));
  const recipients = told.map((claim) =>
    recipientOf(claim, { parts, isOnly: told.length === 1, said }),
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

function actionOf({ action, status }: StatusClaim, isDelayInTheWords: () => boolean): string {
  if (action === 'delayed' || SUCCESSES.has(action)) return action;
  if (status?.startsWith('2') === true) return 'delivered';
  // What is no action of RFC 3464's: `failure`, `undeliverable`.
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

/** For a block that names nobody by an address (`@mx.acme.test`, `IMCEAEX-...`). */
function onlyRecipient(said: readonly TextClaim[], parts: ReportParts): string | null {
  const claims = said.length === 1 ? said : fromOriginal(parts);
  return claims[0]?.recipient ?? null;
}

/** Whether a look at the words for people could not add anything. */
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
  const { verdict, status, code } = judge(claim);
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
