/** A worker's copy of one provider: the state that the broker reported, and a pool of sessions for each source. */
import { PROVIDER_TRANSITIONS, type ProviderState } from './provider-state.ts';
import { nextState } from '../../lib/state-machine.ts';
import type { World } from '../../lib/world.ts';
import type { ProviderStatus } from '../broker/broker-messages.ts';
import { type PoolContext, SessionPool } from './session-pool.ts';
import { type ProviderLimits, START_CONNECTIONS } from './settings.ts';

/** Facts for metrics and `letterhaus queue`, with times on the monotonic clock. */
export type ProviderFacts = {
  provider: string;
  state: ProviderState;
  reason: string | null;
  untilMs: number | null;
  window: number;
  open: number;
  idle: number;
};

/** Milliseconds that a provider without mail is kept, so that its share is known for the next mail. */
const UNUSED_AFTER_MS = 10 * 60_000;
const PROVIDERS_MAX = 10_000;

export class ProviderView {
  readonly key: string;
  readonly #limits: ProviderLimits;
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #context: PoolContext;
  readonly #pools = new Map<string, SessionPool>();
  /** The broker's last report, with times on this process's monotonic clock. */
  #status = {
    state: 'open' as ProviderState,
    untilMs: 0,
    waitUntilMs: 0,
    reason: null as string | null,
  };
  #usedAtMs: number;

  constructor(key: string, { limits, context }: { limits: ProviderLimits; context: PoolContext }) {
    this.key = key;
    this.#limits = limits;
    this.#world = context.world;
    this.#context = context;
    this.#usedAtMs = context.world.monotonicMs();
  }

  receive({ state, forMs, waitMs, reason }: ProviderStatus): void {
    const nowMs = this.#world.monotonicMs();
    this.#status = { state, untilMs: nowMs + forMs, waitUntilMs: nowMs + waitMs, reason };
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
    }
    return pool;
  }

  /** This worker's part of the connections, over all sources. */
  get share(): number {
    if (this.#pools.size === 0) return Math.min(START_CONNECTIONS, this.#limits.connections);
    return sumOver(this.#pools.values(), ({ share }) => share);
  }

  idleHosts(sources: readonly (string | undefined)[]): Set<string> {
    const pools = [...this.#pools.values()].filter(({ source }) => sources.includes(source));
    return new Set(pools.flatMap(({ idle }) => idle.map(({ host }) => host)));
  }

  /** Sessions on which a message may be announced behind the current one. */
  get pipeliningCount(): number {
    return sumOver(this.#pools.values(), ({ pipeliningCount }) => pipeliningCount);
  }

  get suspendedForMs(): number {
    return Math.max(0, this.#status.waitUntilMs - this.#world.monotonicMs());
  }

  get isInOutage(): boolean {
    return this.#status.state === 'suspended' && this.suspendedForMs > 0;
  }

  /** Reason for the suspension until a server answers; else null. */
  get outageReason(): string | null {
    return this.#status.state === 'suspended' ? this.#status.reason : null;
  }

  /** True while a message rate makes the next message wait. */
  get isPaced(): boolean {
    return this.#status.state !== 'suspended' && this.suspendedForMs > 0;
  }

  /** Returns whether the provider has no mail and no state that must be remembered, among `providerCount`. */
  isIdle(providerCount: number): boolean {
    const nowMs = this.#world.monotonicMs();
    const isOpen = this.#status.untilMs <= nowMs && this.#status.waitUntilMs <= nowMs;
    const unusedMs = nowMs - this.#usedAtMs;
    const keptForMs = providerCount > PROVIDERS_MAX ? 0 : UNUSED_AFTER_MS;
    return this.#isEmpty && isOpen && unusedMs > keptForMs;
  }

  /** Ends idle sessions and returns unused permits. */
  sweep(): void {
    for (const pool of this.#pools.values()) {
      pool.sweep();
      pool.returnUnusedPermits();
    }
    if (!this.#isEmpty) this.#usedAtMs = this.#world.monotonicMs();
  }

  get #isEmpty(): boolean {
    return [...this.#pools.values()].every((pool) => pool.isEmpty);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close()));
  }

  describe(): ProviderFacts {
    const counts = {
      provider: this.key,
      window: sumOver(this.#pools.values(), ({ window }) => window),
      open: sumOver(this.#pools.values(), ({ permitCount }) => permitCount),
      idle: sumOver(this.#pools.values(), ({ idle }) => idle.length),
    };
    const { state, untilMs, waitUntilMs, reason } = this.#status;
    const nowMs = this.#world.monotonicMs();
    // A message rate of the operator's file makes an open provider wait. Nothing is wrong with it.
    if (waitUntilMs > nowMs && state === 'open') {
      const rate = `at its configured rate of ${this.#limits.messagesPerMinute} messages a minute`;
      return { ...counts, state: 'full', reason: rate, untilMs: waitUntilMs };
    }
    const endMs = Math.max(untilMs, waitUntilMs);
    if (endMs > nowMs) return { ...counts, state, reason, untilMs: endMs };
    const isFull = counts.open > 0 && counts.idle === 0 && counts.open >= counts.window;
    if (!isFull) return { ...counts, state: 'open', reason: null, untilMs: null };
    const limit = `at its limit of ${counts.window} connections`;
    return {
      ...counts,
      state: nextState(PROVIDER_TRANSITIONS, 'open', 'filled'),
      reason: limit,
      untilMs: null,
    };
  }
}

function sumOver(pools: Iterable<SessionPool>, measure: (pool: SessionPool) => number): number {
  let sum = 0;
  for (const pool of pools) sum += measure(pool);
  return sum;
}
