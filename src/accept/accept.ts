/**
 * Accepts an email: stores it in one durable commit, then hands it over to delivery in this process.
 *
 * Guarantee: `accepted` means that the email is on disk and will be attempted. A repetition returns the first
 * response byte for byte and sends nothing.
 *
 * For most emails the fast path decides in SQL. For the others, store/decision.ts decides. This file turns the row
 * into a response or a refusal. It reserves storage first (accounts/storage/storage-account.ts). An email that is not
 * handed over stays in the queue table until delivery/queue/dispatcher.ts claims it.
 */
import { failpoint } from '../lib/failpoint.ts';
import type { LimitState } from '../core/limits.ts';
import type { Refusal } from '../core/refusals.ts';
import { MAIL_LIFETIME_S } from '../core/retry.ts';
import type { Caller, Scope } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import { addressKey, domainOf } from '../mail/address.ts';
import type { AcceptStore } from './store/accept-store.ts';
import { findEarlierRequest } from './store/facts.ts';
import { AcceptedUnknown } from './store/lost-commits.ts';
import type { AcceptRow, AcceptRows, NewEmail, NewRecipient } from './store/new-email.ts';
import type { StoredMessage } from '../delivery/message/message-store.ts';
import type { EmailHandOver } from '../delivery/hand-over.ts';
import { emailEventData } from '../events/event-store.ts';
import type { Queryable } from '../database/database.ts';
import { refusalFor, refuseOtherDomain, type SendingRefusal } from './accept-refusals.ts';
import type { EmailDraft } from './draft.ts';
import type { StorageAccount } from '../accounts/storage/storage-account.ts';

export type AcceptResult =
  /** `body` is the exact JSON text of the response. `limit` is null when its state is unknown. */
  | { kind: 'accepted' | 'replayed'; body: string; limit: LimitState | null }
  | (SendingRefusal & { kind: 'refused' });

/** @param idempotency the client's key and a fingerprint (hex) of endpoint and parsed body */
export type AcceptEmail = (
  caller: Caller,
  draft: EmailDraft,
  idempotency: { key: string; fingerprint: string } | null,
) => Promise<AcceptResult>;

export type AcceptOptions = {
  store: AcceptStore;
  world: Pick<World, 'newId'>;
  handOver: EmailHandOver;
  storage: Pick<StorageAccount, 'take' | 'takeAll' | 'giveBack'>;
  db: Queryable;
  /** Called for each email once it is committed. */
  onAccepted: (email: Pick<NewEmail, 'projectId' | 'environment' | 'id'>) => void;
};

export function createAccept(options: AcceptOptions): AcceptEmail {
  return async (caller, draft, idempotency) => {
    const refusal = refuseOtherDomain(caller, domainOf(draft.email.from.address));
    if (refusal !== null) return { kind: 'refused', ...refusal };
    const email = newEmail(caller, draft, { idempotency, options });
    const reservation = options.storage.take(email);
    const storageRefusal = reservation instanceof Promise ? await reservation : reservation;
    if (storageRefusal !== null)
      return refuseForStorage(storageRefusal, { caller, idempotency, db: options.db });
    const [row] = await storeReserved([email], options, async () => [
      await options.store.accept(email),
    ]);
    finishAccept(email, draft, { row: row!, options });
    return acceptResultOf(row!, email);
  };
}

/** Refuses because the storage is full. A repeated request still gets its first response. */
export async function refuseForStorage(
  storageRefusal: Refusal,
  request: { caller: Caller; idempotency: NewEmail['idempotency']; db: Queryable },
): Promise<AcceptResult> {
  const { caller, idempotency, db } = request;
  const repetition = idempotency && (await findRepetition(db, caller, idempotency));
  return repetition ?? { kind: 'refused', ...storageRefusal };
}

/** Stores emails for which storage is reserved. Gives back the reservation of each email that was not stored. */
export async function storeReserved(
  emails: readonly NewEmail[],
  { storage }: Pick<AcceptOptions, 'storage'>,
  store: () => Promise<AcceptRows>,
): Promise<AcceptRows> {
  try {
    const rows = await store();
    for (const [index, email] of emails.entries()) {
      if (rows[index]?.outcome !== 'accepted') storage.giveBack(email);
    }
    return rows;
  } catch (error) {
    if (!(error instanceof AcceptedUnknown)) for (const email of emails) storage.giveBack(email);
    throw error;
  }
}

export function newEmail(
  caller: Caller,
  draft: EmailDraft,
  context: {
    idempotency: NewEmail['idempotency'];
    options: Pick<AcceptOptions, 'world' | 'handOver'>;
    /** Recipients of earlier emails of the same request. */
    recipientsAhead?: number;
  },
): NewEmail {
  const { handOver, world } = context.options;
  const { email, bcc, scheduledAt, sizeBytes } = draft;
  const id = draft.emailId ?? world.newId();
  const recipients = uniqueRecipients(caller, draft, context.options);
  const lifetimeS = draft.expiresInS ?? MAIL_LIFETIME_S;
  return {
    ...email,
    bcc,
    projectId: caller.projectId,
    environment: caller.environment,
    keyId: caller.keyId,
    id,
    eventId: world.newId(),
    scheduledAt,
    lifetimeS,
    recipients,
    eventData: emailEventData(email.from, { status: 'queued' }),
    response: JSON.stringify({ object: 'email', id, status: '@status', created_at: '@created_at' }),
    mayHandOver:
      scheduledAt === null &&
      handOver.hasSpaceFor({
        projectId: caller.projectId,
        providers: recipients.map((recipient) => recipient.provider),
        recipientsAhead: context.recipientsAhead ?? 0,
        lifetimeMs: lifetimeS * 1000,
      }),
    idempotency: context.idempotency,
    sizeBytes,
    acceptsSuppressed: draft.acceptsSuppressed ?? false,
  };
}

/** Keeps one recipient per address, in the first role in which it occurs: an address gets one copy. */
function uniqueRecipients(
  { environment }: Caller,
  draft: EmailDraft,
  { world, handOver }: Pick<AcceptOptions, 'world' | 'handOver'>,
): NewRecipient[] {
  const recipients = new Map<string, NewRecipient>();
  for (const { kind, address } of draft.recipients) {
    if (recipients.has(address)) continue;
    const destination = domainOf(address);
    recipients.set(address, {
      position: recipients.size,
      address,
      addressKey: addressKey(address),
      kind,
      destination,
      provider: handOver.providerOf(environment, destination),
      eventId: world.newId(),
    });
  }
  return [...recipients.values()];
}

/** Hands over and reports a committed email. Does nothing with an email that was not stored. */
export function finishAccept(
  email: NewEmail,
  draft: EmailDraft,
  { row, options }: { row: AcceptRow; options: AcceptOptions },
): void {
  failpoint('accept_before_hand_over');
  if (row.holder !== null) handOverEmail(email, draft, { row, holder: row.holder, options });
  if (row.outcome === 'accepted') options.onAccepted(email);
  failpoint('accept_before_answer');
}

function handOverEmail(
  email: NewEmail,
  draft: EmailDraft,
  { row, holder, options }: { row: AcceptRow; holder: string; options: AcceptOptions },
): void {
  const { domainId } = row;
  const open = email.recipients.filter(
    (recipient) => !row.suppressedPositions.includes(recipient.position),
  );
  if (domainId === null || open.length === 0) return;
  options.handOver.handOver({
    message: toStoredMessage(email, draft, { ...row, domainId, startsAt: row.createdAt }),
    recipients: open.map(({ position, address, destination }) => ({
      position,
      address,
      destination,
    })),
    holder,
    lifetimeMs: email.lifetimeS * 1000,
  });
}

/**
 * Returns the email in the form that delivery loads.
 * @param decided.startsAt the later of now and the scheduled time
 */
export function toStoredMessage(
  email: NewEmail,
  draft: EmailDraft,
  decided: Pick<AcceptRow, 'createdAt' | 'dualSigned' | 'tls' | 'tracking'> & {
    domainId: string;
    startsAt: Date;
  },
): StoredMessage {
  const { createdAt, startsAt, domainId, dualSigned, tls, tracking } = decided;
  return {
    ...draft.email,
    projectId: email.projectId,
    environment: email.environment,
    id: email.id,
    createdAt,
    scheduledAt: startsAt > createdAt ? startsAt : null,
    expiresAt: new Date(startsAt.getTime() + email.lifetimeS * 1000),
    domainId,
    dualSigned,
    tls,
    tracking,
  };
}

/** Returns what the client learns of its email. */
export function acceptResultOf(row: AcceptRow, email: NewEmail): AcceptResult {
  const { limit, outcome, response } = row;
  if (outcome === 'accepted') return { kind: 'accepted', body: response ?? '', limit };
  if (outcome === 'replayed') return resultOfRepetition(row, email.idempotency);
  return { kind: 'refused', ...refusalFor(outcome, email, limit) };
}

/** Returns the result of the earlier request with this key, or null when there was none within 24 hours. */
export async function findRepetition(
  db: Queryable,
  caller: Scope,
  idempotency: NonNullable<NewEmail['idempotency']>,
): Promise<AcceptResult | null> {
  const earlier = await findEarlierRequest(db, caller, idempotency.key);
  return earlier && resultOfRepetition({ ...earlier, limit: null }, idempotency);
}

/** Returns the first response, or a conflict if the key was used with another request. */
export function resultOfRepetition(
  earlier: Pick<AcceptRow, 'fingerprint' | 'response' | 'limit'>,
  idempotency: NewEmail['idempotency'],
): AcceptResult {
  const { fingerprint, response, limit } = earlier;
  if (fingerprint === idempotency?.fingerprint) {
    return { kind: 'replayed', body: response ?? '', limit };
  }
  return {
    kind: 'refused',
    refused: 'idempotency_conflict',
    message: 'This Idempotency-Key was used within 24 hours with another body; use a new key.',
    ...(limit && { limit }),
  };
}
