/**
 * The content of a case file: everything that this installation knows about the delivery of one email, for the support
 * of a provider or a dispute. signed-file.ts signs it.
 *
 * The events have the facts of each attempt: server, address, TLS, dialogue, and the SHA-256 of the message. The
 * history of the sending domain has its records in DNS at that time (domains/dns/check-history-store.ts). The diagnosis
 * has DNS and authentication at the time of the file. The file has the content of the email only as hashes, except for
 * the header that the recipient's server got.
 */
import { createHash } from 'node:crypto';
import { addressKey, parseAddress } from '../../mail/address.ts';
import type { Queryable } from '../../database/database.ts';
import { listCheckResults, type PastCheck } from '../../domains/dns/check-history-store.ts';
import {
  CONTENT_BYTES_UNLIMITED,
  type EmailDetail,
  type EmailRef,
  findEmail,
  listTimeline,
} from '../email-store.ts';
import { emailToWire, eventToWire } from '../wire.ts';

/** An email with many recipients may have more events; a case file of one recipient is complete. */
const EVENTS_MAX = 1_000;
const END_OF_HEADER = Buffer.from('\r\n\r\n');
/** Members of an event's data that list recipients. */
const LISTS = ['to', 'cc', 'bcc'] as const;

export type CaseFileFacts = Awaited<ReturnType<typeof readCase>> & object;

/** Reads the email and its events as one snapshot; null when the email does not exist for the caller. */
export async function readCase(tx: Queryable, ref: EmailRef) {
  await tx.query('set transaction isolation level repeatable read, read only');
  const email = await findEmail(tx, ref, CONTENT_BYTES_UNLIMITED);
  if (email === null) return null;
  const events = await listTimeline(tx, ref, { after: 0, limit: EVENTS_MAX + 1 });
  const domainChecks = await listCheckResults(tx, ref, {
    from: email.createdAt,
    until: events.at(-1)?.createdAt ?? email.createdAt,
  });
  const isComplete = events.length <= EVENTS_MAX;
  return { email, events: events.slice(0, EVENTS_MAX), isComplete, domainChecks };
}

/**
 * Returns the email and its events in the API's format.
 * @param only the only recipient that the file names; null for all recipients
 */
export function caseContent(
  { email, events, isComplete, domainChecks }: CaseFileFacts,
  only: string | null,
) {
  const isIn = isAbout(only);
  return {
    recipient: only,
    email: emailContent(email, isIn),
    events: events
      .filter(({ recipient }) => recipient === null || isIn(recipient))
      .map((event) => ({ ...eventToWire(event), data: withoutOthers(event.data, isIn) })),
    events_complete: isComplete,
    domain_checks: domainChecks.map(domainCheckContent),
  };
}

function domainCheckContent({ firstCheckedAt, lastCheckedAt, result }: PastCheck) {
  const { records, dmarc } = result;
  return {
    first_checked_at: firstCheckedAt.toISOString(),
    last_checked_at: lastCheckedAt.toISOString(),
    records,
    dmarc: {
      status: dmarc === null ? 'missing' : dmarc.kind === 'error' ? 'dns_error' : 'found',
      domain: dmarc?.kind === 'records' ? dmarc.at : null,
      found: dmarc?.kind === 'records' ? dmarc.texts : [],
    } as const,
  };
}

function emailContent(email: EmailDetail, isIn: (address: string) => boolean) {
  const { html, text, recipients, to, cc, bcc, ...fields } = emailToWire(email);
  return {
    ...fields,
    to: to.filter(isIn),
    cc: cc.filter(isIn),
    bcc: bcc.filter(isIn),
    recipients: recipients.filter(({ address }) => isIn(address)),
    html_sha256: html === null ? null : sha256Of(html),
    text_sha256: text === null ? null : sha256Of(text),
  };
}

function withoutOthers(data: Record<string, unknown>, isIn: (address: string) => boolean) {
  const lists = LISTS.flatMap((name) => {
    const list = data[name];
    return Array.isArray(list) ? [[name, list.filter((one) => isIn(String(one)))] as const] : [];
  });
  return { ...data, ...Object.fromEntries(lists) };
}

/** Describes the bytes that the recipient's server gets. The attempts in the events have the same hash. */
export function messageContent(address: string, bytes: Buffer) {
  const end = bytes.indexOf(END_OF_HEADER);
  return {
    recipient: address,
    size: bytes.length,
    sha256: sha256Of(bytes),
    header: bytes.toString('utf8', 0, end < 0 ? bytes.length : end + 2),
  };
}

/** Keeps only the recipient of the file in a diagnosis, if the file has a single one. */
export function diagnosisOf<Diagnosis extends { recipients: { address: string }[] }>(
  diagnosis: Diagnosis,
  only: string | null,
): Diagnosis {
  const isIn = isAbout(only);
  return { ...diagnosis, recipients: diagnosis.recipients.filter(({ address }) => isIn(address)) };
}

function isAbout(only: string | null): (address: string) => boolean {
  if (only === null) return () => true;
  const key = keyOf(only);
  return (address) => keyOf(address) === key;
}

/** Lists of recipients have display names. */
function keyOf(mailbox: string): string {
  const address = parseAddress(/<([^<>]*)>\s*$/.exec(mailbox)?.[1] ?? mailbox);
  return address === null ? mailbox : addressKey(address);
}

function sha256Of(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Returns the value as a reader of its JSON gets it, with a replacement for half a character that a limit cut. */
export function asPlainJson<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value), (_, part: unknown) =>
    typeof part === 'string' ? part.toWellFormed() : part,
  ) as Value;
}
