/**
 * What the broker knows of one provider: its pools, one per address of ours, each with a Window of
 * connections; whether none of its servers answers (delivery/outage/outage.ts); and its message rate (TokenBucket).
 */
import type { World } from '../../lib/world.ts';
import type { ProviderStatus, WorkerMessage } from './messages.ts';
import type { GroupRoom } from './room.ts';
import { Outage } from '../outage/outage.ts';
import {
  type ProviderLimits,
  type RecoveryRules,
  type ShapingSettings,
  START_CONNECTIONS,
} from '../shaping/settings.ts';

/** The part of a pool that one worker holds. */
export type Holder = {
  held: number;
  wanted: number;
  urgent: number;
  /** When it began to wait without holding a connection. */
  waitingSinceMs: number;
  /** Connections that it was told to return and has not returned yet. */
  yielding: number;
  lastSent: { isWanted: boolean; share: number; window: number };
};

export class BrokerPool {
  readonly source: string;
  readonly window: Window;
  readonly holders = new Map<number, Holder>();
  readonly newConnections: TokenBucket | null;
  readonly #room: GroupRoom;
  #out = 0;

  constructor(
    source: string,
    parts: { window: Window; newConnections: TokenBucket | null; room: GroupRoom },
  ) {
    this.source = source;
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
      pool = new BrokerPool(source, {
        window: new Window(connections, this.#settings.recovery),
        newConnections: this.#bucketOf(newConnectionsPerMinute),
        room: this.#roomOf(source),
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

/** Complaints on several connections within this time count once. */
const SAME_COMPLAINT_MS = 2_000;
const TRY_AGAIN_MAX_MS = 3600_000;
/** A complaint this long after the last starts with the first waiting time again. */
const REMEMBERED_MS = 6 * 3600_000;

/**
 * How many connections a receiver accepts: grows with each message accepted while all are busy,
 * halves when it complains, and recovers slowly.
 *
 * The number that was too many is remembered. The window grows up to it and reaches it only after a
 * wait, which doubles with each further complaint: otherwise the window would oscillate around it.
 */
export class Window {
  size: number;
  readonly #limit: number;
  readonly #rules: RecoveryRules;
  /** The smallest number that was too many; Infinity: none is known. */
  #tooMany = Infinity;
  #tryAgainAfterMs: number;
  #tryAgainAtMs = 0;
  #growAtMs = 0;
  #complainedAtMs = -Infinity;
  #hasGrown = false;

  constructor(limit: number, rules: RecoveryRules) {
    this.#limit = limit;
    this.#rules = rules;
    this.#tryAgainAfterMs = rules.tryAgainAfterMs;
    this.size = Math.min(START_CONNECTIONS, limit);
  }

  get isWhole(): boolean {
    return this.#tooMany === Infinity;
  }

  /** How long until the number that was too many is tried again; 0: no number was too many. */
  slowedForMs(nowMs: number): number {
    return this.isWhole ? 0 : Math.max(1, this.#tryAgainAtMs - nowMs);
  }

  /** @param count messages taken while all connections were busy. @returns whether it grew */
  grow(count: number, nowMs: number): boolean {
    if (nowMs < this.#growAtMs) return false;
    const mayTryAll = nowMs >= this.#tryAgainAtMs;
    const most = mayTryAll ? this.#limit : Math.min(this.#limit, this.#tooMany - 1);
    if (this.size >= most) return false;
    this.size = this.isWhole ? Math.min(most, this.size + count) : this.size + 1;
    if (!this.isWhole) this.#growAtMs = nowMs + this.#rules.stepMs;
    this.#hasGrown = true;
    if (this.size === this.#limit) this.#tooMany = Infinity;
    return true;
  }

  /**
   * The receiver complained. A refused new connection is about the present number, however soon after
   * the last complaint; other complaints may be about the number before.
   * @param openedForMs how long ago the connection was begun that is refused; null: another reply
   * @returns whether it shrank
   */
  shrink(nowMs: number, openedForMs: number | null = null): boolean {
    const sinceLastMs = nowMs - this.#complainedAtMs;
    if (sinceLastMs <= (openedForMs ?? SAME_COMPLAINT_MS)) return false;
    this.#complainedAtMs = nowMs;
    if (sinceLastMs > REMEMBERED_MS) this.#tryAgainAfterMs = this.#rules.tryAgainAfterMs;
    else if (this.#hasGrown) this.#tryAgainAfterMs = this.#longer(this.#tryAgainAfterMs);
    this.#hasGrown = false;
    this.#tooMany = Math.max(2, this.size);
    this.#tryAgainAtMs = nowMs + this.#tryAgainAfterMs;
    this.#growAtMs = nowMs + this.#rules.holdDownMs;
    this.size = Math.max(1, Math.floor(this.size / 2));
    return true;
  }

  /** After an outage the server may accept less than before. */
  restart(): void {
    this.size = Math.min(this.size, START_CONNECTIONS);
  }

  #longer(waitMs: number): number {
    return Math.min(Math.max(TRY_AGAIN_MAX_MS, this.#rules.tryAgainAfterMs), waitMs * 2);
  }
}

/** A rate per minute with a burst of one second's worth, at least one. */
class TokenBucket {
  readonly perMinute: number;
  #tokens: number;
  #atMs: number;

  constructor(perMinute: number, nowMs: number) {
    this.perMinute = perMinute;
    this.#tokens = this.#most;
    this.#atMs = nowMs;
  }

  /** How long until a token is available; 0: one is. */
  waitMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#tokens >= 1 ? 0 : ((1 - this.#tokens) / this.perMinute) * 60_000;
  }

  /** @returns how many tokens were taken: up to `max`, 0 when none is available */
  take(max: number, nowMs: number): number {
    this.#refill(nowMs);
    const taken = Math.min(max, Math.floor(this.#tokens));
    this.#tokens -= taken;
    return taken;
  }

  giveBack(count: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + count);
  }

  /** Without tokens: the first message waits, too. */
  empty(): void {
    this.#tokens = 0;
  }

  get #most(): number {
    return Math.max(1, this.perMinute / 60);
  }

  #refill(nowMs: number): void {
    const added = ((nowMs - this.#atMs) / 60_000) * this.perMinute;
    this.#tokens = Math.min(this.#most, this.#tokens + added);
    this.#atMs = nowMs;
  }
}
