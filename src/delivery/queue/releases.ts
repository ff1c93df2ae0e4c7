/**
 * Releases claims in the queue table: deliveries that were not tried (Releases), and recipients that
 * this worker holds in the table but not in memory (UnknownClaims). While the database is unavailable
 * a release waits. After a stop it does not: the rows become free when the lease ends.
 */
import type { Logger } from 'pino';
import { type Queryable, whenAvailable } from '../../database/database.ts';
import { GroupCommit } from '../../database/group-commit.ts';
import {
  findUnknownClaims,
  type QueuedEmail,
  type Release,
  releaseClaims,
  releaseEmails,
  type UnknownClaim,
  UNKNOWN_CLAIMS_MAX,
} from './queue-store.ts';
import type { World } from '../../lib/world.ts';
import type { Delivery } from './fair-queue.ts';
import type { PutOff } from './put-off.ts';

/** Between two tries while the database is unavailable. */
export const AWAY_PAUSE_MS = 1_000;
/** TCP gives up a segment after about 15 minutes; waits double, so that the last one ends later than that. */
const UNKNOWN_FATE_MAX_MS = 10 * 60_000;
/** Approximate size: 64 of them always fit a batch. */
const RELEASE_BYTES = 200;
/** What waits for longer is remembered in case that our uplink is down. */
const PUT_OFF_FROM_MS = 1_000;

type ReleasesOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs'>;
  log: Logger;
  putOff: Pick<PutOff, 'note'>;
  isRunning: () => boolean;
};

export class Releases {
  readonly #db: Queryable;
  readonly #options: ReleasesOptions;
  readonly #log: Logger;
  readonly #commits: GroupCommit<Release, undefined>;

  constructor(options: ReleasesOptions) {
    this.#options = options;
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

  /** Batched, so that settling has enough connections. Never rejects. */
  async release(
    deliveries: readonly Delivery[],
    delayMsOf: (delivery: Delivery) => number,
  ): Promise<void> {
    const decidedMs = this.#options.world.monotonicMs();
    const releases = deliveries.map((delivery) => ({
      ...delivery,
      projectId: delivery.message.projectId,
      emailId: delivery.message.id,
      delayMs: delayMsOf(delivery),
    }));
    const given = releases.map((release) => this.#commits.add(release));
    await Promise.all(given).catch((error: unknown) => {
      this.#log.error({ err: error }, 'claims could not be released');
    });
    const later = releases.filter(({ delayMs }) => delayMs >= PUT_OFF_FROM_MS);
    this.#options.putOff.note(later, decidedMs);
  }

  /**
   * Releases emails as soon as they appear under `holder`. Checked at growing intervals, because a
   * statement may be delayed in the network for minutes.
   */
  releaseLater(emails: readonly QueuedEmail[], holder: string): void {
    const lookAfter = (waitMs: number): void => {
      if (waitMs > UNKNOWN_FATE_MAX_MS) return;
      setTimeout(() => {
        releaseEmails(this.#db, emails, holder).then(
          () => lookAfter(waitMs * 2),
          () => lookAfter(waitMs),
        );
      }, waitMs).unref();
    };
    lookAfter(AWAY_PAUSE_MS);
  }
}
type UnknownClaimsOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs'>;
  log: Logger;
  /** Everything that this worker has in memory. */
  known: () => Iterable<Pick<UnknownClaim, 'emailId' | 'position'>>;
  /** After this time a statement without an answer was committed or rolled back. */
  fateKnownAfterMs: number;
};

const COMPARE_EVERY_MS = 5 * 60_000;

/**
 * Unknown claims are recipients that this worker holds according to the queue table and does not have in
 * memory: they would never be tried again, and not even expire. They come from a commit whose answer
 * was lost, from an error between the statement and memory, and from a fail-over to a standby that
 * lacks the last commits, where a settled recipient is back in the queue under its old holder.
 *
 * Guarantee: table and memory are compared every 5 minutes, after the database was unavailable or is
 * another server, and when an operator asks for it, and what only the table has is released. The caller
 * claims nothing meanwhile, so a claim that is committed and not in memory has lost its answer. An accept
 * (claim 1) may be committed and its answer still be on the way: such a recipient is released only when
 * it is found twice, farther apart than any answer takes.
 */
export class UnknownClaims {
  readonly #options: UnknownClaimsOptions;
  #compareAtMs: number;
  /** Stored by an accept and not in memory at the last comparison. */
  #suspects: readonly UnknownClaim[] = [];
  #suspectsAtMs = Infinity;

  constructor(options: UnknownClaimsOptions) {
    this.#options = options;
    this.#compareAtMs = options.world.monotonicMs() + COMPARE_EVERY_MS;
  }

  /** After a statement without an answer: compares when its outcome is certain. */
  compareLater(): void {
    const { world, fateKnownAfterMs } = this.#options;
    this.#compareAtMs = world.monotonicMs() + fateKnownAfterMs;
  }

  compareNow(): void {
    this.#compareAtMs = -Infinity;
  }

  /** Compares if it is time to. @throws DatabaseUnavailable */
  async release(holder: string): Promise<void> {
    const { world, fateKnownAfterMs } = this.#options;
    const nowMs = world.monotonicMs();
    if (nowMs >= this.#suspectsAtMs) {
      // After a freeze an answer may still be unread in its socket; one round trip later it has been read.
      await this.#options.db.query('select 1');
      await this.#release(this.#takeSuspects(), holder);
    }
    if (nowMs < this.#compareAtMs) return;
    const found = await findUnknownClaims(this.#options.db, holder, [...this.#options.known()]);
    const [claimed, accepted] = [
      found.filter(({ claim }) => claim > 1),
      found.filter(({ claim }) => claim <= 1),
    ];
    await this.#release(claimed, holder);
    this.#suspects = accepted;
    this.#suspectsAtMs = accepted.length === 0 ? Infinity : nowMs + fateKnownAfterMs;
    this.#compareAtMs =
      found.length < UNKNOWN_CLAIMS_MAX ? nowMs + COMPARE_EVERY_MS : this.#suspectsAtMs;
  }

  #takeSuspects(): readonly UnknownClaim[] {
    const suspects = this.#suspects;
    this.#suspects = [];
    this.#suspectsAtMs = Infinity;
    return suspects;
  }

  /** Releases those that are still not in memory; a claim made since is fenced by its number. */
  async #release(claims: readonly UnknownClaim[], holder: string): Promise<void> {
    if (claims.length === 0) return;
    const known = new Set([...this.#options.known()].map(keyOf));
    const free = claims.filter((claim) => !known.has(keyOf(claim)));
    if (free.length === 0) return;
    const released = await releaseClaims(
      this.#options.db,
      free.map((claim) => ({ ...claim, holder, delayMs: 0, inDoubt: true })),
    );
    if (released === 0) return;
    this.#options.log.warn(
      { released },
      'recipients claimed by this worker but not in its memory were released',
    );
  }
}

function keyOf({ emailId, position }: Pick<UnknownClaim, 'emailId' | 'position'>): string {
  return `${emailId} ${position}`;
}
