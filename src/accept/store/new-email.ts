/**
 * An email on its way into the database: the request that both paths store (fast-path.ts, full-path.ts), with the keys
 * by which requests are grouped, and the row that the paths return for each email.
 */
import type { LimitState } from '../../core/limits.ts';
import { type AllowLists, type Caller, type Environment, scopeKey } from '../../core/scope.ts';
import type { Address, Mailbox } from '../../mail/address.ts';
import type { Email } from '../../mail/email.ts';
import type { Tracking } from '../../mail/links/tracking-link.ts';

/**
 * An email to store. Its ids are generated before any statement, so that `findStoredEmails` (lost-commits.ts) can
 * look for it after a lost connection.
 */
export type NewEmail = Email & {
  bcc: readonly Mailbox[];
  projectId: string;
  environment: Environment;
  keyId: string;
  id: string;
  eventId: string;
  /** null, or in the past by the database's clock: send at once. */
  scheduledAt: Date | null;
  lifetimeS: number;
  recipients: readonly NewRecipient[];
  /** `data` of the email.queued event. A scheduled email changes it to email.scheduled. */
  eventData: object;
  /** Body of the response. `@created_at` and `@status` are placeholders (`fillResponse`). */
  response: string;
  /** True when this worker leases the recipients at once, without a poll of the queue. */
  mayHandOver: boolean;
  idempotency: Idempotency | null;
  sizeBytes: number;
  /** The lists of the key, as this process knows them; absent: none. The database's are compared or decide. */
  allowLists?: AllowLists;
  clientAddress?: Caller['clientAddress'];
  /** Absent or false: refuse the email when every recipient is suppressed. */
  acceptsSuppressed?: boolean;
};

/** `fingerprint` is the hex hash of endpoint and body. */
export type Idempotency = { key: string; fingerprint: string };

export type NewRecipient = {
  position: number;
  address: Address;
  addressKey: string;
  kind: 'to' | 'cc' | 'bcc';
  destination: string;
  /** The provider, or the destination until the provider is known. */
  provider: string;
  eventId: string;
};

/** The emails of one request, with one API key and at most one idempotency key. */
export type EmailBatch = Pick<
  NewEmail,
  'projectId' | 'environment' | 'keyId' | 'idempotency' | 'sizeBytes'
> & {
  /** At least one. Their own `idempotency` is null, and their own `response` is not used. */
  emails: readonly NewEmail[];
  isStrict: boolean;
  /** Returns the response, which is stored with the key. */
  respond: (outcomes: readonly DecisionKind[]) => string;
};

export type DecisionKind =
  | 'accepted'
  | 'repeated'
  | 'key_refused'
  | 'network_refused'
  | 'schedule_refused'
  | 'sender_refused'
  | 'recipient_refused'
  | 'domain_refused'
  | 'suppressed'
  | 'limited'
  /** Valid, but not stored, because the batch is refused as a whole. */
  | 'batch_refused';

export type EmailResult = {
  outcome:
    | DecisionKind
    /** Not stored. The reason was lost with the connection, so the client should retry. */
    | 'unknown';
  response: string | null;
  /** Hex fingerprint; when repeated, the first request's. */
  fingerprint: string | null;
  domainId: string | null;
  dualSigned: boolean;
  /** The email's setting, else its domain's, or null for opportunistic TLS. */
  tls: Email['tls'];
  tracking: Tracking;
  createdAt: Date;
  /** Positions of suppressed recipients. These recipients end at once. */
  suppressedPositions: readonly number[];
  /** The lease under which the recipients are stored, or null when they wait in the queue table. */
  leaseId: string | null;
  /**
   * State of the limit on recipients if it refuses, else of the limit on emails, or null when it is unknown, because
   * the row was read after a lost connection.
   */
  limit: LimitState | null;
};

/** The rows of one request, in the order of its emails. */
export type EmailResults = readonly EmailResult[];

export type AcceptRequest = NewEmail | EmailBatch;

export function isBatch(request: AcceptRequest): request is EmailBatch {
  return 'emails' in request;
}

export function isEmail(request: AcceptRequest): request is NewEmail {
  return !isBatch(request);
}

/** Returns the response with the values of the database in place of its placeholders. */
export function fillResponse(
  { response }: Pick<NewEmail, 'response'>,
  { createdAt, isScheduled }: { createdAt: string; isScheduled: boolean },
): string {
  return response
    .replaceAll('@created_at', createdAt)
    .replaceAll('@status', isScheduled ? 'scheduled' : 'queued');
}

export function emailsOf(request: AcceptRequest): readonly NewEmail[] {
  return isBatch(request) ? request.emails : [request];
}

/** Returns a key that repeated requests share, or null without an idempotency key. The store accepts one of them. */
export function idempotencyKeyOf(request: AcceptRequest): string | null {
  if (request.idempotency === null) return null;
  return `${scopeKey(request)} ${request.idempotency.key}`;
}

/**
 * Returns the key of repeated requests, or null without an idempotency key. Includes the API key, because a revoked
 * key's refusal must not apply to a request with another key.
 */
export function repeatKeyOf(request: AcceptRequest): string | null {
  const key = idempotencyKeyOf(request);
  return key === null ? null : `${key} ${request.keyId} ${request.idempotency?.fingerprint}`;
}

/** Returns the rows of a repeated request, from the first one's. */
export function toRepetition(rows: EmailResults, { idempotency }: AcceptRequest): EmailResult[] {
  const isAccepted = rows.some(({ outcome }) => outcome === 'accepted');
  const fingerprint = idempotency?.fingerprint ?? null;
  return rows.map((row) =>
    isAccepted ? { ...row, outcome: 'repeated', fingerprint, leaseId: null } : row,
  );
}
