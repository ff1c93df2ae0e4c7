/** One provider as a worker sees it: its connections there, and what the broker says of it. */
import type { World } from '../core/world.ts';
import { ConnectionPool, type PoolListener, type Slot } from './connection-pool.ts';
import type { ProviderStatus } from './permits.ts';
import { type ProviderLimits, START_CONNECTIONS } from './shaping-defaults.ts';

/** For people; times on the monotonic clock. */
export type ProviderFacts = {
  provider: string;
  state: 'open' | 'full' | 'slowed' | 'suspended';
  reason: string | null;
  untilMs: number | null;
  /** Connections that the machine may have now, and that this worker has. */
  window: number;
  open: number;
  idle: number;
};

/** A provider without mail is remembered so long: its share is right when mail comes again. */
const FORGET_AFTER_MS = 10 * 60_000;
/** Of more than this the quiet ones are forgotten at once. */
const PROVIDERS_MAX = 10_000;

export class ProviderView {
  readonly key: string;
  readonly limits: ProviderLimits;
  /** Connections that this worker may count on, over all of our addresses. */
  share: number;
  readonly #world: World;
  readonly #listener: PoolListener;
  readonly #pools = new Map<string, ConnectionPool>();
  #suspension: { kind: 'outage' | 'pace'; untilMs: number } | null = null;
  #slowedUntilMs = -Infinity;
  #reason: string | null = null;
  #usedAtMs: number;

  constructor(
    key: string,
    parts: { limits: ProviderLimits; world: World; listener: PoolListener },
  ) {
    this.key = key;
    this.limits = parts.limits;
    this.share = Math.min(START_CONNECTIONS, parts.limits.connections);
    this.#world = parts.world;
    this.#listener = parts.listener;
    this.#usedAtMs = parts.world.monotonicMs();
  }

  receive({ suspension, slowedForMs, reason }: ProviderStatus): this {
    const nowMs = this.#world.monotonicMs();
    this.#suspension = suspension && { kind: suspension.kind, untilMs: nowMs + suspension.forMs };
    this.#slowedUntilMs = slowedForMs === null ? -Infinity : nowMs + slowedForMs;
    this.#reason = reason;
    this.#usedAtMs = nowMs;
    return this;
  }

  pool(source: string): ConnectionPool {
    let pool = this.#pools.get(source);
    if (!pool) {
      const { limits } = this;
      const window = Math.min(START_CONNECTIONS, limits.connections);
      pool = new ConnectionPool(
        { provider: this.key, source },
        { limits, window, listener: this.#listener },
      );
      this.#pools.set(source, pool);
      this.countShares();
    }
    return pool;
  }

  countShares(): void {
    this.share = total(this.#pools.values(), ({ share }) => share);
  }

  /** Of sessions from these addresses of ours. */
  idleHosts(sources: readonly (string | undefined)[]): Set<string> {
    const pools = [...this.#pools.values()].filter(({ source }) => sources.includes(source));
    return new Set(
      pools.flatMap(({ idle }) => idle.map(({ connection }) => connection.facts.host)),
    );
  }

  /** Messages that may be under way beside those that have a session of their own. */
  get following(): number {
    return total(this.#pools.values(), ({ pipelining }) => pipelining);
  }

  get suspendedForMs(): number {
    return this.#suspension === null
      ? 0
      : Math.max(0, this.#suspension.untilMs - this.#world.monotonicMs());
  }

  /** Nobody answers there. */
  get isInOutage(): boolean {
    return this.#suspension?.kind === 'outage' && this.suspendedForMs > 0;
  }

  /** Why it rests or rested as a whole, while nobody there has answered since; else null. */
  get outageReason(): string | null {
    return this.#slowedUntilMs > this.#world.monotonicMs() ? null : this.#reason;
  }

  /** The next message has to wait for its time. */
  get isPaced(): boolean {
    return this.#suspension?.kind === 'pace' && this.suspendedForMs > 0;
  }

  isForgettable(providers: number): boolean {
    const isEmpty = [...this.#pools.values()].every((pool) => pool.isEmpty);
    if (!isEmpty) this.#usedAtMs = this.#world.monotonicMs();
    const isQuiet = this.suspendedForMs === 0 && this.#slowedUntilMs <= this.#world.monotonicMs();
    const idleMs = this.#world.monotonicMs() - this.#usedAtMs;
    return isQuiet && idleMs > (providers > PROVIDERS_MAX ? 0 : FORGET_AFTER_MS);
  }

  wakeAll(): void {
    for (const pool of this.#pools.values()) pool.wakeAll();
  }

  sweep(nowMs: number): void {
    for (const pool of this.#pools.values()) {
      pool.sweep(nowMs);
      pool.returnUnused();
    }
  }

  drainIdle(): Slot[] {
    return [...this.#pools.values()].flatMap((pool) => pool.idle.splice(0));
  }

  describe(): ProviderFacts {
    const counts = {
      provider: this.key,
      window: total(this.#pools.values(), ({ window }) => window),
      open: total(this.#pools.values(), ({ held }) => held),
      idle: total(this.#pools.values(), ({ idle }) => idle.length),
    };
    const nowMs = this.#world.monotonicMs();
    if (this.suspendedForMs > 0) {
      return {
        ...counts,
        state: 'suspended',
        reason: this.#reason,
        untilMs: this.#suspension!.untilMs,
      };
    }
    if (this.#slowedUntilMs > nowMs) {
      return { ...counts, state: 'slowed', reason: this.#reason, untilMs: this.#slowedUntilMs };
    }
    const isFull = counts.open > 0 && counts.idle === 0 && counts.open >= counts.window;
    const limit = `at its limit of ${counts.window} connections`;
    return {
      ...counts,
      state: isFull ? 'full' : 'open',
      reason: isFull ? limit : null,
      untilMs: null,
    };
  }
}

function total(pools: Iterable<ConnectionPool>, of: (pool: ConnectionPool) => number): number {
  let sum = 0;
  for (const pool of pools) sum += of(pool);
  return sum;
}
