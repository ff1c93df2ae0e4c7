/**
 * The connections from one of our addresses to one provider, and how the workers of the machine share them: a new one goes
 * to the worker with the fewest, and a worker with more gives some back to one that waits.
 */
import type { BrokerMessage, PoolKey } from './messages.ts';
import type { GroupRoom } from './room.ts';
import type { TokenBucket } from './token-bucket.ts';
import type { Window } from './window.ts';

type Share = Pick<Extract<BrokerMessage, { kind: 'pool' }>, 'share' | 'window' | 'othersWait'>;

/** What one worker has of the pool, and wants. */
type Member = {
  inUse: number;
  wanted: number;
  /** Of these, the ones that are wanted despite an outage. */
  urgent: number;
  /** When it began to wait without a connection. */
  waitingSinceMs: number;
  /** Connections that it was told to return and has not returned yet. */
  yielding: number;
  lastSent: Share;
};

/** A worker without any connection waits this long before a busy one is taken from another. */
const WAITING_FOR_MS = 1_000;

export class BrokerPool {
  readonly key: PoolKey;
  readonly window: Window;
  readonly newConnections: TokenBucket | null;
  readonly #workers = new Map<number, Member>();
  readonly #room: GroupRoom;
  #inUse = 0;

  constructor(
    key: PoolKey,
    parts: { window: Window; newConnections: TokenBucket | null; room: GroupRoom },
  ) {
    this.key = key;
    this.window = parts.window;
    this.newConnections = parts.newConnections;
    this.#room = parts.room;
  }

  get inUse(): number {
    return this.#inUse;
  }

  /** How many permits the pool may have, of its window and of the room of its group. */
  get limit(): number {
    return Math.min(this.window.size, this.#room.limitOf(this.#inUse));
  }

  get waiting(): number {
    return this.#sum(({ wanted }) => wanted);
  }

  get isYielding(): boolean {
    return this.#yielding > 0;
  }

  /** Permits that are not to be returned. */
  get kept(): number {
    return this.#inUse - this.#yielding;
  }

  wants(worker: number, { count, urgent }: { count: number; urgent: number }, nowMs: number): void {
    const member = this.#worker(worker);
    if (member.wanted === 0) member.waitingSinceMs = nowMs;
    member.wanted = Math.max(0, member.wanted + count);
    member.urgent = Math.min(urgent, member.wanted);
  }

  freed(worker: number, count: number, nowMs: number): void {
    const member = this.#worker(worker);
    const given = Math.min(count, member.inUse);
    member.yielding = Math.max(0, member.yielding - given);
    this.#count(member, -given);
    if (member.inUse === 0) member.waitingSinceMs = nowMs;
  }

  /** The worker's process has ended, with all its connections. @returns whether it had a part of the pool */
  leave(worker: number): boolean {
    const member = this.#workers.get(worker);
    if (!member) return false;
    this.#count(member, -member.inUse);
    return this.#workers.delete(worker);
  }

  /** The worker that gets the next connection; null: none waits. Among equals the one that waits longest. */
  next({ isUrgent }: { isUrgent: boolean }): number | null {
    const waiting = [...this.#workers].filter(
      ([, { wanted, urgent }]) => (isUrgent ? urgent : wanted) > 0,
    );
    const [first] = waiting.toSorted(
      ([, one], [, other]) => one.inUse - other.inUse || one.waitingSinceMs - other.waitingSinceMs,
    );
    return first?.[0] ?? null;
  }

  grant(worker: number): void {
    const member = this.#worker(worker);
    member.wanted -= 1;
    member.urgent = Math.max(0, member.urgent - 1);
    this.#count(member, 1);
  }

  /** Whether a worker waits that has far fewer connections than another one, or none for long. */
  isUnfair(nowMs: number): boolean {
    const waiting = [...this.#workers.values()].filter(({ wanted }) => wanted > 0);
    const fewest = Math.min(...waiting.map(({ inUse }) => inUse));
    const most = this.#richest()?.[1].inUse ?? 0;
    const waitsLong = waiting.some(
      ({ inUse, waitingSinceMs }) => inUse === 0 && nowMs - waitingSinceMs >= WAITING_FOR_MS,
    );
    return most - fewest >= 2 || (waitsLong && most > 0);
  }

  /** Takes a connection from the worker that has most. @returns the worker; null: all are to be returned already */
  takeBack(): number | null {
    const richest = this.#richest();
    if (richest) richest[1].yielding += 1;
    return richest?.[0] ?? null;
  }

  /** The shares that changed since the last call, by worker. Workers that have and want nothing are forgotten. */
  changedShares(window: number): [worker: number, Share][] {
    const free = Math.max(0, window - this.#inUse);
    const fair = Math.floor(window / Math.max(1, this.#workers.size));
    const changed: [number, Share][] = [];
    for (const [worker, { inUse, wanted, yielding, lastSent }] of this.#workers) {
      const share = Math.max(1, fair, Math.min(window, inUse - yielding + free));
      const othersWait = free === 0 && this.waiting > wanted;
      const isSame = lastSent.share === share && lastSent.window === window;
      if (isSame && lastSent.othersWait === othersWait) continue;
      Object.assign(lastSent, { share, window, othersWait });
      changed.push([worker, { ...lastSent }]);
    }
    for (const [worker, { inUse, wanted }] of this.#workers) {
      if (inUse === 0 && wanted === 0) this.#workers.delete(worker);
    }
    return changed;
  }

  get #yielding(): number {
    return this.#sum(({ yielding }) => yielding);
  }

  #worker(worker: number): Member {
    let member = this.#workers.get(worker);
    if (!member) {
      const lastSent = { share: 0, window: 0, othersWait: false };
      member = { inUse: 0, wanted: 0, urgent: 0, waitingSinceMs: 0, yielding: 0, lastSent };
      this.#workers.set(worker, member);
    }
    return member;
  }

  #count(member: Member, permits: number): void {
    this.#room.changed(this.#inUse, this.#inUse + permits);
    this.#inUse += permits;
    member.inUse += permits;
  }

  /** The worker that has most, less what was taken back from it. */
  #richest(): [number, Member] | undefined {
    return [...this.#workers]
      .filter(([, { inUse, yielding }]) => inUse > yielding)
      .toSorted(
        ([, one], [, other]) => other.inUse - other.yielding - (one.inUse - one.yielding),
      )[0];
  }

  #sum(of: (member: Member) => number): number {
    let total = 0;
    for (const member of this.#workers.values()) total += of(member);
    return total;
  }
}
