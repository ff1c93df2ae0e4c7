/**
 * The queue that mail (delivery/queue/dispatcher.ts) and webhooks (webhooks/sending/loop.ts) share. This file decides
 * when to claim, releases claims, and finds claims that only the table has.
 *
 * A worker claims rows under its lease (delivery/queue/lease.ts). A claim stores the id of the lease in `holder` and
 * raises the row's claim number, which fences off outcomes of earlier claims (settle/outcome-batches.ts).
 *
 * Guarantee: a claim that only the table has is released, because nobody else would try it. Such a claim comes from a
 * commit whose result was lost, from an error between the statement and memory, or from a fail-over to a standby that
 * lacks the last commits. The table is compared with memory every 5 minutes, after the database was unavailable or is
 * another server, and when an operator asks. Nothing is claimed during the comparison. The result for a row that was
 * stored with its claim may still be in flight. Such a row is released when two comparisons find it, farther apart
 * than any result takes. Memory includes claims whose release is running: it is retried while the database is
 * unavailable, and keeps its delay.
 */
import type { Logger } from 'pino';
import { LiveSet } from '../lib/live-set.ts';
import type { World } from '../lib/world.ts';
import { DatabaseUnavailable, isLockTimeout, type Queryable, whenAvailable } from './database.ts';
import { GroupCommit } from './group-commit.ts';
import { type LeasedTable, type ClaimRelease, UNKNOWN_CLAIMS_MAX } from './leased-table.ts';

type LeasedQueueOptions<Key extends object, Claim extends Key> = {
  db: Queryable;
  world: Pick<World, 'monotonicMs'>;
  log: Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>;
  lease: {
    leaseId(): string | null;
    /** Counter that grows whenever the table should be compared with memory. */
    checksRequested(): number;
  };
  table: LeasedTable<Key, Claim>;
  /**
   * Claims as many rows as fit.
   * @returns milliseconds until the next call, or null for the interval
   */
  claimDueRows: (leaseId: string) => Promise<number | null>;
  /** The keys of claims in memory. */
  knownKeys: () => Iterable<Key>;
  /** Forgets the low-water mark: the database may be another server, or a statement may have had no effect. */
  resetLowWaterMark: () => void;
  /** Milliseconds between two polls while there is work. */
  busyIntervalMs: number;
  unknownFateMs?: number;
};

/** After this time without work, polls are rarer: frequent ones take half of the CPU time of an idle worker. */
const IDLE_AFTER_MS = 10_000;
const IDLE_INTERVAL_MS = 2_000;
/** Events within this time share one poll. */
const POLL_SOON_MS = 5;
/** Pause without a lease, or after an error. */
const RETRY_POLL_MS = 400;
/** Pause before a statement is repeated while the database is unavailable. */
export const UNAVAILABLE_PAUSE_MS = 1_000;
const COMPARE_INTERVAL_MS = 5 * 60_000;
/** Statements end after 20 s. By then, one without a result is committed or rolled back. */
const UNKNOWN_FATE_MS = 30_000;
/** Approximate size of a release: 64 of them always fit a batch. */
const RELEASE_BYTES = 200;

export class LeasedQueue<Key extends object, Claim extends Key & { claim: number }> {
  readonly #options: LeasedQueueOptions<Key, Claim>;
  readonly #unknownFateMs: number;
  readonly #releases: GroupCommit<ClaimRelease<Claim>, undefined>;
  readonly #releasing = new LiveSet<ClaimRelease<Claim>>();
  #timer: NodeJS.Timeout | undefined;
  #polling: Promise<void> | null = null;
  #isRunning = false;
  #isPollRequested = false;
  #lastWorkMs = -Infinity;
  #compareAtMs: number;
  #checksDone = 0;
  /** Claims that the last comparison did not find in memory. Their results may still have been in flight. */
  #suspects: readonly Claim[] = [];
  #isFailing = false;
  #checkSuspectsAtMs = Infinity;

  constructor(options: LeasedQueueOptions<Key, Claim>) {
    const { db, table, world, unknownFateMs = UNKNOWN_FATE_MS } = options;
    this.#options = options;
    this.#unknownFateMs = unknownFateMs;
    this.#compareAtMs = world.monotonicMs() + COMPARE_INTERVAL_MS;
    this.#releases = new GroupCommit({
      commit: async (batch) => {
        await whenAvailable(() => table.release(db, batch), {
          pauseMs: UNAVAILABLE_PAUSE_MS,
          mayRetry: () => this.#isRunning,
        });
        return batch.map(() => undefined);
      },
      sizeBytes: () => RELEASE_BYTES,
      mayTryOneByOne: () => true,
    });
  }

  start(): void {
    this.#isRunning = true;
    this.#pollIn(0);
  }

  /** Polls within POLL_SOON_MS, because a row may be due or there is capacity again. Calls share one poll. */
  pollSoon(): void {
    if (this.#isPollRequested || !this.#isRunning) return;
    this.#isPollRequested = true;
    if (this.#polling === null) this.#pollIn(POLL_SOON_MS);
  }

  async stop(): Promise<void> {
    this.#isRunning = false;
    clearTimeout(this.#timer);
    await this.#polling;
  }

  /** Keeps the short interval between polls. */
  noteWork(): void {
    this.#lastWorkMs = this.#options.world.monotonicMs();
  }

  get intervalMs(): number {
    const idleMs = this.#options.world.monotonicMs() - this.#lastWorkMs;
    return idleMs < IDLE_AFTER_MS ? this.#options.busyIntervalMs : IDLE_INTERVAL_MS;
  }

  /**
   * Releases claims in batches, which leaves connections to settlements. Never rejects. While the database is
   * unavailable, a release waits. After a stop it does not wait, and the rows become free when the lease ends. A retry
   * of a stored release has no effect, because the claim and the lease of the row have changed. A release
   * waits, too, while another session locks the row. One that the database refuses for another reason is left to a
   * comparison half a minute later.
   */
  async release(claims: readonly ClaimRelease<Claim>[]): Promise<void> {
    const releases = claims.map((claim) => {
      this.#releasing.add(claim);
      return this.#releaseUnlocked(claim).finally(() => this.#releasing.delete(claim));
    });
    await Promise.all(releases).catch((error: unknown) => {
      const { log, world } = this.#options;
      log.error(
        { err: error },
        'this worker could not release claims; a comparison of the table with its memory releases them soon',
      );
      const compareAtMs = world.monotonicMs() + this.#unknownFateMs;
      this.#compareAtMs = Math.min(this.#compareAtMs, compareAtMs);
    });
  }

  /** The lock is waited for outside of the batch, so that the others of the batch are released meanwhile. */
  async #releaseUnlocked(claim: ClaimRelease<Claim>): Promise<void> {
    for (;;) {
      try {
        await this.#releases.add(claim);
        return;
      } catch (error) {
        if (!isLockTimeout(error) || !this.#isRunning) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, UNAVAILABLE_PAUSE_MS));
    }
  }

  #pollIn(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isPollRequested = false;
      this.#polling = this.#poll().then((nextMs) => {
        this.#polling = null;
        if (this.#isRunning)
          this.#pollIn(this.#isPollRequested ? Math.min(nextMs, POLL_SOON_MS) : nextMs);
      });
    }, delayMs);
  }

  async #poll(): Promise<number> {
    const { lease, claimDueRows, resetLowWaterMark, log, world } = this.#options;
    const leaseId = lease.leaseId();
    if (leaseId === null) {
      resetLowWaterMark();
      return RETRY_POLL_MS;
    }
    try {
      await this.#compareWithMemory(leaseId);
      const nextMs = (await claimDueRows(leaseId)) ?? this.intervalMs;
      if (this.#isFailing) log.info('this worker can claim due work again');
      this.#isFailing = false;
      return nextMs;
    } catch (error) {
      // The claim may be committed although its result was lost.
      this.#compareAtMs = world.monotonicMs() + this.#unknownFateMs;
      resetLowWaterMark();
      if (!(error instanceof DatabaseUnavailable)) this.#logFailure(error);
      return RETRY_POLL_MS;
    }
  }

  /** Logs the first of failures in a row: a damaged page of the table would otherwise add a line every 0.4 s. */
  #logFailure(error: unknown): void {
    const level = this.#isFailing ? 'debug' : 'error';
    this.#isFailing = true;
    this.#options.log[level](
      { err: error },
      'this worker could not claim due work; it tries again every 0.4 s until it succeeds',
    );
  }

  /** Finds claims that only the table has, when that is due. */
  async #compareWithMemory(leaseId: string): Promise<void> {
    const { db, world, lease, table, knownKeys, resetLowWaterMark } = this.#options;
    const nowMs = world.monotonicMs();
    const requested = lease.checksRequested();
    if (requested !== this.#checksDone) {
      resetLowWaterMark();
      this.#compareAtMs = -Infinity;
    }
    if (nowMs >= this.#checkSuspectsAtMs) await this.#releaseSuspects(leaseId);
    if (nowMs < this.#compareAtMs) return;
    const unknown = await table.findUnknown(db, leaseId, [...knownKeys()]);
    const isInFlight = (claim: Claim): boolean => table.mayBeInFlight(claim);
    await this.#releaseUnknown(
      unknown.filter((claim) => !isInFlight(claim)),
      leaseId,
    );
    this.#checksDone = requested;
    this.#suspects = unknown.filter(isInFlight);
    this.#checkSuspectsAtMs = this.#suspects.length === 0 ? Infinity : nowMs + this.#unknownFateMs;
    const isComplete = unknown.length < UNKNOWN_CLAIMS_MAX;
    this.#compareAtMs = nowMs + (isComplete ? COMPARE_INTERVAL_MS : this.#unknownFateMs);
  }

  async #releaseSuspects(leaseId: string): Promise<void> {
    // After a freeze, a result may still be unread in its socket. One round trip later it has been read.
    await this.#options.db.query('select 1');
    const suspects = this.#suspects;
    this.#checkSuspectsAtMs = Infinity;
    await this.#releaseUnknown(suspects, leaseId);
  }

  /** Releases claims that are still unknown. A newer claim of the row is fenced by its number. */
  async #releaseUnknown(claims: readonly Claim[], leaseId: string): Promise<void> {
    const { db, table, knownKeys, log } = this.#options;
    const inMemory = new Set([...knownKeys()].map(table.keyOf));
    const releasing = new Map(
      [...this.#releasing].map((release) => [table.keyOf(release), release.claim]),
    );
    const unknown = claims.filter((claim) => {
      const key = table.keyOf(claim);
      return !inMemory.has(key) && releasing.get(key) !== claim.claim;
    });
    if (unknown.length === 0) return;
    const released = await table.release(
      db,
      unknown.map((claim) => ({ ...claim, ...table.unknownClaimDefaults, leaseId, delayMs: 0 })),
    );
    if (released === 0) return;
    const message = `${table.rowNoun} claimed by this worker but not in its memory were released`;
    log.warn({ released }, message);
  }
}

const FULL_SCAN_EVERY_MS = 60_000;

/**
 * The due time from which claims read: every row below it is claimed. It is on the database's clock. It is reset when
 * that clock goes back, as after a fail-over to a server whose clock is behind, and once a minute.
 */
export class LowWaterMark {
  readonly #world: Pick<World, 'monotonicMs'>;
  #markMs = -Infinity;
  #lastDatabaseMs = -Infinity;
  #fullScanAtMs = -Infinity;

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /**
   * Returns the due time from which the next claim reads: the mark minus the margin. Once a minute it returns
   * -Infinity, so that the claim reads everything.
   */
  nextStartMs(marginMs: number): number {
    const nowMs = this.#world.monotonicMs();
    if (nowMs < this.#fullScanAtMs) return this.#markMs - marginMs;
    this.#fullScanAtMs = nowMs + FULL_SCAN_EVERY_MS;
    return -Infinity;
  }

  /**
   * Resets the mark when the database's clock went back since the last claim.
   * @returns whether it did
   */
  resetIfClockWentBack(databaseMs: number): boolean {
    const hasGoneBack = databaseMs < this.#lastDatabaseMs;
    this.#lastDatabaseMs = databaseMs;
    if (hasGoneBack) this.reset();
    return hasGoneBack;
  }

  reset(): void {
    this.#markMs = -Infinity;
  }

  raiseTo(databaseMs: number): void {
    this.#markMs = databaseMs;
  }
}
