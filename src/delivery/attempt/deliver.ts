/**
 * Delivers to one recipient: checks that the email may still be sent, makes the attempt, and settles its outcome. A
 * delivery that was not sent is released.
 *
 * live-attempt.ts and simulator.ts turn an AttemptResult (the end of the SMTP dialogue) into a Disposition: settle,
 * defer or release. `withoutRepeatedDeferral` turns each `defer` into `settle`, or into `release` when its reason is
 * already stored. The dispatcher gets a DeliverResult: settled, or released with a delay.
 *
 * Test mail takes the same steps, except that simulator.ts replies instead of a server. It cannot reach a network.
 */
import { inSpan, isTracing, type OpenSpan, type SpanOptions } from '../../lib/tracing/spans.ts';
import { domainOf } from '../../mail/address.ts';
import { Unsignable } from '../../mail/dkim.ts';
import { findLastReason } from '../../emails/email-store.ts';
import { readStopReasons } from '../queue/queue-store.ts';
import { SecretUnopenable } from '../../secrets/secret-box.ts';
import { isDomainUnusable, markAndLogUnusable } from '../../secrets/unusable-store.ts';
import { attemptLive, type AttemptOptions } from './live-attempt.ts';
import { RECHECK_AFTER_MS } from './send-permission.ts';
import type { Cutoff } from './cutoff.ts';
import { EXPIRED_REFUSED, expiredByBlock } from '../blocks/block-outcomes.ts';
import type { Delivery } from '../memory/delivery.ts';
import {
  CONTENT_MISSING,
  deferredByUplink,
  DOMAIN_REMOVED,
  DOMAIN_UNVERIFIED,
  EXPIRED,
  EXPIRED_MAILBOX_FULL,
  EXPIRED_UNSIGNED,
  EXPIRED_UNVERIFIED,
  EXPIRED_WITHOUT_TLS,
  EXPIRED_WITHOUT_UPLINK,
  expiredUntried,
  NO_HOST_NAME,
  SUPPRESSED,
  UNSIGNABLE,
  unsignable,
} from './outcomes-without-reply.ts';
import type { Disposition, Outcome } from './outcome.ts';
import { OutcomeSettler, type OutcomeSettlerOptions } from './settle-outcome.ts';
import type { EarlyRetries } from '../queue/early-retries.ts';
import { attemptSimulated } from './simulator.ts';

/**
 * `settled`: the outcome is stored, kept for later, or fenced off, and the delivery has left this worker. `release`:
 * nothing was stored, and the delivery is due after the delay.
 */
export type DeliverResult = { kind: 'settled' } | { kind: 'release'; delayMs: number };
export type Deliver = (delivery: Delivery, cutoff: Cutoff) => Promise<DeliverResult>;

export type DeliverOptions = AttemptOptions &
  OutcomeSettlerOptions & {
    /** Called when the attempt has ended, before its outcome is settled: its provider may start another one. */
    onAttemptEnded: (delivery: Delivery) => void;
    /** False defers live mail: this host has no name for EHLO. */
    hasHostName: boolean;
    earlyRetries: Pick<EarlyRetries, 'retryMs'>;
  };

type Settle = Extract<Disposition, { kind: 'settle' }>;
type Defer = Extract<Disposition, { kind: 'defer' }>;

export function createDeliver(options: DeliverOptions): Deliver {
  const settler = new OutcomeSettler(options);
  const deliver = async (
    delivery: Delivery,
    cutoff: Cutoff,
    span: OpenSpan | null,
  ): Promise<DeliverResult> => {
    const earlyOutcome = await outcomeBeforeAttempt(delivery, options);
    const planned =
      earlyOutcome === null
        ? await attemptDelivery(delivery, cutoff, options)
        : settleWithoutConnection(delivery, earlyOutcome);
    if (planned.kind === 'release') return planned;
    options.onAttemptEnded(delivery);
    const disposition = await withoutRepeatedDeferral(
      delivery,
      isUplinkAtFault(planned, options) ? deferByUplink(planned, options) : planned,
      options,
    );
    if (disposition.kind === 'release') return disposition;
    await settler.settle(delivery, disposition);
    traceOutcome(span, disposition);
    return { kind: 'settled' };
  };
  return (delivery, cutoff) =>
    isTracing()
      ? inSpan('deliver', spanOf(delivery), (span) => deliver(delivery, cutoff, span))
      : deliver(delivery, cutoff, null);
}

/** The span of an attempt links to the one that accepted the email, minutes before. */
function spanOf({ message, attempts, provider, address }: Delivery): SpanOptions {
  return {
    kind: 'client',
    link: message.traceparent ?? null,
    attributes: {
      'letterhaus.project.id': message.projectId,
      'letterhaus.environment': message.environment,
      'letterhaus.email.id': message.id,
      'letterhaus.recipient.domain': domainOf(address),
      'letterhaus.provider': provider,
      'letterhaus.attempt': attempts + 1,
    },
  };
}

function traceOutcome(span: OpenSpan | null, { outcome }: Settle): void {
  span?.set({
    'letterhaus.outcome': outcome.status,
    'server.address': outcome.smtp?.mx ?? undefined,
    'smtp.response.status_code': outcome.smtp?.code ?? undefined,
  });
  if (outcome.reason !== null) span?.fail(outcome.reason.category);
}

/** Returns the outcome of a delivery that must not be attempted, because facts changed since the accept; else null. */
async function outcomeBeforeAttempt(
  delivery: Delivery,
  options: DeliverOptions,
): Promise<Outcome | null> {
  const { db, world, hasHostName } = options;
  const nowMs = world.monotonicMs();
  if (nowMs >= delivery.expiresAtMs) return expiredOutcome(delivery, options);
  if (delivery.isDomainDeleted) return DOMAIN_REMOVED;
  if (delivery.isSuppressed) return SUPPRESSED;
  if (delivery.isDomainUnverified) return DOMAIN_UNVERIFIED;
  if (delivery.contentMissing === true) return missingContentOutcome(delivery, options);
  if (!hasHostName && delivery.message.environment === 'live') return NO_HOST_NAME;
  if (nowMs - delivery.leasedSinceMs < RECHECK_AFTER_MS) return null;
  const { isDomainDeleted, isSuppressed } = await readStopReasons(db, {
    ...delivery.message,
    address: delivery.address,
  });
  if (isDomainDeleted) return DOMAIN_REMOVED;
  return isSuppressed ? SUPPRESSED : null;
}

function missingContentOutcome({ message }: Delivery, { log }: DeliverOptions): Outcome {
  log.error(
    { email_id: message.id },
    'an email fails because its content is not in the database or cannot be parsed',
  );
  return CONTENT_MISSING;
}

async function expiredOutcome(
  { message, position, attempts, provider, isDomainUnverified }: Delivery,
  { db, connections, blocks }: DeliverOptions,
): Promise<Outcome> {
  if (isDomainUnverified) return EXPIRED_UNVERIFIED;
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

async function attemptDelivery(
  delivery: Delivery,
  cutoff: Cutoff,
  options: DeliverOptions,
): Promise<Disposition> {
  const isTest = delivery.message.environment === 'test';
  if (isTest) delivery.slot?.markGreeted();
  try {
    return await (isTest
      ? attemptSimulated(delivery, options)
      : attemptLive(delivery, cutoff, options));
  } catch (error) {
    if (error instanceof SecretUnopenable) return deferUntilKeyOpens(delivery, options);
    if (!(error instanceof Unsignable)) throw error;
    options.log.error(
      { err: error, email_id: delivery.message.id },
      'an email cannot be signed, so this worker settles it as failed',
    );
    return { kind: 'settle', outcome: UNSIGNABLE, attempt: null, startedMs: null };
  }
}

/** Returns a disposition without a connection. A deferral counts as an attempt, so that the waits grow. */
function settleWithoutConnection({ attempts }: Delivery, outcome: Outcome): Settle {
  const isDeferred = outcome.status === 'deferred';
  const attempt = isDeferred ? { number: attempts + 1, phase: 'connect', transcript: [] } : null;
  return { kind: 'settle', outcome, attempt, startedMs: null };
}

/** Defers a message whose key cannot be opened. A later attempt may find the key or the row restored. */
async function deferUntilKeyOpens(
  delivery: Delivery,
  { db, log }: DeliverOptions,
): Promise<Settle> {
  const { projectId, domainId, from } = delivery.message;
  await markAndLogUnusable({ db, log }, { kind: 'domain', ownerId: projectId, id: domainId });
  return settleWithoutConnection(delivery, unsignable(domainOf(from.address)));
}

/** Returns whether no server replied because the uplink was down, so that no attempt counts. */
function isUplinkAtFault(
  disposition: Settle | Defer,
  { connections }: DeliverOptions,
): disposition is Settle {
  if (disposition.kind === 'defer') return false;
  const { isUnanswered, startedMs } = disposition;
  if (isUnanswered !== true || startedMs === null) return false;
  return connections.uplink.wasDownSince(startedMs);
}

/** Defers a recipient briefly, because no server replied while the uplink was down. */
function deferByUplink({ outcome }: Settle, { earlyRetries }: DeliverOptions): Defer {
  const delayMs = earlyRetries.retryMs();
  return { kind: 'defer', outcome: deferredByUplink(outcome), delayMs, isUnanswered: true };
}

/**
 * Settles a deferral that counts no attempt, or releases the delivery when this reason is already stored. Its event
 * is therefore stored once, even if the deferral repeats.
 */
async function withoutRepeatedDeferral(
  delivery: Delivery,
  disposition: Settle | Defer,
  { db, world }: DeliverOptions,
): Promise<Exclude<Disposition, Defer>> {
  if (disposition.kind === 'settle') return disposition;
  const { outcome, delayMs, isUnanswered = false } = disposition;
  const { message, position } = delivery;
  const recipient = { projectId: message.projectId, emailId: message.id, position };
  const untilExpiryMs = delivery.expiresAtMs - world.monotonicMs();
  const last = await findLastReason(db, recipient);
  if (last?.advice === outcome.reason?.advice) {
    return { kind: 'release', delayMs: Math.max(1, Math.min(delayMs, untilExpiryMs)) };
  }
  const uncounted = { attempt: null, startedMs: null };
  return { kind: 'settle', ...uncounted, outcome, isUnanswered, retryMs: delayMs };
}
