/**
 * One provider as the broker knows it: its state (delivery/shaping/provider-state.ts), a pool for each of our addresses, whether any
 * of its servers answers (delivery/outage/outage.ts), and its message rate.
 */
import {
  PROVIDER_TRANSITIONS,
  type ProviderEvent,
  type ProviderState,
} from '../shaping/provider-state.ts';
import { nextState } from '../../lib/state-machine.ts';
import type { World } from '../../lib/world.ts';
import type { ProviderStatus, WorkerMessage } from './messages.ts';
import { BrokerPool } from './pool.ts';
import type { GroupRoom } from './room.ts';
import { type Failure, Outage } from '../outage/outage.ts';
import type { ProviderLimits, ShapingSettings } from '../shaping/settings.ts';
import { TokenBucket } from './token-bucket.ts';
import { Window } from './window.ts';

type Complaint = Extract<WorkerMessage, { kind: 'slow' }>;
type Pacing = { bucket: TokenBucket; untilMs: number; isAskedFor: boolean };
type ProviderContext = {
  settings: ShapingSettings;
  world: Pick<World, 'monotonicMs' | 'random'>;
  /** What the provider's group may have from one of our addresses. */
  roomOf: (source: string) => GroupRoom;
};

/** Shorter waits are no state: the deliveries wait in the memory of their workers. */
const WAIT_MIN_MS = 1_500;

export class BrokerProvider {
  readonly key: string;
  readonly limits: ProviderLimits;
  readonly outage: Outage;
  readonly pools = new Map<string, BrokerPool>();
  readonly #context: ProviderContext;
  #state: ProviderState = 'open';
  #pacing: Pacing | null;
  #complaint: string | null = null;
  usedAtMs: number;
  /** Whether the workers were last notified that no message may start. */
  isWaitKnown = false;

  constructor(key: string, limits: ProviderLimits, context: ProviderContext) {
    this.key = key;
    this.limits = limits;
    this.#context = context;
    this.outage = new Outage(context.settings.suspension, context.world);
    this.#pacing = this.#usualPacing();
    this.usedAtMs = this.#nowMs();
  }

  get state(): ProviderState {
    return this.#state;
  }

  pool(source: string): BrokerPool {
    let pool = this.pools.get(source);
    if (!pool) {
      const { connections, newConnectionsPerMinute } = this.limits;
      pool = new BrokerPool(
        { provider: this.key, source },
        {
          window: new Window(connections, this.#context.settings.recovery),
          newConnections: this.#bucketOf(newConnectionsPerMinute),
          room: this.#context.roomOf(source),
        },
      );
      this.pools.set(source, pool);
    }
    return pool;
  }

  get inUse(): number {
    return this.#sum((pool) => pool.inUse);
  }

  windowOf(pool: BrokerPool): number {
    return this.#state === 'suspended' || this.#isPaced ? 1 : pool.limit;
  }

  /** How many messages a new connection may carry now; null: no limit of its own; 0: it has to wait. */
  allow(): number | null {
    if (this.#pacing === null) return null;
    return this.#pacing.bucket.take(this.limits.messagesPerConnection, this.#nowMs());
  }

  giveBack(unused: number): void {
    this.#pacing?.bucket.giveBack(unused);
  }

  /** @returns whether the provider gets less from now on */
  complained({ source, reason, pace, openedForMs }: Complaint): boolean {
    const nowMs = this.#nowMs();
    this.#complaint = reason;
    const shrank = this.pool(source).window.shrink(nowMs, openedForMs);
    if (!shrank && pace === null) return false;
    if (pace !== null) {
      const bucket = new TokenBucket(pace.messagesPerMinute, nowMs);
      bucket.empty();
      this.#pacing = { bucket, untilMs: nowMs + pace.forMs, isAskedFor: true };
    }
    this.#move('complained');
    return true;
  }

  /** Messages were taken while all connections were busy. @returns whether the state changed */
  took(source: string, count: number): boolean {
    this.pool(source).window.grow(count, this.#nowMs());
    return this.#recover();
  }

  /** Ends the message rate that the provider asked for when its time is up. @returns whether it ended */
  expire(): boolean {
    if (this.#pacing === null || this.#nowMs() < this.#pacing.untilMs) return false;
    this.#pacing = this.#usualPacing();
    this.#restartWindows();
    this.#recover();
    return true;
  }

  /** @returns whether a suspension begins */
  failed(failure: Failure): boolean {
    const begins = this.outage.failed(failure);
    if (begins) this.#move('silent');
    return begins;
  }

  /** @returns whether that ends the outage */
  answered(address: string): boolean {
    if (!this.outage.answered(address)) return false;
    // After an outage the servers may accept less than before.
    this.#restartWindows();
    this.#reopen();
    return true;
  }

  /** Our uplink was down in this phase: nothing in it was an outage of the provider. */
  takeBack(phase: number): void {
    this.outage.takeBack(phase);
    if (this.#state === 'suspended' && !this.outage.isOngoing) this.#reopen();
  }

  /** Whether time alone may change what is allowed. */
  get dependsOnTime(): boolean {
    return this.#waiting > 0 || this.isWaitKnown || this.#isPaced;
  }

  get isForgettable(): boolean {
    return this.inUse === 0 && !this.#asksForLess && !this.dependsOnTime;
  }

  status(): ProviderStatus {
    const common = { provider: this.key, state: this.#state, waitMs: this.waitMs };
    if (this.#state === 'open') return { ...common, forMs: 0, reason: null };
    if (this.#state === 'suspended') {
      const { suspendedForMs: forMs, reason } = this.outage;
      return { ...common, forMs, reason };
    }
    const nowMs = this.#nowMs();
    const windows = [...this.pools.values()].map(({ window }) => window.slowedForMs(nowMs));
    const forMs = Math.max(this.#isPaced ? this.#pacing!.untilMs - nowMs : 0, ...windows);
    return { ...common, forMs, reason: this.#complaint };
  }

  /** Milliseconds for which no message may start. */
  get waitMs(): number {
    const { suspendedForMs } = this.outage;
    if (suspendedForMs > 0) return suspendedForMs;
    const waitMs = this.#pacing?.bucket.waitMs(this.#nowMs()) ?? 0;
    return waitMs >= WAIT_MIN_MS ? waitMs : 0;
  }

  get #waiting(): number {
    return this.#sum((pool) => pool.waiting);
  }

  get #isPaced(): boolean {
    return this.#pacing?.isAskedFor === true;
  }

  /** It has fewer connections or messages than usual because of a reply. */
  get #asksForLess(): boolean {
    return this.#isPaced || [...this.pools.values()].some(({ window }) => !window.isWhole);
  }

  #recover(): boolean {
    if (this.#state !== 'slowed' || this.#asksForLess) return false;
    this.#move('recovered');
    return true;
  }

  #reopen(): void {
    this.#move('answered');
    if (this.#asksForLess) this.#move('complained');
  }

  #move(event: ProviderEvent): void {
    this.#state = nextState(PROVIDER_TRANSITIONS, this.#state, event);
  }

  #restartWindows(): void {
    for (const { window } of this.pools.values()) window.restart();
  }

  #usualPacing(): Pacing | null {
    const bucket = this.#bucketOf(this.limits.messagesPerMinute);
    return bucket && { bucket, untilMs: Infinity, isAskedFor: false };
  }

  #bucketOf(perMinute: number | null): TokenBucket | null {
    return perMinute === null ? null : new TokenBucket(perMinute, this.#nowMs());
  }

  #nowMs(): number {
    return this.#context.world.monotonicMs();
  }

  #sum(of: (pool: BrokerPool) => number): number {
    let total = 0;
    for (const pool of this.pools.values()) total += of(pool);
    return total;
  }
}
