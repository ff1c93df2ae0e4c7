/**
 * What came back, taken in: read, settled and kept before anybody is told that it was.
 *
 * Promise: `kept` means on disk, with everything that follows from it. A report touches the
 * recipient of the return path it came to and nobody else; at `abuse@` and `fbl@` a complaint touches
 * the recipient whose signed return path stands in the original that it quotes. Nothing is ever
 * sent because of it. Next: inbound/verdict.ts, store/inbound-commit.ts.
 */
import { createHash } from 'node:crypto';
import { Overloaded } from '../core/overloaded.ts';
import type { Scope } from '../core/scope.ts';
import { isFinal, type StoredStatus, TRANSITIONS } from '../core/statuses.ts';
import type { World } from '../core/world.ts';
import { readReport, type Report, REPORT_BYTES_MAX } from '../mail/bounce.ts';
import { readHeader } from '../mail/mime-reader.ts';
import type { InboundResult, InboundStore } from '../store/inbound-commit.ts';
import type { SentRecipient } from '../store/inbound-lookup.ts';
import { type Addressee, type AddressBook, addresseeOf } from './addresses.ts';
import type { Letters } from './letters.ts';
import { consequenceOf } from './verdict.ts';

/** Of a message so much is taken in, read and kept for people; the rest is let by. */
export const KEPT_BYTES_MAX = REPORT_BYTES_MAX;
/** Of one that changes nothing: anybody can send those. */
const LETTER_BYTES_MAX = 64 * 1024;
/** RFC 5321 §6.3 */
const HOPS_MAX = 100;
/** Return paths in a complaint that are looked up. */
const QUOTED_MAX = 3;

export type Arrival = {
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
  /** Somebody it is about has not ended yet: it is to come again. */
  | 'too_early'
  /** It changes nothing, and there were many such: it is to come again. */
  | 'too_many';

export type Receive = (arrival: Arrival) => Promise<Received>;

export type ReceiveOptions = {
  book: AddressBook;
  store: InboundStore;
  letters: Pick<Letters, 'mayKeep'>;
  /** Why nothing is kept at present (the disk is nearly full); null when it is. */
  refusal: () => string | null;
  world: Pick<World, 'newId'>;
  /** Told after the fact; it is nothing that a report waits for. */
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
      arrival.recipients.map((one) => keep(arrival, { ...one, report }, options)),
    );
    if (results.some((result) => result === 'too_many')) return 'too_many';
    return results.some((result) => result === 'open') ? 'too_early' : 'kept';
  };
}

function hopsOf(content: Buffer): number {
  return readHeader(content).fields.filter(({ name }) => name.toLowerCase() === 'received').length;
}

async function keep(
  { content, sizeBytes, remoteAddress, client, sender }: Arrival,
  { address, addressee, report }: { address: string; addressee: Addressee; report: Report },
  { book, store, world, letters, onMailboxFull }: ReceiveOptions,
): Promise<InboundResult['kind'] | 'too_many'> {
  const recipient =
    addressee.kind === 'recipient' ? addressee.recipient : await complainant(report, book);
  const consequence = recipient && consequenceOf(report, recipient, world);
  const isLetter = consequence === null || isTooLate(recipient!, consequence.settlement.status);
  if (isLetter && !letters.mayKeep(client)) return 'too_many';
  const result = await store.keep({
    message: {
      id: world.newId(),
      reportHash: createHash('sha256').update(address.toLowerCase()).update(content).digest(),
      remoteAddress,
      sender,
      recipient: address,
      kind: report.kind,
      about: recipient && {
        projectId: recipient.projectId,
        environment: recipient.environment,
        emailId: recipient.email.id,
        position: recipient.position,
      },
      sizeBytes,
      content: content.subarray(0, isLetter ? LETTER_BYTES_MAX : KEPT_BYTES_MAX),
    },
    settlement: consequence?.settlement ?? null,
  });
  if (consequence?.mailboxFull === true && result.kind === 'kept' && result.change !== null) {
    onMailboxFull({ ...consequence.settlement, address: recipient!.address });
  }
  return result.kind;
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
