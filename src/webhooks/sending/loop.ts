/**
 * The webhook loop: finds endpoints with due deliveries, claims for each in rotation, sends. It looks as soon as this
 * process has queued a delivery, otherwise once a second, and every two seconds while there is nothing to send.
 *
 * Guarantees: each event is sent at least once, with one id for all retries. Deliveries are claimed under this
 * worker's lease, which fences every outcome (database/leased-queue.ts). An unreachable, slow or overloaded endpoint
 * does not delay others (fair-queue.ts, suspensions in webhooks/health.ts), not even those of its project. The number
 * and bytes of deliveries in progress are limited.
 *
 * Each poll: look for endpoints, one step of the running replays (replay-store.ts), claim (fair-queue.ts), send
 * (sender.ts: attempt.ts).
 */
import type { Logger } from 'pino';
import type { Database } from '../../database/database.ts';
import { LeasedQueue, LowWater } from '../../database/leased-queue.ts';
import { failpoint } from '../../lib/failpoint.ts';
import { feedReplays } from '../replay-store.ts';
import type { Outbound } from './attempt.ts';
import { EndpointQueue } from './fair-queue.ts';
import type { SettledWebhook } from './outcomes.ts';
import {
  type ClaimedWebhook,
  claimWebhooks,
  type DueEndpoint,
  endClosedEndpoint,
  findDueEndpoints,
  type WebhookClaim,
  type WebhookKey,
  WEBHOOKS,
} from './queue-store.ts';
import { QUICK_MS, Sender } from './sender.ts';

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

/** For retries and deliveries queued by other nodes; those of this process are looked for at once. */
const LOOK_EVERY_MS = 1_000;
/** The minimum time between two looks: 50 a second. */
const LOOK_PAUSE_MS = 20;
/** A look covers what became due this long before the last one, as a transaction takes time to commit. */
const LOOK_BACK_MS = 250;
const DEEP_LOOK_BACK_MS = 20_000;
const DEEP_LOOK_EVERY_MS = 2_000;
const CLAIM_MAX = 64;
/** Slots that become free within this time share the next claim. */
const CLAIM_PAUSE_MS = 5;
const END_CLOSED_BATCH = 500;

export class WebhookLoop {
  readonly #options: WebhookLoopOptions;
  readonly #sender: Sender;
  readonly #queue: LeasedQueue<WebhookKey, WebhookClaim>;
  readonly #endpoints = new EndpointQueue();
  /** Queues of endpoints that are disabled or deleted, whose pending deliveries end. */
  readonly #closed = new Map<string, DueEndpoint>();
  readonly #lowWater: LowWater;
  #lookedAtMs = -Infinity;
  #nextLookAtMs = -Infinity;
  #nextDeepLookAtMs = -Infinity;

  constructor(options: WebhookLoopOptions) {
    const db = options.db.notifying;
    this.#options = options;
    this.#lowWater = new LowWater(options.world);
    this.#queue = new LeasedQueue({
      ...options,
      db,
      lease: options,
      table: WEBHOOKS,
      claim: (holder) => this.#claim(holder),
      known: () => this.#sender.leased(),
      startAnew: () => {
        this.#lowWater.startAnew();
        this.#nextLookAtMs = -Infinity;
      },
      everyMs: LOOK_EVERY_MS,
    });
    this.#sender = new Sender({
      ...options,
      db,
      release: (claims, delayMs) =>
        this.#queue.release(claims.map((claim) => ({ ...claim, delayMs }))),
    });
  }

  start(): void {
    this.#queue.start();
  }

  /** A delivery was queued in this process: looks now. May be called often. */
  wake(): void {
    this.#nextLookAtMs = Math.min(this.#nextLookAtMs, this.#lookedAtMs + LOOK_PAUSE_MS);
    this.#queue.soon();
  }

  /** Claims nothing more until `start`; deliveries under way end. */
  pause(): Promise<void> {
    return this.#queue.stop();
  }

  /** Claims nothing more; waits 10 s for deliveries under way, then releases them. */
  async stop(): Promise<void> {
    await this.pause();
    await this.#sender.stop();
  }

  /** Outcomes since the start, and the deliveries under way. */
  get stats(): Record<SettledWebhook, number> & { underWay: number } {
    return { ...this.#sender.counts, underWay: this.#sender.underWay.size };
  }

  /** Outcomes in memory that the database refuses. */
  get unsettled(): number {
    return this.#sender.unsettled;
  }

  /** @returns the milliseconds until the next call */
  async #claim(holder: string): Promise<number> {
    const { world } = this.#options;
    if (world.monotonicMs() >= this.#nextLookAtMs) await this.#look();
    await this.#endClosed();
    await this.#claimFairly(holder);
    const hasWork = this.#closed.size > 0 || (!this.#sender.isBlocked && this.#endpoints.hasRoom);
    return hasWork ? CLAIM_PAUSE_MS : Math.max(0, this.#nextLookAtMs - world.monotonicMs());
  }

  /** Finds endpoints with deliveries that became due since the last look; every two seconds farther back. */
  async #look(): Promise<void> {
    const db = this.#options.db.notifying;
    const nowMs = this.#options.world.monotonicMs();
    const isDeep = nowMs >= this.#nextDeepLookAtMs;
    if (isDeep) this.#nextDeepLookAtMs = nowMs + DEEP_LOOK_EVERY_MS;
    const sinceMs = this.#lowWater.fromMs(isDeep ? DEEP_LOOK_BACK_MS : LOOK_BACK_MS);
    this.#lookedAtMs = nowMs;
    // A delivery that is queued during the statement is looked for at once.
    this.#nextLookAtMs = Infinity;
    const { endpoints, nowMs: seenMs, hasReplays } = await findDueEndpoints(db, sinceMs);
    const isBehind = this.#lowWater.wentBack(seenMs);
    if (!isBehind) this.#lowWater.raise(seenMs);
    for (const endpoint of endpoints) {
      if (endpoint.isClosed) this.#closed.set(endpoint.endpointId, endpoint);
      else this.#endpoints.add(endpoint);
    }
    const hasFed = hasReplays && (await feedReplays(db));
    if (hasReplays || endpoints.length > 0) this.#queue.worked();
    if (hasFed || isBehind) this.wake();
    this.#nextLookAtMs = Math.min(this.#nextLookAtMs, nowMs + this.#queue.intervalMs);
  }

  async #endClosed(): Promise<void> {
    for (const endpoint of this.#closed.values()) {
      const ended = await endClosedEndpoint(this.#options.db.notifying, endpoint, END_CLOSED_BATCH);
      this.#sender.counts.failed += ended;
      if (ended < END_CLOSED_BATCH) this.#closed.delete(endpoint.endpointId);
    }
  }

  async #claimFairly(holder: string): Promise<void> {
    const asks = this.#sender.isBlocked ? [] : this.#endpoints.ask(CLAIM_MAX);
    if (asks.length === 0) return;
    const claimed = await claimWebhooks(this.#options.db.notifying, holder, asks);
    failpoint('webhook_after_claim');
    this.#endpoints.took(asks, claimed);
    for (const one of claimed) void this.#send(one);
  }

  async #send(claimed: ClaimedWebhook): Promise<void> {
    let hasWaited = false;
    const timer = setTimeout(() => {
      hasWaited = true;
      this.#endpoints.waits(claimed);
      this.#queue.soon();
    }, QUICK_MS);
    const pace = await this.#sender.send(claimed);
    clearTimeout(timer);
    this.#endpoints.finished(claimed, pace, { hasWaited });
    this.#queue.soon();
  }
}
