/**
 * A worker's connections from one of our addresses to one provider: the permits that it holds for them
 * (permits.ts), which of them are idle, and who waits for one.
 *
 * A permit is held from its grant until its connection is closed, the server's goodbye included: to
 * the receiver there is never one more than allowed.
 */
import type { Follower, SmtpConnection, Transaction } from '../net/smtp/client.ts';
import type { WorkerMessage } from './permits.ts';
import type { ProviderLimits } from './shaping-defaults.ts';

/** An open session and what it may still do. */
export type Slot = {
  pool: ConnectionPool;
  connection: SmtpConnection;
  /** Which server, and how protected: only the same may be asked for again. */
  key: string;
  messagesMax: number;
  /** Granted for so many and no more; null: the usual. */
  allowance: number | null;
  /** Announces who waits for this session behind the message under way. */
  follower: Follower;
  idleSinceMs: number;
};

/** The right to open one connection now. */
export type Permit = { allowance: number | null };

export type PoolListener = {
  send(message: WorkerMessage): void;
  /** Somebody waits or does not wait any more; `wants` says what is to be told, a moment later. */
  waitingChanged(pool: ConnectionPool): void;
};

/** What is waited for: a session of this key; a transaction that may be announced on it, or null. */
export type Wish = { key: string; transaction: Transaction | null };

type Waiter = {
  wish: Wish;
  isUrgent: boolean;
  wake: () => void;
  /** The busy session on which its transaction was announced. */
  slot: Slot | null;
};

/** With others waiting, a session that was idle for this long is given up. */
const IDLE_WHEN_WANTED_MS = 100;
const WORKED_WITHIN_MS = 10_000;

export class ConnectionPool {
  readonly provider: string;
  readonly source: string;
  readonly limits: ProviderLimits;
  readonly idle: Slot[] = [];
  /** Connections that this worker may count on, as the broker said last. */
  share: number;
  /** Of the whole machine. */
  window: number;
  othersWait = false;
  /** Permits held: open, opening, closing and not used yet. */
  held = 0;
  /** All sessions were busy when the last message was done. */
  wasBusy = false;
  readonly #open = new Set<Slot>();
  readonly #listener: PoolListener;
  readonly #unused: Permit[] = [];
  readonly #waiting: Waiter[] = [];
  /** As told to the broker, less what it granted since. */
  #asked = 0;
  #askedUrgent = 0;
  #owed = 0;
  /** When a message was last done, by key; of the last few seconds. */
  readonly #finishedAtMs = new Map<string, number>();

  constructor(
    key: { provider: string; source: string },
    parts: { limits: ProviderLimits; window: number; listener: PoolListener },
  ) {
    this.provider = key.provider;
    this.source = key.source;
    this.limits = parts.limits;
    this.window = parts.window;
    this.share = parts.window;
    this.#listener = parts.listener;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get isEmpty(): boolean {
    return this.held === 0 && this.waiting === 0 && this.#asked === 0;
  }

  /** An idle session for the key: the one used last, so that the others grow old and are closed. */
  takeIdle(key: string): Slot | null {
    for (let index = this.idle.length - 1; index >= 0; index -= 1) {
      const slot = this.idle[index];
      if (slot?.key !== key || !slot.connection.reusable) continue;
      this.idle.splice(index, 1);
      slot.connection.onIdleClose = null;
      return slot;
    }
    return null;
  }

  /** It was granted a connection that nobody has begun to open. */
  get hasPermit(): boolean {
    return this.#unused.length > 0;
  }

  takePermit(): Permit | null {
    return this.#unused.shift() ?? null;
  }

  /** Ends an idle session to another server of the provider: its permit is for the taking then. */
  async replaceIdle(): Promise<Permit | null> {
    const slot = this.idle.shift();
    if (!slot) return null;
    this.#open.delete(slot);
    await slot.connection.close();
    if (this.#owed === 0 && slot.allowance === null) return { allowance: null };
    this.returnPermit(remaining(slot));
    return null;
  }

  /**
   * Resolves when there may be something to take, or after `timeoutMs`.
   * @returns the session on which the transaction was announced; it is taken then
   */
  async turn(
    wish: Wish,
    { isUrgent, timeoutMs }: { isUrgent: boolean; timeoutMs: number },
  ): Promise<Slot | null> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter: Waiter = { wish, isUrgent, wake: resolve, slot: null };
    this.#waiting.push(waiter);
    this.#listener.waitingChanged(this);
    const timer = setTimeout(resolve, timeoutMs).unref();
    await promise;
    clearTimeout(timer);
    const index = this.#waiting.indexOf(waiter);
    if (index >= 0) this.#waiting.splice(index, 1);
    this.#listener.waitingChanged(this);
    return waiter.slot;
  }

  opened(slot: Slot): void {
    this.#open.add(slot);
  }

  /** Open sessions to servers with PIPELINING: each may have one message more under way. */
  get pipelining(): number {
    let count = 0;
    for (const { connection } of this.#open) if (connection.hasPipelining) count += 1;
    return count;
  }

  /** Who waits for this session may go right behind the message on it, if it stays open. */
  announce(slot: Slot, mayFollow: (next: Transaction) => boolean): Transaction | null {
    const isLast = slot.connection.messagesSent + 1 >= slot.messagesMax;
    if (isLast || slot.allowance !== null || this.#owed > 0) return null;
    const index = this.#waiting.findIndex(
      ({ wish: { key, transaction } }) =>
        key === slot.key && transaction !== null && mayFollow(transaction),
    );
    const [waiter] = index < 0 ? [] : this.#waiting.splice(index, 1);
    if (!waiter) return null;
    waiter.slot = slot;
    waiter.wake();
    return waiter.wish.transaction;
  }

  /**
   * What the broker is to know of those that wait; null: it does. Wanted are as many connections as
   * the share allows, and as there are messages that find no busy session to follow on.
   */
  wants(): WorkerMessage | null {
    const waiting = this.#waiting.length;
    const busy = this.held - this.idle.length - this.#unused.length;
    const wanted = Math.max(Math.min(waiting, this.share - this.held), waiting - busy, 0);
    const urgent = this.#waiting.filter(({ isUrgent }) => isUrgent).length;
    if (wanted === this.#asked && urgent === this.#askedUrgent) return null;
    const count = wanted - this.#asked;
    this.#asked = wanted;
    this.#askedUrgent = urgent;
    return { kind: 'want', provider: this.provider, source: this.source, count, urgent };
  }

  granted(allowance: number | null): void {
    this.held += 1;
    this.#asked = Math.max(0, this.#asked - 1);
    this.#askedUrgent = Math.min(this.#askedUrgent, this.#asked);
    if (this.#waiting.length === 0) return this.returnPermit({ allowance });
    this.#unused.push({ allowance });
    this.#wakeOne();
  }

  /** So many are to go: idle ones now, others when they are done. */
  owe(count: number): void {
    this.#owed = Math.min(this.held, this.#owed + count);
    while (this.#owed > 0 && this.idle.length > 0) this.end(this.idle.shift()!);
  }

  /** A message is done: the session is kept for the next one if it may carry one. */
  finished(slot: Slot, nowMs: number): void {
    this.#finishedAtMs.set(slot.key, nowMs);
    this.wasBusy = this.idle.length === 0;
    const { connection } = slot;
    // Another message is on it or comes next: whoever is last gives it back.
    if (connection.isBusy || connection.hasAnnounced) return;
    const isSpent = connection.messagesSent >= slot.messagesMax;
    if (!connection.reusable || isSpent || this.#owed > 0) return this.end(slot);
    slot.idleSinceMs = nowMs;
    this.idle.push(slot);
    connection.onIdleClose = () => {
      const index = this.idle.indexOf(slot);
      if (index < 0) return;
      this.idle.splice(index, 1);
      this.end(slot);
    };
    this.#wakeOne();
  }

  /** Messages go to this server: a session of this worker is open there, or was just now. */
  works(key: string, nowMs: number): boolean {
    const finishedAtMs = this.#finishedAtMs.get(key) ?? -Infinity;
    return this.#hasOpen(key) || nowMs - finishedAtMs < WORKED_WITHIN_MS;
  }

  /** Ends a session that is not among the idle ones (any more). */
  end(slot: Slot): void {
    this.#open.delete(slot);
    void slot.connection.close().then(() => this.returnPermit(remaining(slot)));
  }

  /** A permit whose connection is closed or never came about: to who waits here, else back. */
  returnPermit({ allowance }: Permit): void {
    // The broker counts messages of those that have an allowance.
    if (allowance === null && this.#owed === 0 && this.#waiting.length > this.#unused.length) {
      this.#unused.push({ allowance: null });
      this.#wakeOne();
      return;
    }
    this.#owed = Math.max(0, this.#owed - 1);
    this.held -= 1;
    const { provider, source } = this;
    this.#listener.send({ kind: 'free', provider, source, count: 1, unused: allowance ?? 0 });
    // One busy session less to follow on: a connection may be wanted now.
    if (this.#waiting.length > 0) this.#listener.waitingChanged(this);
  }

  wakeAll(): void {
    for (const waiter of this.#waiting.splice(0)) waiter.wake();
  }

  /** Ends what has been idle for too long, or is idle while others wait. */
  sweep(nowMs: number): void {
    const maxMs = this.othersWait ? IDLE_WHEN_WANTED_MS : this.limits.idleMs;
    for (const [key, atMs] of this.#finishedAtMs) {
      if (nowMs - atMs >= WORKED_WITHIN_MS) this.#finishedAtMs.delete(key);
    }
    for (let index = this.idle.length - 1; index >= 0; index -= 1) {
      const slot = this.idle[index]!;
      if (nowMs - slot.idleSinceMs < maxMs && slot.connection.reusable) continue;
      this.idle.splice(index, 1);
      this.end(slot);
    }
  }

  /**
   * Gives back what was granted to messages that went another way. Not right after a grant: who is
   * woken by it comes for it in a moment.
   */
  returnUnused(): void {
    while (this.#unused.length > this.#waiting.length) this.returnPermit(this.#unused.pop()!);
  }

  #hasOpen(key: string): boolean {
    for (const slot of this.#open) if (slot.key === key) return true;
    return false;
  }

  #wakeOne(): void {
    this.#waiting.shift()?.wake();
  }
}

/** What it was allowed and did not carry. */
function remaining({ allowance, connection }: Slot): Permit {
  return { allowance: allowance && Math.max(0, allowance - connection.messagesSent) };
}
