/**
 * Receives mail: parses, applies and stores a message before the sending server gets its reply.
 *
 * Guarantee: `stored` means that the message and all its effects are on disk. A report changes only the recipient of
 * the return path that received it. At `abuse@` and `fbl@`, a complaint changes the recipient whose signed return
 * path is in the quoted original. Mail to an unsubscribe address suppresses the recipient that the address names.
 * Reports about DMARC at `dmarc@` are stored for domains/dmarc/.
 * Received mail is never answered. Reports are passed on only to a sender who asked for them
 * (notices/notice-store.ts).
 *
 * Unmatched mail (to postmaster@, automatic replies, reports without effect) can come from any sender and uses the
 * disk. Its rate is therefore limited, per client and in total; above the limit the reply is temporary.
 * inbound-message-store.ts limits its total size.
 */
import { createHash } from 'node:crypto';
import { Overloaded } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { isFinal, type StoredStatus, TRANSITIONS } from '../core/statuses.ts';
import type { World } from '../lib/world.ts';
import type { Database } from '../database/database.ts';
import { addressKey } from '../mail/address.ts';
import { readReport, type Report, REPORT_BYTES_MAX } from '../mail/reports/read-report.ts';
import { UNSUBSCRIBE_SUBJECT } from '../mail/compose.ts';
import { storeDmarcReport } from '../domains/dmarc/dmarc-store.ts';
import { addUnsubscribed } from '../suppressions/suppression-store.ts';
import { HOPS_MAX } from '../mail/mime/raw-message.ts';
import { decodedFieldValue, readHeader } from '../mail/mime/reader.ts';
import type {
  InboundResult,
  ReportStore,
  NewInboundMessage,
  SentRecipient,
} from './report-store.ts';
import type { InboundMessageStore } from './inbound-message-store.ts';
import { type Addressee, type AddressBook, addresseeOf } from './addressees.ts';
import { consequenceOf, interimResultOf } from './consequence.ts';
import type { UnmatchedRate } from './unmatched-rate.ts';

/** Bytes of a message that are read, parsed and stored. The rest is discarded. */
export const STORED_BYTES_MAX = REPORT_BYTES_MAX;
/** Bytes of unmatched mail that are stored. Its senders are unknown. */
const UNMATCHED_BYTES_MAX = 64 * 1024;
/** Limit on the return paths of a complaint that are looked up. */
const QUOTED_MAX = 3;

type Arrival = {
  /** The first STORED_BYTES_MAX, or more. */
  content: Buffer;
  sizeBytes: number;
  remoteAddress: string;
  /** Key of rate limits: the address or its network. */
  client: string;
  /** Reverse-path of the envelope; '' is the null reverse-path. */
  sender: string;
  /** Raw recipients of the envelope, each with its addressee. */
  recipients: readonly { address: string; addressee: Addressee }[];
};

export type Received =
  | 'stored'
  | 'looping'
  /** A recipient of the report is still being delivered. The sending server must retry. */
  | 'too_early'
  /** The oldest unmatched mail cannot be removed now, so there is no space. The sending server must retry. */
  | 'no_space'
  /** Unmatched mail above its rate limit. The sending server must retry. */
  | 'too_many';

/** The result of the message for one of its recipients. */
type Result = InboundResult['kind'] | 'no_space' | 'too_many';

export type Receive = (arrival: Arrival) => Promise<Received>;

type ReceiveOptions = {
  book: AddressBook;
  store: ReportStore;
  unmatched: InboundMessageStore;
  rate: Pick<UnmatchedRate, 'tryCount'>;
  /** Returns why nothing can be stored now (the disk is nearly full), or null. */
  refusal: () => string | null;
  world: Pick<World, 'newId' | 'now'>;
  db: Pick<Database, 'query' | 'transaction'>;
  /** Called after the commit when an unsubscribe request queued webhook deliveries. */
  onWebhooksQueued: () => void;
  /** Called after the commit. The reply to the report does not wait for it. */
  onMailboxFull: (failure: Scope & { emailId: string; address: string }) => void;
};

/** Returns a function that may throw DatabaseUnavailable and Overloaded. */
export function createReceive(options: ReceiveOptions): Receive {
  return async (arrival) => {
    const refusal = options.refusal();
    if (refusal !== null) throw new Overloaded(refusal);
    if (countHops(arrival.content) > HOPS_MAX) return 'looping';
    const report = readReport(arrival.content);
    const results = await Promise.all(
      arrival.recipients.map(({ address, addressee }) =>
        addressee.kind === 'unsubscribe'
          ? unsubscribe(arrival, { address, report, recipient: addressee.recipient }, options)
          : storeReport(arrival, { address, addressee, report }, options),
      ),
    );
    return worst(results);
  };
}

/** A message to several recipients has one reply. A temporary one makes the sending server retry all of them. */
function worst(results: readonly Result[]): Received {
  if (results.includes('too_many')) return 'too_many';
  if (results.includes('no_space')) return 'no_space';
  return results.includes('open') ? 'too_early' : 'stored';
}

function countHops(content: Buffer): number {
  return readHeader(content).fields.filter(({ name }) => name.toLowerCase() === 'received').length;
}

async function storeReport(
  arrival: Arrival,
  { address, addressee, report }: { address: string; addressee: Addressee; report: Report },
  options: ReceiveOptions,
): Promise<Result> {
  const { book, store, world, onMailboxFull } = options;
  const recipient =
    addressee.kind === 'recipient' ? addressee.recipient : await findComplainant(report, book);
  const consequence = recipient && consequenceOf(report, recipient, world);
  const message = newMessage(arrival, { address, recipient, kind: report.kind, id: world.newId() });
  if (consequence === null || isTooLate(recipient!, consequence.settlement.status)) {
    const reported =
      consequence?.settlement ?? (recipient && interimResultOf(report, recipient, world));
    if (reported?.notice === undefined || !mayBeReported(recipient!)) {
      const result = await storeUnmatched(arrival.client, message, options);
      if (result === 'stored' && addressee.kind === 'role' && addressee.dmarcOf !== null)
        await storeIfDmarc(arrival.content, addressee.dmarcOf, options);
      return result;
    }
    return (await store.add({ message, settlement: null, reported })).kind;
  }
  const result = await store.add({ message, settlement: consequence.settlement });
  if (consequence.mailboxFull && result.kind === 'stored' && result.change !== null) {
    onMailboxFull({ ...consequence.settlement, address: recipient!.address });
  }
  return result.kind;
}

async function storeUnmatched(
  client: string,
  message: NewInboundMessage,
  { unmatched, rate }: ReceiveOptions,
): Promise<Result> {
  const content = message.content.subarray(0, UNMATCHED_BYTES_MAX);
  if (!rate.tryCount(client, content.length)) return 'too_many';
  return await unmatched.add({ ...message, content });
}

/** Stores a report about DMARC of the domain, or of the domain above it that publishes the policy. */
async function storeIfDmarc(
  content: Buffer,
  domain: string,
  { db, world }: Pick<ReceiveOptions, 'db' | 'world'>,
): Promise<void> {
  const { readDmarcReport } = await import('../mail/reports/dmarc-report.ts');
  const report = readDmarcReport(content, world.now());
  if (report === null || !`.${domain}`.endsWith(`.${report.domain}`)) return;
  await storeDmarcReport(db, report);
}

function newMessage(
  { content, sizeBytes, remoteAddress, sender }: Arrival,
  read: { address: string; recipient: SentRecipient | null; kind: string; id: string },
): NewInboundMessage {
  const { address, recipient, kind, id } = read;
  return {
    id,
    reportHash: createHash('sha256').update(addressKey(address)).update(content).digest(),
    remoteAddress,
    sender,
    recipient: address,
    kind,
    about: recipient && {
      projectId: recipient.projectId,
      environment: recipient.environment,
      emailId: recipient.email.id,
      position: recipient.position,
    },
    sizeBytes,
    content: content.subarray(0, STORED_BYTES_MAX),
  };
}

/** Suppresses before storing: if storing fails, the sender retries, and suppressing is idempotent. */
async function unsubscribe(
  arrival: Arrival,
  { address, report, recipient }: { address: string; report: Report; recipient: SentRecipient },
  options: ReceiveOptions,
): Promise<Result> {
  const { store, world } = options;
  const isWanted = wantsToUnsubscribe(arrival.content, report);
  const kind = isWanted ? 'unsubscribe' : report.kind;
  const message = newMessage(arrival, { address, recipient, kind, id: world.newId() });
  const isChange = isWanted && (await suppress(recipient, options));
  if (!isChange) return storeUnmatched(arrival.client, message, options);
  return (await store.add({ message, settlement: null })).kind;
}

/** Resolves when the suppression is on disk, with false when the recipient was already suppressed. */
async function suppress(
  { projectId, environment, address, email }: SentRecipient,
  { db, onWebhooksQueued }: Pick<ReceiveOptions, 'db' | 'onWebhooksQueued'>,
): Promise<boolean> {
  const unsubscriber = { address, emailId: email.id };
  const { isNew } = await addUnsubscribed(db, { projectId, environment }, unsubscriber);
  if (isNew) onWebhooksQueued();
  return isNew;
}

/**
 * Accepts any mail from any sender, except mail that programs generate: reports, and automatic replies without the
 * subject that the link sets.
 */
function wantsToUnsubscribe(content: Buffer, { kind }: Report): boolean {
  if (kind === 'other' || kind === 'complaint') return true;
  const subject = decodedFieldValue(readHeader(content).fields, 'subject') ?? '';
  return kind === 'auto_reply' && subject.trim().toLowerCase() === UNSUBSCRIBE_SUBJECT;
}

/** Returns whether a server has the message and may send reports that the sender requested (RFC 3461). */
function mayBeReported({ status }: SentRecipient): boolean {
  return status === 'delivered' || status === 'sent';
}

/** Returns whether the report is late or repeated, so that it has no effect. */
function isTooLate({ status }: SentRecipient, next: StoredStatus): boolean {
  return isFinal(status) && !TRANSITIONS.some(([from, to]) => from === status && to === next);
}

/** Finds the recipient of a complaint at a role address, by the signed return path in its original. */
async function findComplainant(report: Report, book: AddressBook): Promise<SentRecipient | null> {
  if (report.kind !== 'complaint') return null;
  const signed = report.returnPaths.filter((address) => /^b-/i.test(address));
  for (const address of signed.slice(0, QUOTED_MAX)) {
    const addressee = await addresseeOf(address, book);
    if (addressee.kind === 'recipient') return addressee.recipient;
  }
  return null;
}
