/**
 * Permission to send one message, requested before DATA and before the final dot.
 *
 * It is granted only while this worker leases the delivery under a fresh lease, outcomes can be stored, the address is
 * not suppressed, its sending domain is not removed, and no stop has begun. The permission remembers whether the dot
 * of the current transaction was granted: then the message may have been delivered. A later transaction resets it,
 * because it begins only if nothing was sent before.
 */
import type { Logger } from 'pino';
import type { Queryable } from '../../database/database.ts';
import type { World } from '../../lib/world.ts';
import type { Transaction } from '../../net/smtp/client.ts';
import type { SettleHealth } from '../../settle/settle-health.ts';
import type { Delivery } from '../memory/delivery.ts';
import { readStopReasons } from '../queue/queue-store.ts';
import type { Cutoff } from './cutoff.ts';

export type SendPermissionOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs'>;
  log: Logger;
  lease: { leaseId(): string | null; isFresh(): boolean };
  settling: { health: Pick<SettleHealth, 'isStalled' | 'waitForRecovery'> };
};

type Step = Parameters<Transaction['mayProceed']>[0];

/** Milliseconds after which suppression and removal of the sending domain are checked again. */
export const RECHECK_AFTER_MS = 2_000;
/**
 * Limit on the wait for the database before the final dot, because a crash before the outcome is stored repeats the
 * message. After this time the lease has expired anyway.
 */
const OUTCOMES_STORED_WITHIN_MS = 10_000;

export class SendPermission {
  readonly #delivery: Delivery;
  readonly #cutoff: Cutoff;
  readonly #options: SendPermissionOptions;
  readonly #startedMs: number;
  #hasGrantedDot = false;

  constructor(delivery: Delivery, cutoff: Cutoff, options: SendPermissionOptions) {
    this.#delivery = delivery;
    this.#cutoff = cutoff;
    this.#options = options;
    this.#startedMs = options.world.monotonicMs();
  }

  /** True when the final dot may have been sent. */
  get hasGrantedDot(): boolean {
    return this.#hasGrantedDot;
  }

  /** Grants or refuses a step, without a promise unless the database must be awaited. */
  request(step: Step): boolean | Promise<boolean> {
    // Checked before waiting: after a freeze the lease has expired, and the attempt ends at once.
    if (!this.#mayStillSend()) return this.#record(step, false);
    const { isStalled } = this.#options.settling.health;
    const needsRecheck = step === 'data' && this.#ageMs() > RECHECK_AFTER_MS;
    if (!isStalled && !needsRecheck) return this.#record(step, true);
    return this.#checkDatabase({ isStalled, needsRecheck }).then((isAllowed) =>
      this.#record(step, isAllowed && this.#mayStillSend()),
    );
  }

  #record(step: Step, isGranted: boolean): boolean {
    this.#hasGrantedDot = isGranted && step === 'data';
    return isGranted;
  }

  #mayStillSend(): boolean {
    const { leaseId, slot } = this.#delivery;
    const { lease } = this.#options;
    const isGivenUp = slot?.signal.aborted === true;
    return !this.#cutoff.hasBegun && !isGivenUp && lease.isFresh() && lease.leaseId() === leaseId;
  }

  #ageMs(): number {
    return this.#options.world.monotonicMs() - this.#startedMs;
  }

  async #checkDatabase(checks: { isStalled: boolean; needsRecheck: boolean }): Promise<boolean> {
    const { health } = this.#options.settling;
    if (checks.isStalled && !(await health.waitForRecovery(OUTCOMES_STORED_WITHIN_MS)))
      return false;
    return !checks.needsRecheck || !(await this.#isStopped());
  }

  /** Returns whether the email must not be sent, or cannot be checked. The next claim settles the reason. */
  async #isStopped(): Promise<boolean> {
    const { db, log } = this.#options;
    const { message, address } = this.#delivery;
    try {
      const { isSuppressed, isDomainDeleted } = await readStopReasons(db, { ...message, address });
      return isSuppressed || isDomainDeleted;
    } catch (error) {
      log.warn(
        { err: error, email_id: message.id },
        'this worker did not send a message, because it could not check recipient and domain',
      );
      return true;
    }
  }
}
