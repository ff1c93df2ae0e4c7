/** The broker's state of one provider: state, pools by source, outage and message rate. */
import {
  PROVIDER_TRANSITIONS,
  type ProviderEvent,
  type ProviderState,
} from '../shaping/provider-state.ts';
import { nextState } from '../../lib/state-machine.ts';
import type { World } from '../../lib/world.ts';
import type { ProviderStatus, WorkerMessage } from './broker-messages.ts';
import { BrokerPool } from './broker-pool.ts';
import type { GroupCapacity } from './group-capacity.ts';
import { type ProviderFailure, Outage } from '../outage/outage.ts';
import type { ProviderLimits, ShapingSettings } from '../shaping/settings.ts';
import { TokenBucket } from './token-bucket.ts';
import { ConnectionWindow } from './connection-window.ts';

type SlowMessage = Extract<WorkerMessage, { kind: 'slow' }>;
type Pacing = { bucket: TokenBucket; untilMs: number; isAskedFor: boolean };
type ProviderContext = {
  settings: ShapingSettings;
  world: Pick<World, 'monotonicMs' | 'random'>;
  capacityOf: (source: string) => GroupCapacity;
};

/** Shorter waits are not reported as a state; the deliveries wait in the memory of their workers. */
const WAIT_MIN_MS = 1_500;

export class BrokerProvider {
  readonly key: string;
  readonly limits: ProviderLimits;
  readonly outage: Outage;
  readonly pools = new Map<string, BrokerPool>();
  readonly #context: ProviderContext;
  #state: ProviderState = 'open';
  #pacing: Pacing | null;
  #slowReason: string | null = null;
  usedAtMs: number;
  /** True when the last notification to the workers said that no message may start. */
  isWaitReported = false;

  constructor(key: string, limits: ProviderLimits, context: ProviderContext) {
    this.key = key;
    this.limits = limits;
    this.#context = context;
    this.outage = new Outage(context.settings.suspension, context.world);
    this.#pacing = this.#configuredPacing();
    this.usedAtMs = this.#nowMs();
  }

  get state(): ProviderState {
    return this.#state;
  }

  poolFor(source: string): BrokerPool {
    let pool = this.pools.get(source);
    if (!pool) {
      const { connections, newConnectionsPerMinute } = this.limits;
      pool = new BrokerPool(
        { provider: this.key, source },
        {
          window: new ConnectionWindow(connections, this.#context.settings.recovery),
          newConnections: this.#bucketOf(newConnectionsPerMinute),
          capacity: this.#context.capacityOf(source),
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

  /**
   * Takes the message allowance of a new connection, null when it has no limit of its own, or 0 when it has to wait.
   */
  takeAllowance(): number | null {
    if (this.#pacing === null) return null;
    return this.#pacing.bucket.takeTokens(this.limits.messagesPerConnection, this.#nowMs());
  }

  returnAllowance(unused: number): void {
    this.#pacing?.bucket.returnTokens(unused);
  }

  /**
   * Applies a reply that asked for less mail.
   * @returns whether the provider gets fewer connections or messages from now on
   */
  slowDown({ source, reason, pace, openedForMs }: SlowMessage): boolean {
    const nowMs = this.#nowMs();
    this.#slowReason = reason;
    const shrank = this.poolFor(source).window.shrink(nowMs, openedForMs);
    if (!shrank && pace === null) return false;
    if (pace !== null) {
      const bucket = new TokenBucket(pace.messagesPerMinute, nowMs);
      bucket.empty();
      this.#pacing = { bucket, untilMs: nowMs + pace.forMs, isAskedFor: true };
    }
    this.#applyEvent('limited');
    return true;
  }

  /**
   * Grows the window by messages that were accepted while all connections were busy.
   * @returns whether the state changed
   */
  recordAccepted(source: string, count: number): boolean {
    this.poolFor(source).window.grow(count, this.#nowMs());
    return this.#recover();
  }

  /**
   * Ends the message rate that the provider asked for if its time is over.
   * @returns whether the rate ended
   */
  endPacingIfOver(): boolean {
    if (this.#pacing === null || this.#nowMs() < this.#pacing.untilMs) return false;
    this.#pacing = this.#configuredPacing();
    this.#restartWindows();
    this.#recover();
    return true;
  }

  /**
   * Records an attempt that reached no server.
   * @returns whether a suspension begins
   */
  recordFailure(failure: ProviderFailure): boolean {
    const begins = this.outage.recordFailure(failure);
    if (begins) this.#applyEvent('silent');
    return begins;
  }

  /**
   * Records that a server answered.
   * @returns whether this ends the outage
   */
  recordReached(address: string): boolean {
    if (!this.outage.recordReached(address)) return false;
    this.#restartWindows();
    this.#reopen();
    return true;
  }

  /** Undoes the failures of a phase in which the uplink was down, because they were not the provider's. */
  undoFailures(phase: number): void {
    this.outage.undoPhase(phase);
    if (this.#state === 'suspended' && !this.outage.isOngoing) this.#reopen();
  }

  /** True while time alone may change the limits. */
  get dependsOnTime(): boolean {
    return this.#demand > 0 || this.isWaitReported || this.#isPaced;
  }

  get isIdle(): boolean {
    return this.inUse === 0 && !this.#isLimited && !this.dependsOnTime;
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
    return { ...common, forMs, reason: this.#slowReason };
  }

  get waitMs(): number {
    const { suspendedForMs } = this.outage;
    if (suspendedForMs > 0) return suspendedForMs;
    const waitMs = this.#pacing?.bucket.waitMs(this.#nowMs()) ?? 0;
    return waitMs >= WAIT_MIN_MS ? waitMs : 0;
  }

  get #demand(): number {
    return this.#sum((pool) => pool.demand);
  }

  get #isPaced(): boolean {
    return this.#pacing?.isAskedFor === true;
  }

  get #isLimited(): boolean {
    return this.#isPaced || [...this.pools.values()].some(({ window }) => window.isReduced);
  }

  #recover(): boolean {
    if (this.#state !== 'slowed' || this.#isLimited) return false;
    this.#applyEvent('recovered');
    return true;
  }

  #reopen(): void {
    this.#applyEvent('answered');
    if (this.#isLimited) this.#applyEvent('limited');
  }

  #applyEvent(event: ProviderEvent): void {
    this.#state = nextState(PROVIDER_TRANSITIONS, this.#state, event);
  }

  #restartWindows(): void {
    for (const { window } of this.pools.values()) window.restart();
  }

  #configuredPacing(): Pacing | null {
    const bucket = this.#bucketOf(this.limits.messagesPerMinute);
    return bucket && { bucket, untilMs: Infinity, isAskedFor: false };
  }

  #bucketOf(perMinute: number | null): TokenBucket | null {
    return perMinute === null ? null : new TokenBucket(perMinute, this.#nowMs());
  }

  #nowMs(): number {
    return this.#context.world.monotonicMs();
  }

  #sum(measure: (pool: BrokerPool) => number): number {
    let total = 0;
    for (const pool of this.pools.values()) total += measure(pool);
    return total;
  }
}
