/**
 * The webhook loop finds endpoints with due deliveries, claims deliveries for each endpoint in turn, and sends them.
 * It polls as soon as this process has queued a delivery, otherwise once a second, and every two seconds while there is
 * nothing to send. A poll searches the new deliveries. Every two seconds it searches the deliveries of the last 20 s,
 * and every minute all deliveries.
 *
 * Guarantees: each event is sent at least once, with one id for all retries. Deliveries are claimed under this
 * worker's lease, which fences every outcome (database/leased-queue.ts). An unreachable, slow or overloaded
 * endpoint does not delay other endpoints, even those of its project (endpoint-queue.ts, suspensions in
 * webhooks/endpoint-health.ts). The number and bytes of running deliveries are limited.
 *
 * Each poll searches endpoints, advances running replays by one step (replay-store.ts), claims (endpoint-queue.ts)
 * and sends (sender.ts, attempt.ts).
 */
import type { Logger } from 'pino';
import type { Database } from '../../database/database.ts';
import { LeasedQueue, LowWaterMark } from '../../database/leased-queue.ts';
import { failpoint } from '../../lib/failpoint.ts';
import { advanceReplays } from '../replay-store.ts';
import type { WebhookAttemptOptions } from './attempt.ts';
import { EndpointQueue } from './endpoint-queue.ts';
import type { SettledWebhook } from './webhook-outcomes.ts';
import {
  type ClaimedDelivery,
  claimWebhooks,
  type DueEndpoint,
  failPendingDeliveries,
  findDueEndpoints,
  type WebhookClaim,
  type WebhookKey,
  WEBHOOKS,
} from './webhook-queue-store.ts';
import { QUICK_MS, WebhookSender } from './sender.ts';

export type WebhookLoopOptions = Omit<WebhookAttemptOptions, 'agents'> & {
  db: Pick<Database, 'webhooks'>;
  log: Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>;
  leaseId: () => string | null;
  /** Called before each POST. Returns whether no other worker can have reclaimed this worker's deliveries. */
  isFresh: () => boolean;
  /** Returns a counter that grows when the table should be compared with memory (delivery/queue/lease.ts). */
  checksRequested: () => number;
};

/** Finds retries and deliveries queued by other nodes. `wake` finds the deliveries of this process at once. */
const SEARCH_EVERY_MS = 1_000;
/** Minimum time between two searches: at most 50 a second. */
const SEARCH_PAUSE_MS = 20;
/** A search covers deliveries due this long before the last one, because commits take time. */
const SEARCH_BACK_MS = 250;
const DEEP_SEARCH_BACK_MS = 20_000;
const DEEP_SEARCH_EVERY_MS = 2_000;
const CLAIM_MAX = 64;
/** Slots that become free within this time share the next claim. */
const CLAIM_PAUSE_MS = 5;
const FAIL_PENDING_BATCH = 500;

export class WebhookLoop {
  readonly #options: WebhookLoopOptions;
  readonly #sender: WebhookSender;
  readonly #queue: LeasedQueue<WebhookKey, WebhookClaim>;
  readonly #endpoints = new EndpointQueue();
  readonly #inactive = new Map<string, DueEndpoint>();
  readonly #lowWater: LowWaterMark;
  #searchedAtMs = -Infinity;
  #nextSearchAtMs = -Infinity;
  #nextDeepSearchAtMs = -Infinity;

  constructor(options: WebhookLoopOptions) {
    const db = options.db.webhooks;
    this.#options = options;
    this.#lowWater = new LowWaterMark(options.world);
    this.#queue = new LeasedQueue({
      ...options,
      db,
      lease: options,
      table: WEBHOOKS,
      claimDueRows: (leaseId) => this.#claim(leaseId),
      knownKeys: () => this.#sender.leased(),
      resetLowWaterMark: () => {
        this.#lowWater.reset();
        this.#nextSearchAtMs = -Infinity;
      },
      busyIntervalMs: SEARCH_EVERY_MS,
    });
    this.#sender = new WebhookSender({
      ...options,
      db,
      release: (claims, delayMs) =>
        this.#queue.release(claims.map((claim) => ({ ...claim, delayMs }))),
    });
  }

  start(): void {
    this.#queue.start();
  }

  /** Makes the loop search now, because this process queued a delivery. Calls may be frequent. */
  wake(): void {
    this.#nextSearchAtMs = Math.min(this.#nextSearchAtMs, this.#searchedAtMs + SEARCH_PAUSE_MS);
    this.#queue.pollSoon();
  }

  pause(): Promise<void> {
    return this.#queue.stop();
  }

  async stop(): Promise<void> {
    await this.pause();
    await this.#sender.stop();
  }

  get stats(): Record<SettledWebhook, number> & { runningCount: number } {
    return { ...this.#sender.counts, runningCount: this.#sender.running.size };
  }

  /** Number of outcomes in memory that the database refuses to store. */
  get keptCount(): number {
    return this.#sender.keptCount;
  }

  async #claim(leaseId: string): Promise<number> {
    const { world } = this.#options;
    if (world.monotonicMs() >= this.#nextSearchAtMs) await this.#search();
    await this.#failPendingOfInactive();
    await this.#claimInTurn(leaseId);
    const hasWork = this.#inactive.size > 0 || (!this.#sender.mustWait && this.#endpoints.canClaim);
    return hasWork ? CLAIM_PAUSE_MS : Math.max(0, this.#nextSearchAtMs - world.monotonicMs());
  }

  /** Searches endpoints with deliveries that became due since the last search, and every two seconds farther back. */
  async #search(): Promise<void> {
    const db = this.#options.db.webhooks;
    const nowMs = this.#options.world.monotonicMs();
    const isDeep = nowMs >= this.#nextDeepSearchAtMs;
    if (isDeep) this.#nextDeepSearchAtMs = nowMs + DEEP_SEARCH_EVERY_MS;
    const sinceMs = this.#lowWater.nextStartMs(isDeep ? DEEP_SEARCH_BACK_MS : SEARCH_BACK_MS);
    this.#searchedAtMs = nowMs;
    // A delivery that is queued during the statement makes the loop search again at once.
    this.#nextSearchAtMs = Infinity;
    const { endpoints, nowMs: databaseMs, hasReplays } = await findDueEndpoints(db, sinceMs);
    const isBehind = this.#lowWater.resetIfClockWentBack(databaseMs);
    if (!isBehind) this.#lowWater.raiseTo(databaseMs);
    for (const endpoint of endpoints) {
      if (endpoint.isInactive) this.#inactive.set(endpoint.endpointId, endpoint);
      else this.#endpoints.add(endpoint);
    }
    const hasQueued = hasReplays && (await advanceReplays(db));
    if (hasReplays || endpoints.length > 0) this.#queue.noteWork();
    if (hasQueued || isBehind) this.wake();
    this.#nextSearchAtMs = Math.min(this.#nextSearchAtMs, nowMs + this.#queue.intervalMs);
  }

  async #failPendingOfInactive(): Promise<void> {
    for (const endpoint of this.#inactive.values()) {
      const ended = await failPendingDeliveries(
        this.#options.db.webhooks,
        endpoint,
        FAIL_PENDING_BATCH,
      );
      this.#sender.counts.failed += ended;
      if (ended < FAIL_PENDING_BATCH) this.#inactive.delete(endpoint.endpointId);
    }
  }

  async #claimInTurn(leaseId: string): Promise<void> {
    const claims = this.#sender.mustWait ? [] : this.#endpoints.planClaims(CLAIM_MAX);
    if (claims.length === 0) return;
    const claimed = await claimWebhooks(this.#options.db.webhooks, leaseId, claims);
    failpoint('webhook_after_claim');
    this.#endpoints.recordClaim(claims, claimed);
    for (const delivery of claimed) void this.#send(delivery);
  }

  async #send(claimed: ClaimedDelivery): Promise<void> {
    let hasWaited = false;
    const timer = setTimeout(() => {
      hasWaited = true;
      this.#endpoints.markWaiting(claimed);
      this.#queue.pollSoon();
    }, QUICK_MS);
    const pace = await this.#sender.send(claimed);
    clearTimeout(timer);
    this.#endpoints.recordEnd(claimed, pace, { hasWaited });
    this.#queue.pollSoon();
  }
}
