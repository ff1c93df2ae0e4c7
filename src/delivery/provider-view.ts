/**
 * One provider as a worker knows it: the state that the broker reported, and a pool of sessions for each of our
 * addresses.
 */
import type { World } from '../lib/world.ts';
import type { ProviderStatus } from './broker/messages.ts';
import { type PoolContext, SessionPool } from './session-pool.ts';
import { type ProviderLimits, START_CONNECTIONS } from './shaping/settings.ts';

/** For metrics and `letterhaus queue`; times on the monotonic clock. */
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

/** A provider without mail is kept for this time, so that its share is known for the next mail. */
const FORGET_AFTER_MS = 10 * 60_000;
/** Beyond this, providers without mail are forgotten at once. */
const PROVIDERS_MAX = 10_000;

/** One provider as a worker sees it: its connections there, and the state that the broker reported. */
export class ProviderView {
  readonly key: string;
  /** Connections that this worker may count on, over all of our addresses. */
  share: number;
  readonly #limits: ProviderLimits;
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #context: PoolContext;
  readonly #pools = new Map<string, SessionPool>();
  #suspension: { kind: 'outage' | 'pace'; untilMs: number } | null = null;
  #slowedUntilMs = -Infinity;
  #reason: string | null = null;
  #usedAtMs: number;

  constructor(key: string, { limits, context }: { limits: ProviderLimits; context: PoolContext }) {
    this.key = key;
    this.share = Math.min(START_CONNECTIONS, limits.connections);
    this.#limits = limits;
    this.#world = context.world;
    this.#context = context;
    this.#usedAtMs = context.world.monotonicMs();
  }

  receive({ suspension, slowedForMs, reason }: ProviderStatus): void {
    const nowMs = this.#world.monotonicMs();
    this.#suspension = suspension && { kind: suspension.kind, untilMs: nowMs + suspension.forMs };
    this.#slowedUntilMs = slowedForMs === null ? -Infinity : nowMs + slowedForMs;
    this.#reason = reason;
    this.#usedAtMs = nowMs;
    for (const pool of this.#pools.values()) pool.wakeAll();
  }

  pool(source: string): SessionPool {
    let pool = this.#pools.get(source);
    if (!pool) {
      const window = Math.min(START_CONNECTIONS, this.#limits.connections);
      const parts = { limits: this.#limits, window, context: this.#context };
      pool = new SessionPool({ provider: this.key, source }, parts);
      this.#pools.set(source, pool);
      this.countShares();
    }
    return pool;
  }

  countShares(): void {
    this.share = total(this.#pools.values(), ({ share }) => share);
  }

  /** Hosts with an idle session from these addresses of ours. */
  idleHosts(sources: readonly (string | undefined)[]): Set<string> {
    const pools = [...this.#pools.values()].filter(({ source }) => sources.includes(source));
    return new Set(pools.flatMap(({ idle }) => idle.map(({ host }) => host)));
  }

  /** Sessions on which a message may be announced behind the one in progress. */
  get following(): number {
    return total(this.#pools.values(), ({ pipelining }) => pipelining);
  }

  get suspendedForMs(): number {
    return this.#suspension === null
      ? 0
      : Math.max(0, this.#suspension.untilMs - this.#world.monotonicMs());
  }

  /** No server of the provider answers. */
  get isInOutage(): boolean {
    return this.#suspension?.kind === 'outage' && this.suspendedForMs > 0;
  }

  /** Why it is or was suspended, while no server has answered since; else null. */
  get outageReason(): string | null {
    return this.#slowedUntilMs > this.#world.monotonicMs() ? null : this.#reason;
  }

  /** The provider is paced: the next message has to wait. */
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

  sweep(): void {
    for (const pool of this.#pools.values()) {
      pool.sweep();
      pool.returnUnused();
    }
  }

  /** Ends idle sessions now, and the others when their message is done. */
  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.giveBack(pool.permits)));
  }

  describe(): ProviderFacts {
    const counts = {
      provider: this.key,
      window: total(this.#pools.values(), ({ window }) => window),
      open: total(this.#pools.values(), ({ permits }) => permits),
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

function total(pools: Iterable<SessionPool>, of: (pool: SessionPool) => number): number {
  let sum = 0;
  for (const pool of pools) sum += of(pool);
  return sum;
}
