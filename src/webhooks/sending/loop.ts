/**
 * The webhook loop: finds endpoints with due deliveries, claims for each in rotation, sends. It polls as
 * soon as this process has queued a delivery, otherwise once a second, and every two seconds while there is
 * nothing to send.
 *
 * Guarantees: each event is sent at least once, with one id for all retries. Deliveries are held under
 * this worker's lease, which fences every outcome. An unreachable, slow or overloaded endpoint does not
 * delay others (fair-queue.ts here, suspensions in webhooks/sending/queue-store.ts), not even those of its project. The
 * number and bytes of deliveries in progress are limited.
 *
 * Each iteration: poll (PollSchedule), one step of the running replays (webhooks/replay-store.ts), claim
 * (fair-queue.ts), send (sender.ts: attempt.ts).
 */
import type { Logger } from 'pino';
import { failpoint } from '../../lib/failpoint.ts';
import { type Database, DatabaseUnavailable } from '../../database/database.ts';
import {
  type ClaimedWebhook,
  claimWebhooks,
  type DueEndpoint,
  endClosedEndpoint,
  findDueEndpoints,
  releaseUnknownWebhooks,
} from './queue-store.ts';
import { feedReplays } from '../replay-store.ts';
import type { Outbound } from './attempt.ts';
import { EndpointQueue } from './fair-queue.ts';
import type { SettledWebhook } from './outcomes.ts';
import { Sender } from './sender.ts';

/** For retries and deliveries queued by other nodes; those of this process are polled immediately. */
const EVERY_MS = 1_000;
/** After IDLE_AFTER_MS of polls that found nothing, as the dispatcher does (delivery/queue/dispatcher.ts). */
const IDLE_EVERY_MS = 2_000;
const IDLE_AFTER_MS = 10_000;
/** The minimum pause between polls: 50 a second. */
const PAUSE_MS = 20;
const BACK_MS = 250;
const DEEP_BACK_MS = 20_000;
const DEEP_EVERY_MS = 2_000;
const SWEEP_EVERY_MS = 60_000;

export class PollSchedule {
  /** Database time of the last poll. */
  #seenMs = 0;
  // The following are times of the caller's clock.
  #lastMs = -Infinity;
  #workMs = -Infinity;
  #nextMs = -Infinity;
  #deepMs = -Infinity;
  #sweepMs = -Infinity;

  /** Time until the next poll; 0 or less: now. */
  waitMs(nowMs: number): number {
    return this.#nextMs - nowMs;
  }

  /** A delivery was queued: the next poll is due now, or as soon as the pause allows. */
  soon(): void {
    this.#nextMs = Math.min(this.#nextMs, this.#lastMs + PAUSE_MS);
  }

  /** The result of a poll may be lost: the next poll searches everything. */
  startAnew(): void {
    this.#sweepMs = -Infinity;
  }

  /** The database time from which the next poll searches; -Infinity: everything. */
  sinceMs(nowMs: number): number {
    if (nowMs >= this.#sweepMs) return -Infinity;
    return this.#seenMs - (nowMs >= this.#deepMs ? DEEP_BACK_MS : BACK_MS);
  }

  /** A poll that began at `nowMs` has covered everything up to `seenMs` of database time and found work, or none. */
  done(nowMs: number, seenMs: number, hasWork: boolean): void {
    if (nowMs >= this.#sweepMs) this.#sweepMs = nowMs + SWEEP_EVERY_MS;
    if (nowMs >= this.#deepMs) this.#deepMs = nowMs + DEEP_EVERY_MS;
    // The database's clock went back: what became due by the new time and before this poll was not covered.
    const wentBack = seenMs < this.#seenMs;
    this.#seenMs = seenMs;
    this.#lastMs = nowMs;
    if (hasWork) this.#workMs = nowMs;
    const isIdle = nowMs - this.#workMs >= IDLE_AFTER_MS;
    this.#nextMs = nowMs + (isIdle ? IDLE_EVERY_MS : EVERY_MS);
    if (!wentBack) return;
    this.startAnew();
    this.soon();
  }
}

export type WebhookLoopOptions = Omit<Outbound, 'agents'> & {
  db: Pick<Database, 'notifying'>;
  log: Pick<Logger, 'info' | 'warn' | 'error'>;
  /** The lease that this worker claims under; null while it has none. */
  holder: () => string | null;
  /** Called before each POST: whether no other worker can have reclaimed this worker's deliveries. */
  isFresh: () => boolean;
  /** Incremented whenever the table should be compared with memory (delivery/queue/lease.ts). */
  checksWanted: () => number;
};

/** Outcomes since the start, and the deliveries under way. */
type WebhookLoopStats = Record<SettledWebhook, number> & { underWay: number };

export type WebhookLoop = {
  start(): void;
  /** A delivery was queued in this process: poll now. May be called often. */
  wake(): void;
  /** Stops claiming until `start`; deliveries under way end. */
  pause(): Promise<void>;
  /** Stops claiming; waits 10 s for deliveries under way, then releases them. */
  stop(): Promise<void>;
  readonly stats: Readonly<WebhookLoopStats>;
  /** The number of outcomes in memory that the database refuses. */
  readonly unsettled: number;
};

const CLAIM_MAX = 64;
/** Slots that become free within this time share the next claim. */
const ITERATION_PAUSE_MS = 5;
/** The pause without a lease or a database. */
const IDLE_PAUSE_MS = 500;
const END_CLOSED_BATCH = 500;
/** A statement ends after 20 s at most, so by then a claim without a response is committed or aborted. */
const FATE_UNKNOWN_MS = 30_000;
/** How often the rows claimed by this worker are compared with memory if no error occurred. */
const COMPARE_EVERY_MS = 5 * 60_000;

export function createWebhookLoop(options: WebhookLoopOptions): WebhookLoop {
  return new Loop(options);
}

class Loop implements WebhookLoop {
  readonly #options: WebhookLoopOptions;
  readonly #sender: Sender;
  readonly #schedule = new PollSchedule();
  readonly #endpoints = new EndpointQueue();
  /** Queues of endpoints that are disabled or deleted, whose pending deliveries end. */
  readonly #closed = new Map<string, DueEndpoint>();
  /** When to release rows that are claimed by this worker but not in its memory: see delivery/queue/releases.ts. */
  #compareAtMs: number;
  #checksSeen = 0;
  #isRunning = false;
  #running: Promise<void> = Promise.resolve();
  #wakeUp: (() => void) | undefined;

  constructor(options: WebhookLoopOptions) {
    this.#options = options;
    this.#compareAtMs = options.world.monotonicMs() + COMPARE_EVERY_MS;
    this.#sender = new Sender({ ...options, db: options.db.notifying });
  }

  start(): void {
    this.#isRunning = true;
    this.#running = this.#run();
  }

  wake(): void {
    this.#schedule.soon();
    this.#wakeUp?.();
  }

  async pause(): Promise<void> {
    this.#isRunning = false;
    this.#wakeUp?.();
    await this.#running;
  }

  async stop(): Promise<void> {
    await this.pause();
    await this.#sender.stop();
  }

  get stats(): WebhookLoopStats {
    return { ...this.#sender.counts, underWay: this.#sender.underWay.size };
  }

  get unsettled(): number {
    return this.#sender.unsettled;
  }

  async #run(): Promise<void> {
    while (this.#isRunning) {
      const holder = this.#options.holder();
      const wentWell = holder !== null && (await this.#iterate(holder));
      // The lease has changed, or the deliveries found were not claimed: poll everything.
      if (!wentWell) this.#schedule.startAnew();
      if (!wentWell) await pause(IDLE_PAUSE_MS);
      else if (this.#isBusy) await pause(ITERATION_PAUSE_MS);
      await this.#untilNextIteration();
    }
  }

  get #isBusy(): boolean {
    return this.#sender.underWay.size > 0 || this.#closed.size > 0 || this.#endpoints.hasRoom;
  }

  async #iterate(holder: string): Promise<boolean> {
    try {
      const nowMs = this.#options.world.monotonicMs();
      await this.#releaseUnknownClaims(holder, nowMs);
      if (this.#schedule.waitMs(nowMs) <= 0) await this.#look(nowMs);
      await this.#endClosed();
      await this.#claim(holder);
      return true;
    } catch (error) {
      // A claim may be committed although its response was lost, or the database failed over.
      this.#compareAtMs = this.#options.world.monotonicMs() + FATE_UNKNOWN_MS;
      if (!(error instanceof DatabaseUnavailable)) {
        this.#options.log.error({ err: error }, 'polling for webhooks failed');
      }
      return false;
    }
  }

  /** No claim is in progress, so rows that the sender does not hold were lost. */
  async #releaseUnknownClaims(holder: string, nowMs: number): Promise<void> {
    const { db, log, checksWanted } = this.#options;
    const asked = checksWanted();
    if (nowMs < this.#compareAtMs && asked === this.#checksSeen) return;
    const released = await releaseUnknownWebhooks(db.notifying, holder, this.#sender.held);
    this.#checksSeen = asked;
    this.#compareAtMs = nowMs + COMPARE_EVERY_MS;
    if (released === 0) return;
    log.warn({ released }, 'webhooks claimed by this worker but not in its memory were released');
  }

  async #look(nowMs: number): Promise<void> {
    const sinceMs = this.#schedule.sinceMs(nowMs);
    const { notifying } = this.#options.db;
    const { endpoints, nowMs: seenMs, hasReplays } = await findDueEndpoints(notifying, sinceMs);
    this.#schedule.done(nowMs, seenMs, hasReplays || endpoints.length > 0);
    if (hasReplays && (await feedReplays(notifying))) this.#schedule.soon();
    for (const endpoint of endpoints) {
      if (endpoint.isClosed) this.#closed.set(endpoint.endpointId, endpoint);
      else this.#endpoints.add(endpoint);
    }
  }

  async #endClosed(): Promise<void> {
    for (const endpoint of this.#closed.values()) {
      const ended = await endClosedEndpoint(this.#options.db.notifying, endpoint, END_CLOSED_BATCH);
      this.#sender.counts.failed += ended;
      if (ended < END_CLOSED_BATCH) this.#closed.delete(endpoint.endpointId);
    }
  }

  async #claim(holder: string): Promise<void> {
    const asks = this.#endpoints.ask(Math.min(CLAIM_MAX, this.#sender.room));
    if (asks.length === 0) return;
    const claimed = await claimWebhooks(this.#options.db.notifying, holder, asks);
    failpoint('webhook_after_claim');
    this.#endpoints.took(asks, claimed);
    for (const one of claimed) void this.#send(one, holder);
  }

  async #send(claimed: ClaimedWebhook, holder: string): Promise<void> {
    let hasWaited = false;
    const pace = await this.#sender.send(claimed, holder, () => {
      hasWaited = true;
      this.#endpoints.waits(claimed);
      this.#wakeUp?.();
    });
    this.#endpoints.finished(claimed, pace, { hasWaited });
    this.#wakeUp?.();
  }

  async #untilNextIteration(): Promise<void> {
    const hasWork = this.#closed.size > 0 || (this.#sender.room > 0 && this.#endpoints.hasRoom);
    const waitMs = hasWork ? 0 : this.#schedule.waitMs(this.#options.world.monotonicMs());
    if (waitMs <= 0 || !this.#isRunning) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, waitMs);
    this.#wakeUp = resolve;
    await promise;
    clearTimeout(timer);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
