/**
 * Delivers to one recipient: checks that the email may still be sent, builds the bytes, makes the
 * attempt, and settles the outcome.
 *
 * In this order: endWithoutAttempt; deliverLive (attemptLive builds the bytes and attempts, outcome.ts says what the
 * result means: `outcomeOf`); settle (`settlementOf` of outcome.ts adds the next attempt, `newSettlement` of
 * store/settle.ts the event).
 *
 * Test mail takes the same steps; only its attempt is answered by the simulator, which cannot reach a
 * network.
 */
import type { Logger } from 'pino';
import type { Scope } from '../core/scope.ts';
import type { World } from '../core/world.ts';
import { needsSmtpUtf8 } from '../mail/address.ts';
import { Unsignable } from '../mail/dkim.ts';
import { makeReturnPath } from '../mail/return-path.ts';
import { domainOf } from '../mail/address.ts';
import type { Route } from '../net/dns/mx.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { lastCategory } from '../store/emails.ts';
import { stoppedNow } from '../store/queue.ts';
import type { Settled, Settlement } from '../store/settle.ts';
import { attemptDelivery, type AttemptResult, type Via } from './attempt.ts';
import type { Connections, Postponed } from './connections.ts';
import type { Cutoff, Delivery } from './delivery.ts';
import { assertAsSigned, type MessageBuilder, type SignedMessage } from './message.ts';
import {
  COMPLAINED,
  DOMAIN_REMOVED,
  DOMAIN_UNVERIFIED,
  EXPIRED,
  EXPIRED_MAILBOX_FULL,
  EXPIRED_UNVERIFIED,
  EXPIRED_WITHOUT_TLS,
  expiredUntried,
  NO_HOST_NAME,
  type Outcome,
  outcomeOf,
  settlementOf,
  SUPPRESSED,
  UNSIGNABLE,
} from './outcome.ts';
import { simulate, SIMULATOR_HOST } from './simulator.ts';
import type { TlsRules, TlsWanted } from './tls-rules.ts';

export type Delivered = { kind: 'settled' } | { kind: 'release'; delayMs: number };
export type Deliver = (delivery: Delivery, cutoff: Cutoff) => Promise<Delivered>;

export type DeliverOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  lease: { holder(): string | null; isFresh(): boolean };
  builder: Pick<MessageBuilder, 'build'>;
  connections: Connections;
  route: (destination: string) => Promise<Route>;
  tls: TlsRules;
  /** Whether this worker holds the delivery; an outcome of any other must not be settled. */
  holds: (delivery: Delivery) => boolean;
  /** With a relay a 250 means `sent`, not `delivered`. */
  viaRelay: boolean;
  /** Whether this host has a name for EHLO; else live mail is deferred. */
  hasHostName: boolean;
  /** The minimum, whatever the email asks for: a relay's password needs a verified server. */
  leastTls: 'opportunistic' | 'enforced';
  settle: (settlement: Settlement) => Promise<Settled>;
  /** Called when an email that ended at a full mailbox is settled. */
  onMailboxFull: (failure: Scope & { emailId: string; address: string }) => Promise<unknown>;
  /** Whether outcomes are being written to the database. */
  settling: { readonly isStuck: boolean; recovers(withinMs: number): Promise<boolean> };
  /** Waits after failed attempts (core/retry.ts). */
  retryWaitsMs: readonly number[];
  /** Signs return paths: 32 bytes. */
  returnPathSecret: () => Buffer;
  /** For metrics. */
  onAttempt: (attempt: { status: string; durationMs: number; firstAfterMs: number | null }) => void;
};

/**
 * While outcomes are not written, no final dot is written, because a crash would repeat the message.
 * An attempt waits this long for the database; after that its lease has expired anyway.
 */
const OUTCOMES_MOVE_WITHIN_MS = 10_000;

/** After waiting longer than this in memory, suppression and sending domain are checked again. */
const RECHECK_AFTER_MS = 2_000;

export function createDeliver(options: DeliverOptions): Deliver {
  return async (delivery, cutoff) => {
    const early = await endWithoutAttempt(delivery, options);
    if (early) {
      // A deferral without a connection counts as an attempt, so that the waits grow as usual.
      const isDeferred = early.status === 'deferred';
      const attempt = isDeferred
        ? { number: delivery.attempts + 1, phase: 'connect', transcript: [] }
        : null;
      return settle(delivery, early, { options, attempt });
    }
    const isTest = delivery.message.environment === 'test';
    const delivered = isTest
      ? deliverSimulated(delivery, options)
      : deliverLive(delivery, cutoff, options);
    return delivered.catch((error: unknown) => {
      if (!(error instanceof Unsignable)) throw error;
      options.log.error({ err: error, emailId: delivery.message.id }, 'an email cannot be signed');
      return settle(delivery, UNSIGNABLE, { options, attempt: null });
    });
  };
}

/** Expiry, the sending domain and the suppression list may have changed since the email was accepted. */
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
  if (!hasHostName && delivery.message.environment === 'live') return NO_HOST_NAME;
  if (nowMs - delivery.heldSinceMs < RECHECK_AFTER_MS) return null;
  const { domainDeleted, suppressed } = await stoppedNow(db, {
    ...delivery.message,
    address: delivery.address,
  });
  if (domainDeleted) return DOMAIN_REMOVED;
  return suppressed ? SUPPRESSED : null;
}

async function expired(
  { message, position, attempts, provider, domainUnverified }: Delivery,
  { db, connections }: DeliverOptions,
): Promise<Outcome> {
  if (domainUnverified) return EXPIRED_UNVERIFIED;
  if (attempts === 0) return expiredUntried(connections.outageReasonOf(provider));
  const { projectId, id: emailId } = message;
  const category = await lastCategory(db, { projectId, emailId, position });
  if (category === 'quota') return EXPIRED_MAILBOX_FULL;
  return category === 'tls' ? EXPIRED_WITHOUT_TLS : EXPIRED;
}

/** The state of an attempt in progress. */
type Progress = {
  message?: SignedMessage;
  route?: Route;
  session: { via: Via; source: string };
  hasWrittenDot: boolean;
};

const NO_SESSION: Progress['session'] = {
  via: { mx: null, ip: null, tls: null, tls_policy: 'none' },
  source: '',
};

const IN_DOUBT = {
  in_doubt: 'The service was stopped before the server had answered the final dot.',
  broken: 'An error of the service hid what the server answered to the final dot.',
} as const;

/** The final dot was written and the reply is not known. */
function inDoubt({ session }: Progress, why: keyof typeof IN_DOUBT): AttemptResult {
  const message = IN_DOUBT[why];
  return {
    kind: 'failed',
    phase: 'data',
    cause: 'closed',
    message,
    inDoubt: true,
    ...session,
    transcript: [`(${message})`],
  };
}

async function attemptLive(
  delivery: Delivery,
  options: DeliverOptions,
  { progress, cutoff }: { progress: Progress; cutoff: Cutoff },
): Promise<AttemptResult | Postponed> {
  const { world, builder, connections, lease, leastTls, settling } = options;
  const startedMs = world.monotonicMs();
  const { destination } = delivery;
  const [message, route, sts] = await Promise.all([
    builder.build(delivery.message, delivery),
    options.route(destination),
    options.tls.policyOf(destination),
  ]);
  Object.assign(progress, { message, route });
  const demand = leastTls === 'enforced' ? 'enforced' : (delivery.message.tls ?? 'opportunistic');
  const attemptUnder = async (wanted: TlsWanted) => {
    const tls = await options.tls.forAttempt(route, wanted);
    assertAsSigned(message);
    return attemptDelivery(route, connections, {
      envelopeFrom: returnPathOf(delivery, options),
      recipient: delivery.address,
      message: message.parts,
      smtpUtf8: message.smtpUtf8 || needsSmtpUtf8(delivery.address),
      is8Bit: message.is8Bit,
      ...tls,
      mayProceed: (step) => {
        const isOurs = (): boolean =>
          !cutoff.isClosed && lease.isFresh() && lease.holder() === delivery.holder;
        const decide = (): boolean => {
          const may = isOurs();
          progress.hasWrittenDot = may && step === 'data';
          return may;
        };
        // A worker that wakes from a freeze gives up at once: its lease is checked before waiting.
        if (!settling.isStuck || !isOurs()) return decide();
        return settling
          .recovers(OUTCOMES_MOVE_WITHIN_MS)
          .then((recovered) => recovered && decide());
      },
      onSession: (session) => (progress.session = session),
      postponableMs: delivery.expiresAtMs - startedMs,
    });
  };
  const wanted = { destination, demand, sts } as const;
  const result = await attemptUnder(wanted);
  if (result.kind !== 'failed' || result.cause !== 'tls') return result;
  const newer = await options.tls.newerPolicy(wanted);
  return newer === null ? result : attemptUnder({ ...wanted, ...newer });
}

async function deliverLive(
  delivery: Delivery,
  cutoff: Cutoff,
  options: DeliverOptions,
): Promise<Delivered> {
  const { world, connections, log } = options;
  const startedMs = world.monotonicMs();
  const startedAt = new Date(world.now());
  const progress: Progress = { session: NO_SESSION, hasWrittenDot: false };
  const attempting = attemptLive(delivery, options, { progress, cutoff });
  const ended = await cutoff
    .unlessCut(attempting, () => progress.hasWrittenDot)
    .catch((error: unknown) => {
      if (!progress.hasWrittenDot) throw error;
      // A bug. It counts as an attempt, so that it is repeated by the retry schedule and ends.
      log.error(
        { err: error, emailId: delivery.message.id },
        'an attempt ended in an error in doubt',
      );
      return 'broken' as const;
    });
  const { message, route } = progress;
  // The worker stops, and nothing was sent.
  if (ended === 'unsent' || !message || !route) return { kind: 'release', delayMs: 0 };
  const result = typeof ended === 'string' ? inDoubt(progress, ended) : ended;
  if (result.kind === 'postponed') return { kind: 'release', delayMs: Math.ceil(result.delayMs) };
  // The lease was not fresh and nothing was sent: the current holder of the recipient tries again.
  if (result.kind === 'failed' && result.cause === 'withheld') {
    return { kind: 'release', delayMs: 0 };
  }
  const outcome = outcomeOf(result, options.viaRelay ? 'sent' : 'delivered');
  if (route.kind === 'hosts' && result.kind !== 'unroutable') {
    adjustWindow(connections, route.provider, { source: result.source, outcome });
  }
  const attempt = attemptRecord(delivery, result, {
    message,
    startedAt,
    durationMs: world.monotonicMs() - startedMs,
  });
  return settle(delivery, outcome, { options, attempt, startedMs });
}

function adjustWindow(
  connections: Connections,
  provider: string,
  { source, outcome }: { source: string; outcome: Outcome },
): void {
  if (outcome.slowDown) connections.shrink(provider, source, outcome.smtp?.message ?? '');
  else if (outcome.status === 'delivered' || outcome.status === 'sent') {
    connections.grow(provider, source);
  }
}

/** RFC 5321 §4.4: bounces come to this address; its signed token names the recipient. */
function returnPathOf(delivery: Delivery, { returnPathSecret }: DeliverOptions): string {
  return makeReturnPath({
    emailId: delivery.message.id,
    position: delivery.position,
    domain: `send.${domainOf(delivery.message.from.address)}`,
    secret: returnPathSecret(),
  });
}

async function deliverSimulated(delivery: Delivery, options: DeliverOptions): Promise<Delivered> {
  const { world, builder } = options;
  const startedMs = world.monotonicMs();
  const startedAt = new Date(world.now());
  // The message is built and signed as for a live key, so that the same errors occur.
  const message = await builder.build(delivery.message, delivery);
  const simulated = simulate(delivery.address, delivery.attempts, delivery.claim);
  if (simulated.kind === 'wait') return { kind: 'release', delayMs: simulated.delayMs };
  if (simulated.kind === 'suppressed')
    return settle(delivery, SUPPRESSED, { options, attempt: null });
  const { phase, reply } = simulated;
  const result: AttemptResult = {
    kind: 'replied',
    phase,
    reply,
    via: { mx: SIMULATOR_HOST, ip: null, tls: null, tls_policy: 'none' },
    source: '',
    transcript: [`S: ${reply.code} ${reply.enhancedCode ?? ''} ${reply.message}`],
  };
  const outcome = outcomeOf(result, 'delivered');
  const durationMs = world.monotonicMs() - startedMs;
  const attempt = attemptRecord(delivery, result, { message, startedAt, durationMs });
  const settled = await settle(delivery, outcome, { options, attempt, startedMs });
  if (simulated.thenComplains) {
    await options.settle(settlementOf(delivery, COMPLAINED, { attempt: null, world, late: true }));
  }
  return settled;
}

/** The attempt as the timeline stores it. */
function attemptRecord(
  delivery: Delivery,
  result: AttemptResult,
  facts: { message: SignedMessage; startedAt: Date; durationMs: number },
): object {
  const common = {
    number: delivery.attempts + 1,
    started_at: facts.startedAt.toISOString(),
    duration_ms: Math.round(facts.durationMs),
    message_bytes: facts.message.sizeBytes,
    message_sha256: facts.message.sha256,
  };
  if (result.kind === 'unroutable') return { ...common, phase: 'dns', transcript: [] };
  return {
    ...common,
    phase: result.phase,
    in_doubt: result.kind === 'failed' && result.inDoubt,
    ...result.via,
    transcript: result.transcript,
  };
}

async function settle(
  delivery: Delivery,
  outcome: Outcome,
  context: { options: DeliverOptions; attempt: object | null; startedMs?: number },
): Promise<Delivered> {
  const { options, attempt, startedMs } = context;
  const { world, log } = options;
  const { retryWaitsMs } = options;
  if (!options.holds(delivery)) {
    throw new Error('an outcome is to be settled for a delivery that this worker does not hold');
  }
  const settlement = settlementOf(delivery, outcome, { attempt, world, retryWaitsMs });
  const counts = await options.settle(settlement);
  if (counts === true && outcome.mailboxFull === true) await countFullMailbox(delivery, options);
  if (startedMs !== undefined) {
    const isFirst = delivery.attempts === 0;
    options.onAttempt({
      status: outcome.status,
      durationMs: world.monotonicMs() - startedMs,
      firstAfterMs: isFirst ? startedMs - delivery.heldSinceMs : null,
    });
  }
  log.info(
    {
      emailId: delivery.message.id,
      position: delivery.position,
      attempt: delivery.attempts + 1,
      status: outcome.status,
      code: outcome.smtp?.code,
      mx: outcome.smtp?.mx,
    },
    'attempt',
  );
  return { kind: 'settled' };
}

/** The outcome is settled already: a failure to count it is logged and changes nothing. */
async function countFullMailbox(
  delivery: Delivery,
  { onMailboxFull, log }: DeliverOptions,
): Promise<void> {
  const { projectId, environment, id: emailId } = delivery.message;
  const failure = { projectId, environment, emailId, address: delivery.address };
  await onMailboxFull(failure).catch((error: unknown) => {
    log.warn({ emailId, err: error }, 'a full mailbox was not counted');
  });
}
