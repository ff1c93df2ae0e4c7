/**
 * Settles the outcome of a delivery: has the settlement stored, notes early retries and full mailboxes, and logs and
 * reports the attempt.
 *
 * Guarantee: an outcome is settled only while this worker leases the delivery. If counting fails, the settler only logs
 * it: throwing would repeat the attempt, and so the message.
 */
import type { Logger } from 'pino';
import { mailRetryDelayMs, simulatedRetryDelayMs } from '../../core/retry.ts';
import type { StoredStatus } from '../../core/statuses.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { countInDoubt } from '../../emails/email-store.ts';
import type { World } from '../../lib/world.ts';
import { loggedRecipient, type LogRecipients } from '../../mail/logged-recipient.ts';
import type { SettleStore } from '../../settle/settle-store.ts';
import { newSettlement, type Settlement } from '../../settle/settlement.ts';
import { countFullMailbox } from '../../suppressions/suppression-store.ts';
import type { EarlyRetries } from '../queue/early-retries.ts';
import type { Delivery } from '../memory/delivery.ts';
import { COMPLAINED, DOUBTS_MAX, givenUpInDoubt } from './outcomes-without-reply.ts';
import type { ConcludedAttempt, Outcome } from './outcome.ts';

/** An attempt that has ended, for metrics. Its outcome is stored, kept for later, or fenced off. */
export type SettledAttempt = {
  status: StoredStatus;
  provider: string;
  /** Code of the decisive reply, or null when there was none. */
  code: number | null;
  durationMs: number;
  /** Milliseconds from the lease to the first attempt; null for later attempts. */
  firstAfterMs: number | null;
};

export type OutcomeSettlerOptions = {
  db: Queryable & Pick<Database, 'transaction'>;
  world: World;
  log: Logger;
  settling: Pick<SettleStore, 'settle'>;
  /** Returns whether this worker leases the delivery. Outcomes of other deliveries must not be settled. */
  isLeased: (delivery: Delivery) => boolean;
  earlyRetries: Pick<EarlyRetries, 'noteDelayed'>;
  /** Milliseconds to wait after each failed attempt (core/retry.ts). */
  retryWaitsMs: readonly number[];
  /** How log lines of attempts show the recipient. */
  logRecipients: LogRecipients;
  onAttemptSettled: (attempt: SettledAttempt) => void;
};

export class OutcomeSettler {
  readonly #options: OutcomeSettlerOptions;

  constructor(options: OutcomeSettlerOptions) {
    this.#options = options;
  }

  async settle(delivery: Delivery, concluded: ConcludedAttempt): Promise<void> {
    const outcome = await this.#giveUpAfterDoubts(delivery, concluded.outcome);
    this.#assertLeased(delivery);
    const isMailboxCounted = await this.#store(delivery, outcome, concluded);
    if (isMailboxCounted) await this.#countFullMailbox(delivery);
    const durationMs = this.#report(delivery, outcome, concluded);
    this.#logAttempt(delivery, outcome, durationMs);
    if (concluded.thenComplains === true) await this.#settleComplaint(delivery);
  }

  #assertLeased(delivery: Delivery): void {
    if (this.#options.isLeased(delivery)) return;
    throw new Error(
      'an outcome must not be settled for a delivery that this worker does not lease',
    );
  }

  /**
   * Returns the final outcome after DOUBTS_MAX attempts in doubt, else the outcome itself. Never rejects: the message
   * may have been sent, and an error would cause another attempt.
   */
  async #giveUpAfterDoubts(
    { message, position, attempts }: Delivery,
    outcome: Outcome,
  ): Promise<Outcome> {
    if (outcome.inDoubt !== true || attempts + 1 < DOUBTS_MAX) return outcome;
    const { db, log } = this.#options;
    const { projectId, environment, id: emailId } = message;
    const recipient = { projectId, environment, emailId, position };
    const doubts = await countInDoubt(db, recipient).catch((error: unknown) => {
      log.warn(
        { email_id: emailId, err: error },
        'attempts in doubt were not counted; the email is retried',
      );
      return 0;
    });
    return doubts + 1 < DOUBTS_MAX ? outcome : givenUpInDoubt(outcome);
  }

  /** Stores the settlement. Returns whether it ended the delivery because of a full mailbox. */
  async #store(
    delivery: Delivery,
    outcome: Outcome,
    { attempt, retryMs, isUnanswered }: ConcludedAttempt,
  ): Promise<boolean> {
    const { world, settling, earlyRetries, retryWaitsMs } = this.#options;
    const settlement = settlementOf(delivery, outcome, { attempt, world, retryWaitsMs, retryMs });
    const decidedMs = world.monotonicMs();
    const settled = await settling.settle(settlement);
    if (isUnanswered === true || retryMs !== undefined)
      earlyRetries.noteDelayed([delivery], decidedMs);
    return settled === 'counted' && outcome.mailboxFull === true;
  }

  async #countFullMailbox({ message, address }: Delivery): Promise<void> {
    const { projectId, environment, id: emailId } = message;
    await countFullMailbox(this.#options, { projectId, environment, emailId, address });
  }

  /** Reports the attempt for metrics. Returns its duration; null when nothing was attempted. */
  #report(delivery: Delivery, outcome: Outcome, { startedMs }: ConcludedAttempt): number | null {
    if (startedMs === null) return null;
    const durationMs = this.#options.world.monotonicMs() - startedMs;
    const isFirst = delivery.attempts === 0;
    this.#options.onAttemptSettled({
      status: outcome.status,
      provider: delivery.provider,
      code: outcome.smtp?.code ?? null,
      durationMs,
      firstAfterMs: isFirst ? startedMs - delivery.leasedSinceMs : null,
    });
    return durationMs;
  }

  /** Logs an attempt, or an end without one. Fields without a value are left out. */
  #logAttempt(
    { message, position, attempts, provider, address }: Delivery,
    { status, smtp, reason }: Outcome,
    durationMs: number | null,
  ): void {
    const { log, logRecipients } = this.#options;
    if (!log.isLevelEnabled('info')) return;
    const logFields = {
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
      ...loggedRecipient(logRecipients, { address, reply: smtp?.message ?? null }),
    };
    log.info(withoutNulls(logFields), 'attempt');
  }

  async #settleComplaint(delivery: Delivery): Promise<void> {
    const { world, settling } = this.#options;
    await settling.settle(settlementOf(delivery, COMPLAINED, { attempt: null, world, late: true }));
  }
}

function withoutNulls(logFields: object): object {
  return Object.fromEntries(Object.entries(logFields).filter(([, value]) => value !== null));
}

type SettlementOptions = {
  attempt: object | null;
  world: Pick<World, 'newId' | 'random'>;
  late?: boolean;
  /** Milliseconds to wait after each attempt; core/retry.ts contains the defaults. */
  retryWaitsMs?: readonly number[];
  /** Milliseconds that replace the scheduled wait. */
  retryMs?: number | undefined;
};

type SettledDelivery = Pick<
  Delivery,
  'message' | 'position' | 'claim' | 'attempts' | 'provider' | 'address'
>;

export function settlementOf(
  delivery: SettledDelivery,
  outcome: Outcome,
  options: SettlementOptions,
): Settlement {
  const { message, position, address, claim, provider } = delivery;
  const { attempt, world, late = false } = options;
  const { projectId, environment } = message;
  const recipient = { projectId, environment, position, address, email: message };
  const retryMs = outcome.status === 'deferred' ? retryDelayMs(delivery, outcome, options) : null;
  return newSettlement(recipient, outcome, world, { claim, provider, attempt, retryMs, late });
}

function retryDelayMs(
  { message, attempts }: SettledDelivery,
  { retrySlowly = false }: Outcome,
  { world, retryWaitsMs, retryMs }: SettlementOptions,
): number {
  if (retryMs !== undefined) return retryMs;
  if (message.environment === 'test') return simulatedRetryDelayMs(attempts + 1, world.random());
  return mailRetryDelayMs(attempts + 1, world.random(), {
    ...(retryWaitsMs && { waitsMs: retryWaitsMs }),
    slowly: retrySlowly,
  });
}
