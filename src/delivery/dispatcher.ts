/**
 * Keeps mail moving: takes recipients in, gives each its turn, settles what came of it.
 *
 * Work comes two ways: handed over in memory by the accept path (no polling: the first attempt
 * starts within milliseconds) and claimed from the queue table when it is due. Both are bounded in
 * number and bytes; what does not fit stays in the table. Everything held is held under the lease
 * (lease.ts), and every outcome is fenced by it.
 *
 * Next: delivery/deliver.ts does one recipient.
 */
import type { Logger } from 'pino';
import { failpoint } from '../core/failpoint.ts';
import type { World } from '../core/world.ts';
import { DatabaseUnavailable, type Queryable } from '../store/database.ts';
import { loadMessages } from '../store/messages.ts';
import {
  claimDue,
  type ClaimedRecipient,
  releaseClaims,
  releaseEmails,
  releaseStrays,
} from '../store/queue.ts';
import type { Deliver } from './deliver.ts';
import type { Job } from './job.ts';
import { Lanes } from './lanes.ts';

export type DispatcherOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  lease: { holder(): string | null; isFresh(): boolean };
  deliver: Deliver;
  /** How many recipients at a destination may be under way at once, as far as is known. */
  windowOf: (destination: string) => number;
  /** Shorter in tests. */
  unknownFateMs?: number;
};

const UNDER_WAY_MAX = 256;
const WAITING_MAX = 2_000;
const WAITING_BYTES_MAX = 48 * 1024 * 1024;
const CLAIM_MAX = 128;
const POLL_MS = 400;
/** Claims start at the last due time seen, less what a slow transaction may commit late. */
const LOW_WATER_MARGIN_MS = 60_000;
const FULL_SCAN_EVERY_MS = 60_000;
/** A statement ends after 20 s at the latest: then an unanswered accept has happened or has not. */
const UNKNOWN_FATE_MS = 30_000;
/** Between two tries while the database is away. */
const AWAY_PAUSE_MS = 1_000;
/** No network keeps a message for longer than TCP tries to deliver it, about 15 minutes. */
const UNKNOWN_FATE_MAX_MS = 10 * 60_000;
const STOP_WITHIN_MS = 25_000;

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #lanes: Lanes;
  #pollTimer: NodeJS.Timeout | undefined;
  #polling: Promise<void> = Promise.resolve();
  #isRunning = false;
  #lowWater = new Date(0);
  #fullScanAtMs = 0;
  #idle: (() => void) | undefined;
  /** What came from claims and has not ended: to be told from claims whose answer was lost. */
  readonly #claimed = new Set<Job>();
  #straysAtMs = Infinity;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#lanes = new Lanes(options.windowOf);
  }

  start(): void {
    this.#isRunning = true;
    this.#schedulePoll(0);
  }

  /** Whether an email for these destinations may be handed over instead of waiting in the table. */
  hasRoomFor(destinations: readonly string[], sizeBytes: number): boolean {
    return (
      this.#isRunning &&
      this.#lanes.waiting + destinations.length <= WAITING_MAX &&
      this.#lanes.waitingBytes + sizeBytes <= WAITING_BYTES_MAX &&
      !destinations.some((destination) => this.#lanes.isFull(destination))
    );
  }

  /** Takes recipients whose lease this worker already has, straight from the accept path. */
  handOver(jobs: readonly Job[]): void {
    if (!this.#isRunning) return void this.#giveBack(jobs, 0);
    for (const job of jobs) this.#lanes.add(job);
    this.#pump();
  }

  /**
   * Emails that may be stored in our name without our knowing: given back as soon as they appear.
   * Looked for less and less often: a statement may sit in a dead network for minutes.
   */
  releaseLater(emailIds: readonly string[]): void {
    const { db, lease } = this.#options;
    const holder = lease.holder();
    if (holder === null) return;
    const lookAfter = (waitMs: number): void => {
      if (waitMs > UNKNOWN_FATE_MAX_MS) return;
      setTimeout(() => {
        releaseEmails(db, emailIds, holder).then(
          () => lookAfter(waitMs * 2),
          () => lookAfter(waitMs),
        );
      }, waitMs).unref();
    };
    lookAfter(AWAY_PAUSE_MS);
  }

  get waiting(): number {
    return this.#lanes.waiting;
  }

  get underWay(): number {
    return this.#lanes.underWay;
  }

  /** Stops taking, gives back what has not started, waits for what has (at most 25 s). */
  async stop(): Promise<void> {
    this.#isRunning = false;
    clearTimeout(this.#pollTimer);
    await this.#polling;
    this.#claimed.clear();
    await this.#giveBack(this.#lanes.drain(), 0);
    if (this.#lanes.underWay === 0) return;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      setTimeout(resolve, STOP_WITHIN_MS).unref();
    });
  }

  #pump(): void {
    while (this.#lanes.underWay < UNDER_WAY_MAX) {
      const job = this.#lanes.next();
      if (!job) return;
      void this.#run(job);
    }
  }

  async #run(job: Job): Promise<void> {
    const { deliver, log } = this.#options;
    try {
      const result = await this.#whileAway(() => deliver(job));
      if (result?.kind !== 'settled') await this.#giveBack([job], result?.delayMs ?? 0);
    } catch (error) {
      // A bug, or keys that do not open: the mail is kept and tried again, slowly.
      log.error({ err: error, emailId: job.message.id }, 'an attempt ended in an error');
      await this.#giveBack([job], 60_000);
    } finally {
      this.#claimed.delete(job);
      this.#lanes.done(job);
      this.#pump();
      if (this.#lanes.underWay === 0) this.#idle?.();
    }
  }

  async #giveBack(jobs: readonly Job[], delayMs: number): Promise<void> {
    const holder = jobs[0]?.holder;
    if (holder === undefined) return;
    const claims = jobs.map((job) => ({ ...job, emailId: job.message.id }));
    const release = () => releaseClaims(this.#options.db, claims, { holder, delayMs });
    await this.#whileAway(release).catch((error: unknown) => {
      this.#options.log.error({ err: error }, 'work could not be given back');
    });
  }

  /**
   * Repeats what the database was not there for, which did nothing then. Null: this worker stops,
   * and what it holds is free when its lease ends.
   */
  async #whileAway<Result>(work: () => Promise<Result>): Promise<Result | null> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        if (!this.#isRunning) return null;
      }
      await new Promise((resolve) => setTimeout(resolve, AWAY_PAUSE_MS));
    }
  }

  #schedulePoll(delayMs: number): void {
    clearTimeout(this.#pollTimer);
    if (!this.#isRunning) return;
    this.#pollTimer = setTimeout(() => {
      this.#polling = this.#poll().then((took) => {
        // A full claim means there is more: as soon as there is room.
        this.#schedulePoll(took === CLAIM_MAX ? 0 : POLL_MS);
      });
    }, delayMs);
  }

  /** Claims what is due, as far as there is room. @returns how many were taken */
  async #poll(): Promise<number> {
    const holder = this.#options.lease.holder();
    const room = Math.min(CLAIM_MAX, WAITING_MAX / 2 - this.#lanes.waiting);
    if (holder === null || room <= 0) return 0;
    if (this.#lanes.waitingBytes > WAITING_BYTES_MAX / 2) return 0;
    try {
      await this.#releaseStrays(holder);
      const claimed = await this.#claim(holder, room);
      await this.#takeIn(claimed, holder);
      return claimed.length;
    } catch (error) {
      // The claim may be committed all the same: then rows are held that nobody here knows.
      this.#straysAtMs = this.#options.world.monotonicMs() + this.#unknownFateMs;
      if (!(error instanceof DatabaseUnavailable)) {
        this.#options.log.error({ err: error }, 'claiming due work failed');
      }
      return 0;
    }
  }

  async #releaseStrays(holder: string): Promise<void> {
    const { db, world, log } = this.#options;
    if (world.monotonicMs() < this.#straysAtMs) return;
    const known = [...this.#claimed].map((job) => ({ ...job, emailId: job.message.id }));
    const freed = await releaseStrays(db, holder, known);
    this.#straysAtMs = Infinity;
    if (freed > 0) log.warn({ freed }, 'claims whose answer was lost are free again');
  }

  get #unknownFateMs(): number {
    return this.#options.unknownFateMs ?? UNKNOWN_FATE_MS;
  }

  async #claim(holder: string, max: number): Promise<ClaimedRecipient[]> {
    const { db, world } = this.#options;
    const nowMs = world.monotonicMs();
    const isFullScan = nowMs >= this.#fullScanAtMs;
    if (isFullScan) this.#fullScanAtMs = nowMs + FULL_SCAN_EVERY_MS;
    const from = isFullScan ? new Date(0) : this.#lowWater;
    const blocked = this.#lanes.full();
    const claimed = await claimDue(db, { holder, max, from, blocked });
    const newest = claimed.at(-1);
    // What a full lane left behind is older than the newest: then the mark stays where it is.
    if (newest && blocked.length === 0) {
      this.#lowWater = new Date(newest.dueAt.getTime() - LOW_WATER_MARGIN_MS);
    }
    return claimed;
  }

  async #takeIn(claimed: readonly ClaimedRecipient[], holder: string): Promise<void> {
    if (claimed.length === 0) return;
    failpoint('claim_before_load');
    const { db, world } = this.#options;
    const messages = await loadMessages(
      db,
      claimed.map((one) => ({ ...one, id: one.emailId })),
    );
    const heldSinceMs = world.monotonicMs();
    for (const one of claimed) {
      const message = messages.get(one.emailId);
      if (!message) throw new Error(`queued email ${one.emailId} has no content`);
      const expiresAtMs = heldSinceMs + one.remainingMs;
      const job = { ...one, message, holder, heldSinceMs, expiresAtMs };
      this.#claimed.add(job);
      this.#lanes.add(job);
    }
    this.#pump();
  }
}
