/**
 * What the broker knows of one provider: its pools, one per address of ours, each with a Window of
 * connections; whether none of its servers answers (delivery/outage/outage.ts); and its message rate (TokenBucket).
 */
import type { World } from '../../lib/world.ts';
import type { PoolKey, ProviderStatus, WorkerMessage } from './messages.ts';
import type { GroupRoom } from './room.ts';
import { Outage } from '../outage/outage.ts';
import type { ProviderLimits, ShapingSettings } from '../shaping/settings.ts';
import { TokenBucket } from '../token-bucket.ts';
import { Window } from '../window.ts';

/** The part of a pool that one worker holds. */
export type Holder = {
  held: number;
  wanted: number;
  urgent: number;
  /** When it began to wait without holding a connection. */
  waitingSinceMs: number;
  /** Connections that it was told to return and has not returned yet. */
  yielding: number;
  lastSent: { share: number; window: number; othersWait: boolean };
};

export class BrokerPool {
  readonly key: PoolKey;
  readonly window: Window;
  readonly holders = new Map<number, Holder>();
  readonly newConnections: TokenBucket | null;
  readonly #room: GroupRoom;
  #out = 0;

  constructor(
    key: PoolKey,
    parts: { window: Window; newConnections: TokenBucket | null; room: GroupRoom },
  ) {
    this.key = key;
    this.window = parts.window;
    this.newConnections = parts.newConnections;
    this.#room = parts.room;
  }

  /** Permits granted over all workers. */
  get out(): number {
    return this.#out;
  }

  /** Counts permits that were granted, or returned if negative. */
  count(permits: number): void {
    this.#room.changed(this.#out, this.#out + permits);
    this.#out += permits;
  }

  /** How many permits the pool may have, of its window and of the room of its group. */
  get limit(): number {
    return Math.min(this.window.size, this.#room.limitOf(this.#out));
  }

  holder(worker: number): Holder {
    let holder = this.holders.get(worker);
    if (!holder) {
      const lastSent = { share: 0, window: 0, othersWait: false };
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
  readonly #roomOf: (source: string) => GroupRoom;
  #pacing: Pacing | null;
  /** The reply that asked for fewer connections. */
  #complaint: string | null = null;
  usedAtMs: number;
  /** The suspension that the workers were last notified of. */
  notifiedSuspension: Suspension['kind'] | null = null;

  constructor(
    key: string,
    limits: ProviderLimits,
    context: {
      settings: ShapingSettings;
      world: Pick<World, 'monotonicMs' | 'random'>;
      /** What the provider's group may have from one of our addresses. */
      roomOf: (source: string) => GroupRoom;
    },
  ) {
    this.key = key;
    this.limits = limits;
    this.#settings = context.settings;
    this.#world = context.world;
    this.#roomOf = context.roomOf;
    this.outage = new Outage(context.settings.suspension, context.world);
    this.#pacing = this.#usualPacing();
    this.usedAtMs = context.world.monotonicMs();
  }

  pool(source: string): BrokerPool {
    let pool = this.pools.get(source);
    if (!pool) {
      const { connections, newConnectionsPerMinute } = this.limits;
      pool = new BrokerPool(
        { provider: this.key, source },
        {
          window: new Window(connections, this.#settings.recovery),
          newConnections: this.#bucketOf(newConnectionsPerMinute),
          room: this.#roomOf(source),
        },
      );
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

  /** How many connections the pool may have now, over all workers. */
  windowOf(pool: BrokerPool): number {
    return this.outage.isOngoing || this.#isSlowed ? 1 : pool.limit;
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

  /** Ends the slowdown when its time is up. @returns whether it ended */
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

  /** The state as workers receive it. */
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

/** Shorter waits do not suspend the provider: its deliveries wait in memory. */
const PACE_SUSPENDS_FROM_MS = 1_500;

function sum<Item>(items: ReadonlyMap<unknown, Item>, of: (item: Item) => number): number {
  let total = 0;
  for (const item of items.values()) total += of(item);
  return total;
}
