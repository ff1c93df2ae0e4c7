/**
 * The connections from one source to one provider, shared by the workers of a machine. A new connection goes to the
 * waiting worker with the fewest. A worker with more returns some to a worker that waits.
 */
import type { BrokerMessage, PoolKey } from './broker-messages.ts';
import type { GroupCapacity } from './group-capacity.ts';
import type { TokenBucket } from './token-bucket.ts';
import type { ConnectionWindow } from './connection-window.ts';

type Share = Pick<Extract<BrokerMessage, { kind: 'pool' }>, 'share' | 'window' | 'othersWait'>;

type PoolWorker = {
  inUse: number;
  demand: number;
  /** The part of `demand` that is needed despite an outage. */
  urgentDemand: number;
  /** Monotonic time at which the worker began to wait without a connection. */
  waitingSinceMs: number;
  /** Connections that it was asked to return and has not returned yet. */
  yielding: number;
  lastSent: Share;
};

/** Milliseconds that a worker waits without any connection before another worker returns a busy one. */
const WAITING_FOR_MS = 1_000;

export class BrokerPool {
  readonly key: PoolKey;
  readonly window: ConnectionWindow;
  readonly newConnections: TokenBucket | null;
  readonly #workers = new Map<number, PoolWorker>();
  readonly #capacity: GroupCapacity;
  #inUse = 0;

  constructor(
    key: PoolKey,
    parts: {
      window: ConnectionWindow;
      newConnections: TokenBucket | null;
      capacity: GroupCapacity;
    },
  ) {
    this.key = key;
    this.window = parts.window;
    this.newConnections = parts.newConnections;
    this.#capacity = parts.capacity;
  }

  get inUse(): number {
    return this.#inUse;
  }

  /** Limit on permits of the pool: its window, or less when the capacity of its group is smaller. */
  get limit(): number {
    return Math.min(this.window.size, this.#capacity.limitOf(this.#inUse));
  }

  get demand(): number {
    return this.#sum(({ demand }) => demand);
  }

  get isYielding(): boolean {
    return this.#yielding > 0;
  }

  get inUseAfterYields(): number {
    return this.#inUse - this.#yielding;
  }

  changeDemand(
    worker: number,
    { count, urgent }: { count: number; urgent: number },
    nowMs: number,
  ): void {
    const entry = this.#entryOf(worker);
    if (entry.demand === 0) entry.waitingSinceMs = nowMs;
    entry.demand = Math.max(0, entry.demand + count);
    entry.urgentDemand = Math.min(urgent, entry.demand);
  }

  returnPermits(worker: number, count: number, nowMs: number): void {
    const entry = this.#entryOf(worker);
    const returned = Math.min(count, entry.inUse);
    entry.yielding = Math.max(0, entry.yielding - returned);
    this.#addPermits(entry, -returned);
    if (entry.inUse === 0) entry.waitingSinceMs = nowMs;
  }

  /**
   * Frees the permits of a worker whose process has ended.
   * @returns whether the worker had an entry
   */
  removeWorker(worker: number): boolean {
    const entry = this.#workers.get(worker);
    if (!entry) return false;
    this.#addPermits(entry, -entry.inUse);
    return this.#workers.delete(worker);
  }

  /** Returns the waiting worker with the fewest connections, among equals the one that has waited longest. */
  nextWaiting({ isUrgent }: { isUrgent: boolean }): number | null {
    const waiting = [...this.#workers].filter(
      ([, { demand, urgentDemand }]) => (isUrgent ? urgentDemand : demand) > 0,
    );
    const [first] = waiting.toSorted(
      ([, one], [, other]) => one.inUse - other.inUse || one.waitingSinceMs - other.waitingSinceMs,
    );
    return first?.[0] ?? null;
  }

  grant(worker: number): void {
    const entry = this.#entryOf(worker);
    entry.demand -= 1;
    entry.urgentDemand = Math.max(0, entry.urgentDemand - 1);
    this.#addPermits(entry, 1);
  }

  /** Returns whether a waiting worker has 2 connections fewer than another, or has waited too long for its first. */
  isUnfair(nowMs: number): boolean {
    const waiting = [...this.#workers.values()].filter(({ demand }) => demand > 0);
    const fewest = Math.min(...waiting.map(({ inUse }) => inUse));
    const most = this.#workerWithMost()?.[1].inUse ?? 0;
    const waitsLong = waiting.some(
      ({ inUse, waitingSinceMs }) => inUse === 0 && nowMs - waitingSinceMs >= WAITING_FOR_MS,
    );
    return most - fewest >= 2 || (waitsLong && most > 0);
  }

  /**
   * Marks a connection of the worker with the most as revoked.
   * @returns the worker, which the caller notifies, or null when all connections are revoked already
   */
  revokeOne(): number | null {
    const richest = this.#workerWithMost();
    if (richest) richest[1].yielding += 1;
    return richest?.[0] ?? null;
  }

  /** Returns the shares that changed since the last call, by worker. Drops workers that hold and want nothing. */
  changedShares(window: number): [worker: number, Share][] {
    const free = Math.max(0, window - this.#inUse);
    const fair = Math.floor(window / Math.max(1, this.#workers.size));
    const changed: [number, Share][] = [];
    for (const [worker, { inUse, demand, yielding, lastSent }] of this.#workers) {
      const share = Math.max(1, fair, Math.min(window, inUse - yielding + free));
      const othersWait = free === 0 && this.demand > demand;
      const isSame = lastSent.share === share && lastSent.window === window;
      if (isSame && lastSent.othersWait === othersWait) continue;
      Object.assign(lastSent, { share, window, othersWait });
      changed.push([worker, { ...lastSent }]);
    }
    for (const [worker, { inUse, demand }] of this.#workers) {
      if (inUse === 0 && demand === 0) this.#workers.delete(worker);
    }
    return changed;
  }

  get #yielding(): number {
    return this.#sum(({ yielding }) => yielding);
  }

  #entryOf(worker: number): PoolWorker {
    let entry = this.#workers.get(worker);
    if (!entry) {
      const lastSent = { share: 0, window: 0, othersWait: false };
      entry = { inUse: 0, demand: 0, urgentDemand: 0, waitingSinceMs: 0, yielding: 0, lastSent };
      this.#workers.set(worker, entry);
    }
    return entry;
  }

  #addPermits(entry: PoolWorker, permits: number): void {
    this.#capacity.recordChange(this.#inUse, this.#inUse + permits);
    this.#inUse += permits;
    entry.inUse += permits;
  }

  #workerWithMost(): [number, PoolWorker] | undefined {
    return [...this.#workers]
      .filter(([, { inUse, yielding }]) => inUse > yielding)
      .toSorted(
        ([, one], [, other]) => other.inUse - other.yielding - (one.inUse - one.yielding),
      )[0];
  }

  #sum(measure: (entry: PoolWorker) => number): number {
    let total = 0;
    for (const entry of this.#workers.values()) total += measure(entry);
    return total;
  }
}
