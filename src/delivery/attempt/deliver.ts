/**
 * Delivers to one recipient: checks that the email may still be sent, makes the attempt, and settles its outcome. A
 * delivery that was not sent is released.
 *
 * Test mail takes the same steps, except that simulator.ts answers its attempt. It cannot reach a network.
 */
import type { Logger } from 'pino';
import { domainOf } from '../../mail/address.ts';
import { Unsignable } from '../../mail/dkim.ts';
import { loggedRecipient, type LogRecipients } from '../../mail/logged-recipient.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { countInDoubt, findLastReason } from '../../emails/email-store.ts';
import { stoppedNow } from '../queue/queue-store.ts';
import { SecretUnopenable } from '../../secrets/secret-store.ts';
import type { SettleStore } from '../../settle/settle-store.ts';
import { noteQuotaFailure } from '../../suppressions/suppression-store.ts';
import { isDomainUnusable, noteUnusable } from '../../secrets/unusable-store.ts';
import { attemptLive, type AttemptOptions, RECHECK_AFTER_MS } from './attempt.ts';
import type { Cutoff } from './cutoff.ts';
import { EXPIRED_REFUSED, expiredByBlock } from '../blocks/block-outcomes.ts';
import type { Delivery } from '../queue/fair-queue.ts';
import {
  COMPLAINED,
  CONTENT_MISSING,
  deferredByUplink,
  DOMAIN_REMOVED,
  DOMAIN_UNVERIFIED,
  DOUBTS_MAX,
  EXPIRED,
  EXPIRED_MAILBOX_FULL,
  EXPIRED_UNSIGNED,
  EXPIRED_UNVERIFIED,
  EXPIRED_WITHOUT_TLS,
  EXPIRED_WITHOUT_UPLINK,
  expiredUntried,
  givenUpInDoubt,
  NO_HOST_NAME,
  SUPPRESSED,
  UNSIGNABLE,
  unsignable,
} from './endings.ts';
import { type Attempted, type Outcome, settlementOf } from './outcome.ts';
import type { EarlyRetries } from '../queue/early-retries.ts';
import { attemptSimulated } from './simulator.ts';

/** How a delivery leaves this worker. */
export type Ending = { kind: 'settled' } | { kind: 'release'; delayMs: number };
export type Deliver = (delivery: Delivery, cutoff: Cutoff) => Promise<Ending>;

export type DeliverOptions = AttemptOptions & {
  db: Queryable & Pick<Database, 'transaction'>;
  log: Logger;
  settling: Pick<SettleStore, 'settle'>;
  /** Called when the attempt has ended, before its outcome is settled: its provider may start another one. */
  attempted: (delivery: Delivery) => void;
  /** Returns whether this worker leases the delivery. Outcomes of other deliveries must not be settled. */
  isLeased: (delivery: Delivery) => boolean;
  /** False defers live mail: this host has no name for EHLO. */
  hasHostName: boolean;
  /** How log lines of attempts show the recipient. */
  logRecipients: LogRecipients;
  earlyRetries: Pick<EarlyRetries, 'note' | 'retryMs'>;
  /** Milliseconds to wait after each failed attempt (core/retry.ts). */
  retryWaitsMs: readonly number[];
  onAttempt: (attempt: {
    status: string;
    provider: string;
    /** Code of the decisive reply; null: there was none. */
    code: number | null;
    durationMs: number;
    firstAfterMs: number | null;
  }) => void;
};

export function createDeliver(options: DeliverOptions): Deliver {
  return async (delivery, cutoff) => {
    const early = await endWithoutAttempt(delivery, options);
    const attempted =
      early === null
        ? await attemptDelivery(delivery, cutoff, options)
        : unattempted(delivery, early);
    if (attempted.kind === 'release') return attempted;
    options.attempted(delivery);
    if (attempted.kind === 'deferred') return deferUncounted(delivery, attempted, options);
    return isUplinkAtFault(attempted, options)
      ? deferByUplink(delivery, attempted, options)
      : settle(delivery, attempted, options);
  };
}

/** Returns the outcome of a delivery that must not be attempted, because facts changed since it was accepted. */
async function endWithoutAttempt(
  delivery: Delivery,
  options: DeliverOptions,
): Promise<Outcome | null> {
  const { db, world, hasHostName } = options;
  const nowMs = world.monotonicMs();
  if (nowMs >= delivery.expiresAtMs) return expired(delivery, options);
  if (delivery.domainDeleted) return DOMAIN_REMOVED;
  if (delivery.suppressed) return SUPPRESSED;
  if (delivery.domainUnverified) return DOMAIN_UNVERIFIED;
  if (delivery.contentMissing === true) return endWithoutContent(delivery, options);
  if (!hasHostName && delivery.message.environment === 'live') return NO_HOST_NAME;
  if (nowMs - delivery.leasedSinceMs < RECHECK_AFTER_MS) return null;
  const { domainDeleted, suppressed } = await stoppedNow(db, {
    ...delivery.message,
    address: delivery.address,
  });
  if (domainDeleted) return DOMAIN_REMOVED;
  return suppressed ? SUPPRESSED : null;
}

function endWithoutContent({ message }: Delivery, { log }: DeliverOptions): Outcome {
  log.error({ email_id: message.id }, 'an email fails because its content is not in the database');
  return CONTENT_MISSING;
}

async function expired(
  { message, position, attempts, provider, domainUnverified }: Delivery,
  { db, connections, blocks }: DeliverOptions,
): Promise<Outcome> {
  if (domainUnverified) return EXPIRED_UNVERIFIED;
  if (connections.uplink.isDown) return EXPIRED_WITHOUT_UPLINK;
  const block = blocks.blockOf({ provider, message });
  if (block !== null) return expiredByBlock(block);
  const { projectId, id: emailId } = message;
  const category = (await findLastReason(db, { projectId, emailId, position }))?.category;
  // It may have waited for the end of a block that this worker has not read yet.
  if (category === 'reputation') return EXPIRED_REFUSED;
  if (attempts === 0) return expiredUntried(connections.outageReasonOf(provider));
  if (category === 'quota') return EXPIRED_MAILBOX_FULL;
  if (category === 'authentication' && (await isDomainUnusable(db, message))) {
    return EXPIRED_UNSIGNED;
  }
  return category === 'tls' ? EXPIRED_WITHOUT_TLS : EXPIRED;
}

function unattempted(delivery: Delivery, outcome: Outcome): Extract<Attempted, { kind: 'ended' }> {
  // A deferral without a connection counts as an attempt, so that the waits grow.
  const isDeferred = outcome.status === 'deferred';
  const attempt = isDeferred
    ? { number: delivery.attempts + 1, phase: 'connect', transcript: [] }
    : null;
  return { kind: 'ended', outcome, attempt, startedMs: null };
}

async function attemptDelivery(
  delivery: Delivery,
  cutoff: Cutoff,
  options: DeliverOptions,
): Promise<Attempted> {
  const isTest = delivery.message.environment === 'test';
  if (isTest) delivery.slot?.greeted();
  try {
    return await (isTest
      ? attemptSimulated(delivery, options)
      : attemptLive(delivery, cutoff, options));
  } catch (error) {
    if (error instanceof SecretUnopenable) return waitForKey(delivery, options);
    if (!(error instanceof Unsignable)) throw error;
    options.log.error({ err: error, email_id: delivery.message.id }, 'an email cannot be signed');
    return { kind: 'ended', outcome: UNSIGNABLE, attempt: null, startedMs: null };
  }
}

/** Defers a message whose key cannot be opened. A later attempt may find the key or the row restored. */
async function waitForKey(
  delivery: Delivery,
  { db, log }: DeliverOptions,
): Promise<Extract<Attempted, { kind: 'ended' }>> {
  const { projectId, domainId, from } = delivery.message;
  await noteUnusable({ db, log }, { kind: 'domain', ownerId: projectId, id: domainId });
  return unattempted(delivery, unsignable(domainOf(from.address)));
}

/** Defers a recipient briefly, because no server answered while the uplink was down. */
function deferByUplink(
  delivery: Delivery,
  { outcome }: Ended,
  options: DeliverOptions,
): Promise<Ending> {
  const delayMs = options.earlyRetries.retryMs();
  const isUnanswered = true;
  const deferral = { outcome: deferredByUplink(outcome), delayMs, isUnanswered };
  return deferUncounted(delivery, deferral, options);
}

/** Defers a recipient without counting an attempt. Its event is stored once, even if this repeats. */
async function deferUncounted(
  delivery: Delivery,
  { outcome, delayMs, isUnanswered = false }: Deferral,
  options: DeliverOptions,
): Promise<Ending> {
  const { message, position } = delivery;
  const which = { projectId: message.projectId, emailId: message.id, position };
  const retryMs = Math.min(delayMs, delivery.expiresAtMs - options.world.monotonicMs());
  const last = await findLastReason(options.db, which);
  if (last?.advice === outcome.reason?.advice) {
    return { kind: 'release', delayMs: Math.max(1, retryMs) };
  }
  const uncounted = { kind: 'ended', attempt: null, startedMs: null } as const;
  return settle(delivery, { ...uncounted, outcome, isUnanswered, retryMs: delayMs }, options);
}

type Deferral = { outcome: Outcome; delayMs: number; isUnanswered?: boolean };

function isUplinkAtFault(
  { isUnanswered, startedMs }: Ended,
  { connections }: DeliverOptions,
): boolean {
  if (isUnanswered !== true || startedMs === null) return false;
  return connections.uplink.wasDownSince(startedMs);
}

type Ended = Extract<Attempted, { kind: 'ended' }>;

async function settle(delivery: Delivery, ended: Ended, options: DeliverOptions): Promise<Ending> {
  const { attempt, startedMs, thenComplains = false, retryMs } = ended;
  const outcome = await afterDoubt(delivery, ended.outcome, options);
  const { world, log, settling, retryWaitsMs } = options;
  if (!options.isLeased(delivery)) {
    throw new Error(
      'an outcome must not be settled for a delivery that this worker does not lease',
    );
  }
  const wait = { retryWaitsMs, ...(retryMs !== undefined && { retryMs }) };
  const settlement = settlementOf(delivery, outcome, { attempt, world, ...wait });
  const decidedMs = world.monotonicMs();
  const counts = await settling.settle(settlement);
  if (ended.isUnanswered === true || retryMs !== undefined)
    options.earlyRetries.note([delivery], decidedMs);
  if (counts === true && outcome.mailboxFull === true) await countFullMailbox(delivery, options);
  const durationMs = startedMs === null ? null : world.monotonicMs() - startedMs;
  if (startedMs !== null && durationMs !== null) {
    const isFirst = delivery.attempts === 0;
    options.onAttempt({
      status: outcome.status,
      provider: delivery.provider,
      code: outcome.smtp?.code ?? null,
      durationMs,
      firstAfterMs: isFirst ? startedMs - delivery.leasedSinceMs : null,
    });
  }
  logAttempt(delivery, outcome, { log, durationMs, recipients: options.logRecipients });
  if (thenComplains) {
    await settling.settle(settlementOf(delivery, COMPLAINED, { attempt: null, world, late: true }));
  }
  return { kind: 'settled' };
}

/** Logs an attempt, or an end without one. Unknown facts are left out. */
function logAttempt(
  { message, position, attempts, provider, address }: Delivery,
  { status, smtp, reason }: Outcome,
  {
    log,
    durationMs,
    recipients,
  }: { log: Logger; durationMs: number | null; recipients: LogRecipients },
): void {
  if (!log.isLevelEnabled('info')) return;
  const facts = {
    email_id: message.id,
    project_id: message.projectId,
    environment: message.environment,
    position,
    attempt: attempts + 1,
    status,
    provider,
    code: smtp?.code,
    enhanced_code: smtp?.enhanced_code,
    category: reason?.category,
    blame: reason?.blame,
    mx: smtp?.mx,
    ip: smtp?.ip,
    duration_ms: durationMs === null ? null : Math.round(durationMs),
    ...loggedRecipient(recipients, { address, reply: smtp?.message ?? null }),
  };
  log.info(withoutNulls(facts), 'attempt');
}

function withoutNulls(facts: object): object {
  return Object.fromEntries(Object.entries(facts).filter(([, fact]) => fact !== null));
}

/**
 * Returns the final outcome after DOUBTS_MAX attempts in doubt, else the outcome itself. Never throws: the message
 * may have been sent, and an error would cause another attempt.
 */
async function afterDoubt(
  { message, position, attempts }: Delivery,
  outcome: Outcome,
  { db, log }: DeliverOptions,
): Promise<Outcome> {
  if (outcome.inDoubt !== true || attempts + 1 < DOUBTS_MAX) return outcome;
  const { projectId, environment, id: emailId } = message;
  const which = { projectId, environment, emailId, position };
  const doubts = await countInDoubt(db, which).catch((error: unknown) => {
    log.warn(
      { email_id: emailId, err: error },
      'attempts in doubt were not counted; the email is retried',
    );
    return 0;
  });
  return doubts + 1 < DOUBTS_MAX ? outcome : givenUpInDoubt(outcome);
}

/** Counts a full mailbox. The outcome is already settled, so an error is only logged. */
async function countFullMailbox(delivery: Delivery, { db, log }: DeliverOptions): Promise<void> {
  const { projectId, environment, id: emailId } = delivery.message;
  const failure = { projectId, environment, emailId, address: delivery.address };
  await noteQuotaFailure(db, failure).catch((error: unknown) => {
    log.warn({ email_id: emailId, err: error }, 'a full mailbox was not counted');
  });
}
