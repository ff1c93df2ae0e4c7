/**
 * Mail that comes in: read, settled and stored before the sending server gets its reply.
 *
 * Guarantee: `kept` means on disk, with everything that follows from it. A report changes the
 * recipient of the return path it came to and no other; at `abuse@` and `fbl@` a complaint changes
 * the recipient whose signed return path stands in the original that it quotes; mail to an unsubscribe
 * address suppresses the recipient that it names. Nothing is ever sent because of it.
 *
 * Unmatched mail (to postmaster@, automatic replies, reports that change nothing) may be sent by anybody
 * and is written to disk, so it is limited by rate per client and in all; above it the reply is
 * temporary. How much is kept in all: store/inbound-messages.ts.
 */
import { createHash } from 'node:crypto';
import { Overloaded } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { isFinal, type StoredStatus, TRANSITIONS } from '../core/statuses.ts';
import type { World } from '../core/world.ts';
import { readReport, type Report, REPORT_BYTES_MAX } from '../mail/reports/read-report.ts';
import { UNSUBSCRIBE_SUBJECT } from '../mail/compose.ts';
import { HOPS_MAX } from '../mail/as-written.ts';
import { decodedValue, readHeader } from '../mail/mime-reader.ts';
import type {
  InboundResult,
  InboundStore,
  NewInboundMessage,
  SentRecipient,
} from '../store/inbound.ts';
import type { UnmatchedStore } from '../store/inbound-messages.ts';
import { type Addressee, type AddressBook, addresseeOf } from './addresses.ts';
import { consequenceOf } from './consequence.ts';

/** Of a message so much is taken in, read and kept for people; the rest is let by. */
export const KEPT_BYTES_MAX = REPORT_BYTES_MAX;
/** Of one that changes nothing: anybody can send those. */
const UNMATCHED_BYTES_MAX = 64 * 1024;
/** Return paths in a complaint that are looked up. */
const QUOTED_MAX = 3;

type Arrival = {
  /** At least its first KEPT_BYTES_MAX. */
  content: Buffer;
  /** Of all that came. */
  sizeBytes: number;
  remoteAddress: string;
  /** For limits: the address, or its network. */
  client: string;
  /** The envelope's; '' is the null one. */
  sender: string;
  /** Of the envelope, as written, with whom each is. */
  recipients: readonly { address: string; addressee: Addressee }[];
};

export type Received =
  | 'kept'
  /** It goes in circles. */
  | 'looping'
  /** A recipient it is about has not ended yet: the sender is asked to send it again. */
  | 'too_early'
  /** It changes nothing, and there were many such: it is to come again. */
  | 'too_many';

export type Receive = (arrival: Arrival) => Promise<Received>;

type ReceiveOptions = {
  book: AddressBook;
  store: InboundStore;
  unmatched: UnmatchedStore;
  rate: Pick<UnmatchedRate, 'mayKeep'>;
  /** Why nothing is kept at present (the disk is nearly full); null when it is. */
  refusal: () => string | null;
  world: Pick<World, 'newId'>;
  /** Puts the recipient on the suppression list; false: already there. On disk when it resolves. */
  unsubscribe: (recipient: SentRecipient) => Promise<boolean>;
  /** Called after the commit; a report does not wait for it. */
  onMailboxFull: (failure: Scope & { emailId: string; address: string }) => void;
};

/** Receives or throws: DatabaseUnavailable, Overloaded. */
export function createReceive(options: ReceiveOptions): Receive {
  return async (arrival) => {
    const refusal = options.refusal();
    if (refusal !== null) throw new Overloaded(refusal);
    if (hopsOf(arrival.content) > HOPS_MAX) return 'looping';
    const report = readReport(arrival.content);
    const results = await Promise.all(
      arrival.recipients.map(({ address, addressee }) =>
        addressee.kind === 'unsubscribe'
          ? unsubscribe(arrival, { address, report, recipient: addressee.recipient }, options)
          : keep(arrival, { address, addressee, report }, options),
      ),
    );
    if (results.some((result) => result === 'too_many')) return 'too_many';
    return results.some((result) => result === 'open') ? 'too_early' : 'kept';
  };
}

function hopsOf(content: Buffer): number {
  return readHeader(content).fields.filter(({ name }) => name.toLowerCase() === 'received').length;
}

async function keep(
  arrival: Arrival,
  { address, addressee, report }: { address: string; addressee: Addressee; report: Report },
  options: ReceiveOptions,
): Promise<InboundResult['kind'] | 'too_many'> {
  const { book, store, world, onMailboxFull } = options;
  const recipient =
    addressee.kind === 'recipient' ? addressee.recipient : await complainant(report, book);
  const consequence = recipient && consequenceOf(report, recipient, world);
  const message = messageOf(arrival, { address, recipient, kind: report.kind, id: world.newId() });
  if (consequence === null || isTooLate(recipient!, consequence.settlement.status)) {
    return keepUnmatched(arrival.client, message, options);
  }
  const result = await store.keep({ message, settlement: consequence.settlement });
  if (consequence.mailboxFull && result.kind === 'kept' && result.change !== null) {
    onMailboxFull({ ...consequence.settlement, address: recipient!.address });
  }
  return result.kind;
}

/** What changes nothing. */
async function keepUnmatched(
  client: string,
  message: NewInboundMessage,
  { unmatched, rate }: ReceiveOptions,
): Promise<'kept' | 'too_many'> {
  const content = message.content.subarray(0, UNMATCHED_BYTES_MAX);
  if (!rate.mayKeep(client, content.length)) return 'too_many';
  const result = await unmatched.keep({ ...message, content });
  return result === 'kept' ? 'kept' : 'too_many';
}

function messageOf(
  { content, sizeBytes, remoteAddress, sender }: Arrival,
  about: { address: string; recipient: SentRecipient | null; kind: string; id: string },
): NewInboundMessage {
  const { address, recipient, kind, id } = about;
  return {
    id,
    reportHash: createHash('sha256').update(address.toLowerCase()).update(content).digest(),
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
    content: content.subarray(0, KEPT_BYTES_MAX),
  };
}

/**
 * Suppressed before it is kept: when the second fails the server comes again, and the first changes
 * nothing any more.
 */
async function unsubscribe(
  arrival: Arrival,
  { address, report, recipient }: { address: string; report: Report; recipient: SentRecipient },
  options: ReceiveOptions,
): Promise<InboundResult['kind'] | 'too_many'> {
  const { store, world, unsubscribe: suppress } = options;
  const isWanted = wantsToUnsubscribe(arrival.content, report);
  const kind = isWanted ? 'unsubscribe' : report.kind;
  const message = messageOf(arrival, { address, recipient, kind, id: world.newId() });
  const isChange = isWanted && (await suppress(recipient));
  if (!isChange) return keepUnmatched(arrival.client, message, options);
  return (await store.keep({ message, settlement: null })).kind;
}

/**
 * Whatever a person or a mail program sends there, from whomever, does. What a machine answers does not:
 * reports, and automatic replies unless they carry the subject that the link asks for.
 */
function wantsToUnsubscribe(content: Buffer, { kind }: Report): boolean {
  if (kind === 'other' || kind === 'complaint') return true;
  const subject = decodedValue(readHeader(content).fields, 'subject') ?? '';
  return kind === 'auto_reply' && subject.trim().toLowerCase() === UNSUBSCRIBE_SUBJECT;
}

/** Who holds its return path may send more about it than counts. */
function isTooLate({ status }: SentRecipient, wanted: StoredStatus): boolean {
  return isFinal(status) && !TRANSITIONS.some(([from, to]) => from === status && to === wanted);
}

/** Whose email is complained about at a role address; null unless its own token says so. */
async function complainant(report: Report, book: AddressBook): Promise<SentRecipient | null> {
  if (report.kind !== 'complaint') return null;
  const signed = report.returnPaths.filter((address) => /^b-/i.test(address));
  for (const address of signed.slice(0, QUOTED_MAX)) {
    const addressee = await addresseeOf(address, book);
    if (addressee.kind === 'recipient') return addressee.recipient;
  }
  return null;
}

const WINDOW_MS = 60_000;

type Rate = { messages: number; bytes: number };

/** Within a minute. A client is an IPv4 address or an IPv6 /64. */
type UnmatchedLimits = { perClient: Rate; inAll: Rate };

/** Of each worker. */
export const UNMATCHED_LIMITS: UnmatchedLimits = {
  perClient: { messages: 120, bytes: 1024 * 1024 },
  inAll: { messages: 600, bytes: 8 * 1024 * 1024 },
};

export class UnmatchedRate {
  readonly #limits: UnmatchedLimits;
  readonly #world: Pick<World, 'monotonicMs'>;
  #sinceMs = -Infinity;
  #inAll: Rate = { messages: 0, bytes: 0 };
  #perClient = new Map<string, Rate>();

  constructor(world: Pick<World, 'monotonicMs'>, limits: UnmatchedLimits) {
    this.#world = world;
    this.#limits = limits;
  }

  /** Counts a message of this client, of which so much is kept; false: there was enough within a minute. */
  mayKeep(client: string, bytes: number): boolean {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#sinceMs >= WINDOW_MS) {
      this.#sinceMs = nowMs;
      this.#inAll = { messages: 0, bytes: 0 };
      this.#perClient = new Map();
    }
    const ofClient = this.#perClient.get(client) ?? { messages: 0, bytes: 0 };
    const { perClient, inAll } = this.#limits;
    if (!hasRoom(this.#inAll, inAll, bytes) || !hasRoom(ofClient, perClient, bytes)) return false;
    this.#inAll = plus(this.#inAll, bytes);
    this.#perClient.set(client, plus(ofClient, bytes));
    return true;
  }
}

function hasRoom(used: Rate, limit: Rate, bytes: number): boolean {
  return used.messages < limit.messages && used.bytes + bytes <= limit.bytes;
}

function plus({ messages, bytes }: Rate, more: number): Rate {
  return { messages: messages + 1, bytes: bytes + more };
}
