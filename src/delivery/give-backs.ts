/**
 * Gives work back to the queue table: what was not tried, and what may be stored in this worker's
 * name without its knowing. While the database is away it waits, until the worker stops: then it
 * is free when the lease ends.
 */
import type { Logger } from 'pino';
import { type Queryable, whenAvailable } from '../store/postgres/database.ts';
import { GroupCommit } from '../store/postgres/group-commit.ts';
import { type Release, releaseClaims, releaseEmails } from '../store/queue.ts';
import type { ClaimedRecipient } from '../store/queue-claims.ts';
import type { Delivery } from './delivery.ts';

/** Between two tries while the database is away. */
export const AWAY_PAUSE_MS = 1_000;
/** No network keeps a message for longer than TCP tries to deliver it, about 15 minutes. */
const UNKNOWN_FATE_MAX_MS = 10 * 60_000;
/** A rough size: 64 of them always fit a batch. */
const RELEASE_BYTES = 200;

export class GiveBacks {
  readonly #db: Queryable;
  readonly #log: Logger;
  readonly #commits: GroupCommit<Release, undefined>;

  constructor(options: { db: Queryable; log: Logger; isRunning: () => boolean }) {
    this.#db = options.db;
    this.#log = options.log;
    this.#commits = new GroupCommit({
      commit: async (batch) => {
        await whenAvailable(() => releaseClaims(options.db, batch), {
          pauseMs: AWAY_PAUSE_MS,
          mayRetry: options.isRunning,
        });
        return batch.map(() => undefined);
      },
      sizeBytes: () => RELEASE_BYTES,
      mayTryOneByOne: () => true,
    });
  }

  /** Many in one statement: they must not crowd out what is settled. Never rejects. */
  async give(
    deliveries: readonly Delivery[],
    delayMsOf: (delivery: Delivery) => number,
  ): Promise<void> {
    await this.#release(
      deliveries.map((delivery) => ({
        ...delivery,
        emailId: delivery.message.id,
        delayMs: delayMsOf(delivery),
      })),
    );
  }

  /** What was claimed and is too large for the memory that is left. Never rejects. */
  giveUnloaded(claimed: readonly ClaimedRecipient[], holder: string): Promise<void> {
    return this.#release(claimed.map((one) => ({ ...one, holder, delayMs: 0 })));
  }

  async #release(releases: readonly Release[]): Promise<void> {
    const given = releases.map((release) => this.#commits.add(release));
    await Promise.all(given).catch((error: unknown) => {
      this.#log.error({ err: error }, 'work could not be given back');
    });
  }

  /**
   * Gives emails back as soon as they appear under the name of `holder`. Looked for less and less
   * often: a statement may sit in a dead network for minutes.
   */
  releaseLater(emailIds: readonly string[], holder: string): void {
    const lookAfter = (waitMs: number): void => {
      if (waitMs > UNKNOWN_FATE_MAX_MS) return;
      setTimeout(() => {
        releaseEmails(this.#db, emailIds, holder).then(
          () => lookAfter(waitMs * 2),
          () => lookAfter(waitMs),
        );
      }, waitMs).unref();
    };
    lookAfter(AWAY_PAUSE_MS);
  }
}
