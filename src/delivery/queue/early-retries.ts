/**
 * Retries delayed mail of this worker early, when the reason for its wait has ended: the uplink is up again
 * (delivery/outage/uplink.ts), or a block of a provider ended (delivery/blocks/provider-blocks.ts). While the uplink
 * is down, the mail is retried at short intervals.
 *
 * Memory holds the newest 10,000 deliveries that were released or deferred without a reply of a server, including
 * those from before the uplink counted as down. Each is fenced by its claim, so mail that was claimed, put on hold or
 * ended meanwhile is not changed. The memory ends with the worker; the mail is then retried at its scheduled time.
 */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { type Queryable, whenAvailable } from '../../database/database.ts';
import { UNAVAILABLE_PAUSE_MS } from '../../database/leased-queue.ts';
import { bringForward, type DelayedClaim } from './early-retries-store.ts';
import type { Delivery } from '../memory/delivery.ts';
import type { UplinkChange } from '../outage/uplink.ts';
import type { UplinkView } from '../outage/uplink-view.ts';

type EarlyRetriesOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs' | 'random'>;
  log: Pick<Logger, 'error'>;
  uplink: Pick<UplinkView, 'onChange' | 'retryMs'>;
  onDue: () => void;
};

export type DelayedDelivery = Pick<Delivery, 'message' | 'position' | 'claim' | 'provider'>;

/** A delivery with a delay. `decidedMs`: the time of the decision, which precedes its commit. */
type NotedDelivery = DelayedClaim & { provider: string; decidedMs: number };

const REMEMBERED_MAX = 10_000;
const BATCH_ROWS = 500;
/** Retries are spread, and slower when more mail waits: at most about 200 a second per worker. */
const SPREAD_MS = 10_000;
const SPREAD_PER_DELIVERY_MS = 5;
/** Milliseconds by which the start of an attempt may precede the failure that the broker counts. */
const UPLINK_SLACK_MS = 2_000;
/** Milliseconds until other workers read the end of a block. Mail deferred earlier is found in the queue. */
const BLOCK_KNOWN_WITHIN_MS = 15_000;
/** Milliseconds between the check of a block and the decision, which may need a query. */
const BLOCK_SLACK_MS = 5_000;
const ENDED_BLOCKS_MAX = 5_000;

export class EarlyRetries {
  readonly #options: EarlyRetriesOptions;
  readonly #delayed = new Map<string, NotedDelivery>();
  /** The last change, and the time since which mail waits because of it. */
  #lastUplinkChange: { isDown: boolean; fromMs: number; atMs: number } | null = null;
  readonly #blockEndedAtMs = new Map<string, number>();

  constructor(options: EarlyRetriesOptions) {
    this.#options = options;
    options.uplink.onChange((change) => this.#noteUplinkChange(change));
  }

  retryMs(): number {
    const { uplink, world } = this.#options;
    const waitMs = Math.max(uplink.retryMs, this.#delayed.size * SPREAD_PER_DELIVERY_MS);
    return Math.round(waitMs + world.random() * Math.min(SPREAD_MS, waitMs));
  }

  /** Notes deliveries whose wait was decided at `decidedMs` and is committed now. */
  noteDelayed(deliveries: readonly DelayedDelivery[], decidedMs: number) {
    const delayed = deliveries.map(({ message, position, claim, provider }) => {
      const { projectId, id: emailId } = message;
      return { projectId, emailId, position, claim, provider, decidedMs };
    });
    for (const delivery of delayed) this.#remember(delivery);
    const last = this.#lastUplinkChange;
    if (last !== null && decidedMs <= last.atMs && decidedMs >= last.fromMs) {
      void this.#bringForward(delayed, last.isDown);
      return;
    }
    const sinceMs = decidedMs - BLOCK_SLACK_MS;
    const unblocked = delayed.filter(
      ({ provider }) => (this.#blockEndedAtMs.get(provider) ?? -Infinity) >= sinceMs,
    );
    if (unblocked.length > 0)
      void this.#bringForward(unblocked, this.#lastUplinkChange?.isDown === true);
  }

  /** Makes recently delayed mail for the provider due, because its block ended on any worker or node. */
  retryAfterBlock(provider: string): void {
    const nowMs = this.#options.world.monotonicMs();
    this.#blockEndedAtMs.delete(provider);
    this.#blockEndedAtMs.set(provider, nowMs);
    if (this.#blockEndedAtMs.size > ENDED_BLOCKS_MAX) {
      this.#blockEndedAtMs.delete(this.#blockEndedAtMs.keys().next().value!);
    }
    const recent = [...this.#delayed.values()].filter(
      (delivery) =>
        delivery.provider === provider && delivery.decidedMs >= nowMs - BLOCK_KNOWN_WITHIN_MS,
    );
    void this.#bringForward(recent, this.#lastUplinkChange?.isDown === true);
  }

  #remember(delivery: NotedDelivery): void {
    const key = `${delivery.emailId} ${delivery.position}`;
    this.#delayed.delete(key);
    this.#delayed.set(key, delivery);
    if (this.#delayed.size <= REMEMBERED_MAX) return;
    this.#delayed.delete(this.#delayed.keys().next().value!);
  }

  #noteUplinkChange({ isDown, failedForMs }: UplinkChange): void {
    const atMs = this.#options.world.monotonicMs();
    const fromMs = atMs - failedForMs - UPLINK_SLACK_MS;
    this.#lastUplinkChange = { isDown, fromMs, atMs };
    const affected = [...this.#delayed.values()].filter(({ decidedMs }) => decidedMs >= fromMs);
    if (!isDown) this.#delayed.clear();
    void this.#bringForward(affected, isDown);
  }

  /** Makes mail due earlier. Never rejects: if this fails, the mail is retried at its scheduled time. */
  async #bringForward(claims: readonly NotedDelivery[], isDown: boolean): Promise<void> {
    const { db, log, onDue } = this.#options;
    try {
      for (let from = 0; from < claims.length; from += BATCH_ROWS) {
        const batch = claims.slice(from, from + BATCH_ROWS).map((claim) => {
          return { ...claim, delayMs: isDown ? this.retryMs() : 0 };
        });
        await whenAvailable(() => bringForward(db, batch), {
          pauseMs: UNAVAILABLE_PAUSE_MS,
          mayRetry: () => (this.#lastUplinkChange?.isDown ?? false) === isDown,
        });
        if (!isDown) onDue();
      }
    } catch (error) {
      log.error(
        { err: error },
        'mail that waited for the uplink or a provider was not made due early; it is retried at its scheduled time',
      );
    }
  }
}
