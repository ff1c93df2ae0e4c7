/**
 * Accepts an email: stores it in one durable commit, then hands it over to delivery in this process.
 *
 * Guarantee: `accepted` means that the email is on disk and will be attempted. A repetition returns the first
 * response byte for byte and sends nothing.
 *
 * For most emails the fast path decides in SQL. For the others, store/decision.ts decides. This file reserves storage
 * first (accounts/storage/storage-account.ts). email-of-draft.ts makes the email to store, and accept-results.ts turns
 * its row into a response or a refusal. An email that is not handed over stays in the queue table until
 * delivery/queue/dispatcher.ts claims it.
 */
import { hash } from 'node:crypto';
import { failpoint } from '../lib/failpoint.ts';
import { ALLOW_ALL, type Caller } from '../core/scope.ts';
import { domainOf } from '../mail/address.ts';
import type { AcceptStore } from './store/accept-store.ts';
import { AcceptedUnknown } from './store/lost-commits.ts';
import type { EmailResult, EmailResults, NewEmail } from './store/new-email.ts';
import type { EmailHandOver } from '../delivery/hand-over.ts';
import type { Queryable } from '../database/database.ts';
import { refuseOtherDomain } from './accept-refusals.ts';
import { type AcceptResult, acceptResultOf, refuseForStorage } from './accept-results.ts';
import type { EmailDraft } from './draft.ts';
import { newEmail, type NewEmailOptions, toStoredMessage } from './email-of-draft.ts';
import type { StorageAccount } from '../accounts/storage/storage-account.ts';

/** @param idempotency the client's key and a fingerprint (hex) of endpoint and parsed body */
export type AcceptEmail = (
  caller: Caller,
  draft: EmailDraft,
  idempotency: { key: string; fingerprint: string } | null,
) => Promise<AcceptResult>;

export type AcceptOptions = NewEmailOptions & {
  store: AcceptStore;
  handOver: EmailHandOver;
  storage: Pick<StorageAccount, 'take' | 'takeAll' | 'release'>;
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

type OwnSender = Pick<Caller, 'projectId' | 'environment' | 'organizationId' | 'keyId' | 'domain'>;

/** Accepts mail of the service itself as mail of a project. A repetition with the same `name` sends nothing. */
export function acceptOwnMail(
  accept: AcceptEmail,
  { projectId, environment, organizationId, keyId, domain }: OwnSender,
  { draft, name }: { draft: EmailDraft; name: string },
): Promise<AcceptResult> {
  const caller: Caller = {
    projectId,
    environment,
    organizationId,
    keyId,
    domain,
    permission: 'sending_access',
    expiresAt: null,
    ...ALLOW_ALL,
  };
  return accept(caller, draft, { key: name, fingerprint: hash('sha256', name, 'hex') });
}

/** Stores emails for which storage is reserved. Releases the reservation of each email that was not stored. */
export async function storeReserved(
  emails: readonly NewEmail[],
  { storage }: Pick<AcceptOptions, 'storage'>,
  store: () => Promise<EmailResults>,
): Promise<EmailResults> {
  try {
    const rows = await store();
    for (const [index, email] of emails.entries()) {
      if (rows[index]?.outcome !== 'accepted') storage.release(email);
    }
    return rows;
  } catch (error) {
    if (!(error instanceof AcceptedUnknown)) for (const email of emails) storage.release(email);
    throw error;
  }
}

/** Hands over and reports a committed email. Does nothing with an email that was not stored. */
export function finishAccept(
  email: NewEmail,
  draft: EmailDraft,
  { row, options }: { row: EmailResult; options: AcceptOptions },
): void {
  failpoint('accept_before_hand_over');
  if (row.leaseId !== null) handOverEmail(email, draft, { row, leaseId: row.leaseId, options });
  if (row.outcome === 'accepted') options.onAccepted(email);
  failpoint('accept_before_answer');
}

function handOverEmail(
  email: NewEmail,
  draft: EmailDraft,
  { row, leaseId, options }: { row: EmailResult; leaseId: string; options: AcceptOptions },
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
    leaseId,
    lifetimeMs: email.lifetimeS * 1000,
  });
}
