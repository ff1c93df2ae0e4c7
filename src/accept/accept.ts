/**
 * Accepts an email: stores it in one durable commit, then hands it over to delivery in this process.
 *
 * Guarantee: `accepted` means that the email is on disk and will be attempted. A replay returns the first response
 * byte for byte and sends nothing.
 *
 * For most emails the fast path decides in SQL. For the others, store/decision.ts decides. This file turns the row
 * into an answer or a refusal. It reserves storage first (accounts/limits/storage-account.ts). An email that is not
 * handed over stays in the queue table until delivery/queue/dispatcher.ts claims it.
 */
import { failpoint } from '../lib/failpoint.ts';
import { limitRefusal, type LimitState } from '../core/limits.ts';
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';
import { MAIL_LIFETIME_S, SCHEDULE_DAYS_MAX } from '../core/retry.ts';
import type { Caller, Environment, Scope } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import { type Address, addressKey, domainOf } from '../mail/address.ts';
import { AcceptedUnknown, type AcceptStore, findEarlierRequest } from './store/accept-store.ts';
import type { AcceptRow, NewEmail, NewRecipient } from './store/new-email.ts';
import type { StoredMessage } from '../delivery/attempt/message-store.ts';
import { emailEventData } from '../events/event-store.ts';
import type { Queryable } from '../database/database.ts';
import type { EmailDraft } from './draft.ts';
import type { StorageAccount } from '../accounts/limits/storage-account.ts';

export type AcceptOutcome =
  /** `body` is the exact JSON text of the response. `limit` is null when its state is unknown. */
  | { kind: 'accepted' | 'replayed'; body: string; limit: LimitState | null }
  | (Refusal & { kind: 'refused'; limit?: LimitState });

/** @param idempotency the client's key and a fingerprint (hex) of endpoint and parsed body */
export type AcceptEmail = (
  caller: Caller,
  draft: EmailDraft,
  idempotency: { key: string; fingerprint: string } | null,
) => Promise<AcceptOutcome>;

/** Recipients that were stored under this worker's lease. Their delivery starts without a poll of the queue. */
type HandOver = {
  message: StoredMessage;
  recipients: readonly { position: number; address: Address; destination: string }[];
  holder: string;
  lifetimeMs: number;
};

type Dispatcher = {
  /** Returns the provider of a destination, or the destination itself until its mail servers are known. */
  providerOf(environment: Environment, destination: string): string;
  hasSpaceFor(email: {
    projectId: string;
    providers: readonly string[];
    ahead: number;
    lifetimeMs: number;
  }): boolean;
  handOver(accepted: HandOver): void;
};

export type AcceptOptions = {
  store: AcceptStore;
  world: Pick<World, 'newId'>;
  dispatcher: Dispatcher;
  storage: Pick<StorageAccount, 'take' | 'takeAll' | 'giveBack'>;
  db: Queryable;
  /** Called for each email once it is committed. */
  onAccepted: (email: Pick<NewEmail, 'projectId' | 'environment' | 'id'>) => void;
};

export function createAccept(options: AcceptOptions): AcceptEmail {
  return async (caller, draft, idempotency) => {
    const early = refuseOtherDomain(caller, draft);
    if (early) return early;
    const email = newEmail(caller, draft, { idempotency, options });
    const taken = options.storage.take(email);
    const full = taken instanceof Promise ? await taken : taken;
    if (full !== null) return refuseFull(full, { caller, idempotency, db: options.db });
    const [row] = await storeWithin([email], options, async () => [
      await options.store.accept(email),
    ]);
    afterCommit(email, draft, { row: row!, options });
    return answer(row!, email);
  };
}

/** Refuses because the storage is full. A repeated request still gets its first response. */
export async function refuseFull(
  full: Refusal,
  request: { caller: Caller; idempotency: NewEmail['idempotency']; db: Queryable },
): Promise<AcceptOutcome> {
  const { caller, idempotency, db } = request;
  const earlier = idempotency && (await findReplay(db, caller, idempotency));
  return earlier ?? { kind: 'refused', ...full };
}

/** Stores emails for which storage is reserved. Gives back the reservation of each email that was not stored. */
export async function storeWithin(
  emails: readonly NewEmail[],
  { storage }: Pick<AcceptOptions, 'storage'>,
  store: () => Promise<readonly AcceptRow[]>,
): Promise<readonly AcceptRow[]> {
  try {
    const rows = await store();
    for (const [at, email] of emails.entries()) {
      if (rows[at]?.outcome !== 'accepted') storage.giveBack(email);
    }
    return rows;
  } catch (error) {
    if (!(error instanceof AcceptedUnknown)) for (const email of emails) storage.giveBack(email);
    throw error;
  }
}

export function refuseOtherDomain({ domain }: Caller, { email }: EmailDraft): AcceptOutcome | null {
  if (domain === null || domain === domainOf(email.from.address)) return null;
  return refuse('authorization_error', otherDomain(domain));
}

export function otherDomain(domain: string): string {
  return `This key may only send from ${domain}.`;
}

export function newEmail(
  caller: Caller,
  draft: EmailDraft,
  context: {
    idempotency: NewEmail['idempotency'];
    options: Pick<AcceptOptions, 'world' | 'dispatcher'>;
    ahead?: number;
  },
): NewEmail {
  const { dispatcher, world } = context.options;
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
      dispatcher.hasSpaceFor({
        projectId: caller.projectId,
        providers: recipients.map((recipient) => recipient.provider),
        ahead: context.ahead ?? 0,
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
  { world, dispatcher }: Pick<AcceptOptions, 'world' | 'dispatcher'>,
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
      provider: dispatcher.providerOf(environment, destination),
      eventId: world.newId(),
    });
  }
  return [...recipients.values()];
}

/** Hands over and counts a committed email. Does nothing with an email that was not stored. */
export function afterCommit(
  email: NewEmail,
  draft: EmailDraft,
  { row, options }: { row: AcceptRow; options: AcceptOptions },
): void {
  failpoint('accept_before_hand_over');
  if (row.holder !== null) handOver(email, draft, { row, holder: row.holder, options });
  if (row.outcome === 'accepted') options.onAccepted(email);
  failpoint('accept_before_answer');
}

function handOver(
  email: NewEmail,
  draft: EmailDraft,
  { row, holder, options }: { row: AcceptRow; holder: string; options: AcceptOptions },
): void {
  const { domainId } = row;
  const open = email.recipients.filter(
    (recipient) => !row.suppressedPositions.includes(recipient.position),
  );
  if (domainId === null || open.length === 0) return;
  options.dispatcher.handOver({
    message: messageOf(email, draft, { ...row, domainId, startsAt: row.createdAt }),
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
export function messageOf(
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

/** Turns the stored row into the client's answer. */
export function answer(row: AcceptRow, email: NewEmail): AcceptOutcome {
  const { limit, outcome } = row;
  if (outcome === 'accepted') return { kind: 'accepted', body: row.response ?? '', limit };
  if (outcome === 'replayed') return answerAgain(row, email.idempotency);
  if (outcome === 'limited' && limit !== null) {
    return { kind: 'refused', ...limitRefusal('sending', limit, email.recipients.length) };
  }
  const refusal =
    outcome === 'schedule_refused'
      ? refuseFields([tooFarAhead(email)])
      : refusalOf(outcome, domainOf(email.from.address));
  return { kind: 'refused', ...refusal, ...(outcome !== 'unknown' && limit !== null && { limit }) };
}

/** Returns the answer to the earlier request with this key, or null when there was none within 24 hours. */
export async function findReplay(
  db: Queryable,
  caller: Scope,
  idempotency: NonNullable<NewEmail['idempotency']>,
): Promise<AcceptOutcome | null> {
  const earlier = await findEarlierRequest(db, caller, idempotency.key);
  return earlier && answerAgain({ ...earlier, limit: null }, idempotency);
}

/** Returns the first response, or a conflict if the key was used with another request. */
export function answerAgain(
  {
    limit,
    fingerprint,
    response,
  }: Pick<AcceptRow, 'fingerprint' | 'response'> & { limit: LimitState | null },
  idempotency: NewEmail['idempotency'],
): AcceptOutcome {
  if (fingerprint === idempotency?.fingerprint) {
    return { kind: 'replayed', body: response ?? '', limit };
  }
  return refuse(
    'idempotency_conflict',
    'This Idempotency-Key was used within 24 hours with another body; use a new key.',
    limit ?? undefined,
  );
}

export const TOO_FAR_AHEAD = `is more than ${SCHEDULE_DAYS_MAX} days ahead; choose an earlier time`;

export function refusalOf(
  outcome: Exclude<AcceptRow['outcome'], 'accepted' | 'replayed'>,
  domain: string,
): Refusal {
  switch (outcome) {
    case 'key_refused':
      return { refused: 'authentication_error', message: 'The API key is not valid.' };
    case 'schedule_refused':
      return refuseFields([{ field: 'scheduled_at', message: TOO_FAR_AHEAD }]);
    case 'domain_refused':
      return {
        refused: 'domain_not_verified',
        message:
          `${domain} is not a verified domain of this project and environment; ` +
          'add it, publish its records and verify it.',
      };
    case 'suppressed':
      return {
        refused: 'suppressed',
        message:
          'Every recipient is on the suppression list; remove the address there to mail it again.',
      };
    case 'limited':
    case 'withheld':
      return {
        refused: 'rate_limit_error',
        message:
          'The sending limit is too low for this email now; try again after RateLimit-Reset seconds.',
      };
    case 'unknown':
      return {
        refused: 'service_unavailable',
        message:
          'The connection to the database was lost and this email was not accepted; try again.',
      };
  }
}

/** Names the field as the client did: in JSON, or in the header of a submitted message. */
function tooFarAhead({ submitted }: NewEmail): FieldProblem {
  const field = submitted === null ? 'scheduled_at' : 'X-Letterhaus-Scheduled-At';
  return { field, message: TOO_FAR_AHEAD };
}

function refuse(refused: Refusal['refused'], message: string, limit?: LimitState): AcceptOutcome {
  return { kind: 'refused', refused, message, ...(limit && { limit }) };
}
