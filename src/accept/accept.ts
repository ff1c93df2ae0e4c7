/**
 * Accepts an email: prepares it, has it stored in one durable commit, then hands it over to delivery in this
 * process.
 *
 * Guarantee: `accepted` means that the email is on disk and will be attempted. A replay returns the first
 * response byte for byte, and nothing is sent. For most emails the fast path decides in SQL, for the others
 * accept/store/decision.ts does; this file turns the result into an answer or a refusal. Storage is reserved before
 * (accounts/limits/storage-account.ts). An email that is not handed over waits in the queue table until
 * delivery/queue/dispatcher.ts claims it.
 */
import { failpoint } from '../lib/failpoint.ts';
import { limitRefusal, type LimitState } from '../core/limits.ts';
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';
import { MAIL_LIFETIME_S, SCHEDULE_DAYS_MAX } from '../core/retry.ts';
import type { Caller, Environment, Scope } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import { type Address, addressKey, domainOf } from '../mail/address.ts';
import { AcceptedUnknown, type AcceptStore, findRemembered } from './store/accept.ts';
import type { AcceptRow, NewEmail, NewRecipient } from './store/decision.ts';
import type { StoredMessage } from '../delivery/attempt/message-store.ts';
import { emailEventData } from '../events/event-store.ts';
import type { Queryable } from '../database/database.ts';
import type { EmailDraft } from './draft.ts';
import type { StorageAccount } from '../accounts/limits/storage-account.ts';

export type AcceptOutcome =
  /** `body`: the exact JSON text of the answer; `limit` is null when nothing was stored. */
  | { kind: 'accepted' | 'replayed'; body: string; limit: LimitState | null }
  | (Refusal & { kind: 'refused'; limit?: LimitState });

/** @param idempotency the client's key and a fingerprint (hex) of endpoint and parsed body */
export type AcceptEmail = (
  caller: Caller,
  draft: EmailDraft,
  idempotency: { key: string; fingerprint: string } | null,
) => Promise<AcceptOutcome>;

/** Recipients that this worker holds already, so that their delivery may start at once. */
type HandOver = {
  message: StoredMessage;
  recipients: readonly { position: number; address: Address; destination: string }[];
  /** The lease under which they are held. */
  holder: string;
  lifetimeMs: number;
};

/** Delivery in this worker: delivery/queue/dispatcher.ts. */
type Dispatcher = {
  /** The provider of a destination, or the destination while its mail servers are not known. */
  providerOf(environment: Environment, destination: string): string;
  /** Whether an email may be handed over instead of waiting in the queue table. */
  hasRoomFor(email: {
    projectId: string;
    providers: readonly string[];
    /** Recipients of the same request that are handed over before. */
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
  /** For the first response to a request that is repeated. */
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
    takeAccepted(email, draft, { row: row!, options });
    return answer(row!, email);
  };
}

/** A repeated request gets its first response, however full the storage is. */
export async function refuseFull(
  full: Refusal,
  request: { caller: Caller; idempotency: NewEmail['idempotency']; db: Queryable },
): Promise<AcceptOutcome> {
  const { caller, idempotency, db } = request;
  const earlier = idempotency && (await findReplay(db, caller, idempotency));
  return earlier ?? { kind: 'refused', ...full };
}

/** Stores emails whose room was taken, and gives back the room of those that were not stored. */
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

/** @param context.ahead recipients of the same request that are handed over before */
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
    handOver:
      scheduledAt === null &&
      dispatcher.hasRoomFor({
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

/** One recipient per address, in the first role in which it occurs: an address gets one copy. */
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

/** Hands over and counts a committed email; does nothing with one that was not stored. */
export function takeAccepted(
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

/** The email as it is loaded for delivery. @param decided.startsAt the later of now and its scheduled time */
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

/** What the verdict of the statement means to the client. */
export function answer(row: AcceptRow, email: NewEmail): AcceptOutcome {
  const { limit, outcome } = row;
  if (outcome === 'accepted') return { kind: 'accepted', body: row.response ?? '', limit };
  if (outcome === 'replayed') return answerAgain(row, email.idempotency);
  if (outcome === 'limited') {
    return { kind: 'refused', ...limitRefusal('sending', limit, email.recipients.length) };
  }
  const refusal =
    outcome === 'schedule_refused'
      ? refuseFields([tooFarAhead(email)])
      : refusalOf(outcome, domainOf(email.from.address));
  return { kind: 'refused', ...refusal, ...(outcome !== 'unknown' && { limit }) };
}

/** The answer to an earlier request with this key; null: there was none, or it is long ago. */
export async function findReplay(
  db: Queryable,
  caller: Scope,
  idempotency: NonNullable<NewEmail['idempotency']>,
): Promise<AcceptOutcome | null> {
  const earlier = await findRemembered(db, caller, idempotency.key);
  return earlier && answerAgain({ ...earlier, limit: null }, idempotency);
}

/** The first response, or a conflict if the key was used with another request. */
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

/** Why an email was not stored. */
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
          'The limit of sending has no room left for this email; try again after RateLimit-Reset seconds.',
      };
    case 'unknown':
      return {
        refused: 'service_unavailable',
        message:
          'The database went away while this was being decided; nothing was accepted. Try again.',
      };
  }
}

/** With the name of the field in the request: of JSON, or of the header of a submitted message. */
function tooFarAhead({ written }: NewEmail): FieldProblem {
  const field = written === null ? 'scheduled_at' : 'X-Letterhaus-Scheduled-At';
  return { field, message: TOO_FAR_AHEAD };
}

function refuse(refused: Refusal['refused'], message: string, limit?: LimitState): AcceptOutcome {
  return { kind: 'refused', refused, message, ...(limit && { limit }) };
}
