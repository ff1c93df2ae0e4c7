/**
 * What the broker knows of one provider: its pools (one per address of ours), whether it is in trouble,
 * and how fast messages may follow one another.
 */
import type { World } from '../core/world.ts';
import type { ProviderStatus, WorkerMessage } from './permits.ts';
import type { ProviderLimits } from './shaping-defaults.ts';
import type { ShapingSettings } from './shaping-settings.ts';
import { TokenBucket } from './token-bucket.ts';
import { Outage } from './outage.ts';
import { Window } from './window.ts';

/** One worker's part of a pool. */
export type Holder = {
  held: number;
  wanted: number;
  urgent: number;
  /** Since when it waits without holding any. */
  waitingSinceMs: number;
  /** How many it was asked to give back and has not yet. */
  yielding: number;
  lastSent: { isWanted: boolean; share: number; window: number };
};

export class BrokerPool {
  readonly source: string;
  readonly window: Window;
  readonly holders = new Map<number, Holder>();
  readonly newConnections: TokenBucket | null;
  out = 0;

  constructor(source: string, parts: { window: Window; newConnections: TokenBucket | null }) {
    this.source = source;
    this.window = parts.window;
    this.newConnections = parts.newConnections;
  }

  holder(worker: number): Holder {
    let holder = this.holders.get(worker);
    if (!holder) {
      const lastSent = { isWanted: false, share: 0, window: 0 };
      holder = { held: 0, wanted: 0, urgent: 0, waitingSinceMs: 0, yielding: 0, lastSent };
      this.holders.set(worker, holder);
    }
    return holder;
  }

  get waiting(): number {
    return sum(this.holders, (holder) => holder.wanted);
  }

  get yielding(): number {
    return sum(this.holders, (holder) => holder.yielding);
  }
}

type Complaint = Extract<WorkerMessage, { kind: 'slow' }>;
type Suspension = NonNullable<ProviderStatus['suspension']>;
type Pacing = { bucket: TokenBucket; untilMs: number; reason: string | null };

export class BrokerProvider {
  readonly key: string;
  readonly limits: ProviderLimits;
  readonly outage: Outage;
  readonly pools = new Map<string, BrokerPool>();
  readonly #settings: ShapingSettings;
  readonly #world: Pick<World, 'monotonicMs' | 'random'>;
  #pacing: Pacing | null;
  /** What it said when it asked for less. */
  #complaint: string | null = null;
  usedAtMs: number;
  /** What the workers were told last. */
  notifiedSuspension: Suspension['kind'] | null = null;

  constructor(
    key: string,
    limits: ProviderLimits,
    context: { settings: ShapingSettings; world: Pick<World, 'monotonicMs' | 'random'> },
  ) {
    this.key = key;
    this.limits = limits;
    this.#settings = context.settings;
    this.#world = context.world;
    this.outage = new Outage(context.settings.suspension, context.world);
    this.#pacing = this.#usualPacing();
    this.usedAtMs = context.world.monotonicMs();
  }

  pool(source: string): BrokerPool {
    let pool = this.pools.get(source);
    if (!pool) {
      const { connections, newConnectionsPerMinute } = this.limits;
      pool = new BrokerPool(source, {
        window: new Window(connections, this.#settings.recovery),
        newConnections: this.#bucketOf(newConnectionsPerMinute),
      });
      this.pools.set(source, pool);
    }
    return pool;
  }

  get out(): number {
    return sum(this.pools, (pool) => pool.out);
  }

  get waiting(): number {
    return sum(this.pools, (pool) => pool.waiting);
  }

  /** How many the pool may have now, whoever holds them. */
  windowOf(pool: BrokerPool): number {
    return this.outage.isOngoing || this.#isSlowed ? 1 : pool.window.size;
  }

  /** How many messages a new connection may carry now; 0: it has to wait. */
  allow(): number | null {
    if (this.#pacing === null) return null;
    const { messagesPerConnection } = this.limits;
    return this.#pacing.bucket.take(messagesPerConnection, this.#world.monotonicMs());
  }

  giveBack(unused: number): void {
    this.#pacing?.bucket.giveBack(unused);
  }

  complained({ source, reason, pace, openedForMs }: Complaint): boolean {
    const nowMs = this.#world.monotonicMs();
    this.#complaint = reason;
    const shrank = this.pool(source).window.shrink(nowMs, openedForMs);
    if (pace === null) return shrank;
    const bucket = new TokenBucket(pace.messagesPerMinute, nowMs);
    bucket.empty();
    this.#pacing = { bucket, untilMs: nowMs + pace.forMs, reason };
    return true;
  }

  /** Ends what is over. @returns whether that changed anything */
  expire(): boolean {
    if (this.#pacing === null || this.#world.monotonicMs() < this.#pacing.untilMs) return false;
    this.#pacing = this.#usualPacing();
    for (const pool of this.pools.values()) pool.window.restart();
    return true;
  }

  /** Whether time alone may change what is allowed. */
  get dependsOnTime(): boolean {
    return this.waiting > 0 || this.notifiedSuspension !== null || this.#isSlowed;
  }

  get isForgettable(): boolean {
    const isWhole = [...this.pools.values()].every(({ window }) => window.isWhole);
    return this.out === 0 && isWhole && !this.dependsOnTime;
  }

  /** As the workers are to see it. */
  status(): ProviderStatus {
    const nowMs = this.#world.monotonicMs();
    const slowedForMs = Math.max(
      this.#isSlowed ? this.#pacing!.untilMs - nowMs : 0,
      ...[...this.pools.values()].map(({ window }) => window.slowedForMs(nowMs)),
    );
    const isSlowed = slowedForMs > 0;
    const reason = this.outage.reason ?? (isSlowed ? this.#complaint : null);
    return {
      provider: this.key,
      suspension: this.#suspension(),
      slowedForMs: isSlowed ? slowedForMs : null,
      reason,
    };
  }

  get suspensionKind(): Suspension['kind'] | null {
    return this.#suspension()?.kind ?? null;
  }

  #suspension(): Suspension | null {
    const { suspendedForMs } = this.outage;
    if (suspendedForMs > 0) return { kind: 'outage', forMs: suspendedForMs };
    const waitMs = this.#pacing?.bucket.waitMs(this.#world.monotonicMs()) ?? 0;
    return waitMs >= PACE_SUSPENDS_FROM_MS ? { kind: 'pace', forMs: waitMs } : null;
  }

  get #isSlowed(): boolean {
    return this.#pacing !== null && this.#pacing.reason !== null;
  }

  #usualPacing(): Pacing | null {
    const bucket = this.#bucketOf(this.limits.messagesPerMinute);
    return bucket && { bucket, untilMs: Infinity, reason: null };
  }

  #bucketOf(perMinute: number | null): TokenBucket | null {
    return perMinute === null ? null : new TokenBucket(perMinute, this.#world.monotonicMs());
  }
}

/** Shorter waits are waited for in place. */
const PACE_SUSPENDS_FROM_MS = 1_500;

function sum<Item>(items: ReadonlyMap<unknown, Item>, of: (item: Item) => number): number {
  let total = 0;
  for (const item of items.values()) total += of(item);
  return total;
}
