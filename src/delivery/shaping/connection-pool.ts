/**
 * One provider as a worker sees it (ProviderView): the state that the broker reported, and one
 * ConnectionPool for each of our addresses with permits, idle sessions and waiting deliveries.
 *
 * A permit (delivery/broker/messages.ts) is held from its grant until its connection is closed, the server's
 * reply to QUIT included, so that the receiver never has more connections than allowed.
 */
import type { Follower, SmtpConnection, Transaction } from '../../net/smtp/client.ts';
import type { World } from '../../lib/world.ts';
import type { ProviderStatus, WorkerMessage } from '../broker/messages.ts';
import { type ProviderLimits, START_CONNECTIONS } from './settings.ts';

/** An open session and what it may still do. */
export type Slot = {
  pool: ConnectionPool;
  connection: SmtpConnection;
  /** The server and its TLS rule: only messages with the same key may use the session. */
  key: string;
  messagesMax: number;
  /** Messages that the permit allows while the provider is paced; null: no such limit. */
  allowance: number | null;
  /** Announces a waiting message behind the one in progress. */
  follower: Follower;
  idleSinceMs: number;
};

/** The right to open one connection now. */
export type Permit = { allowance: number | null };

export type PoolListener = {
  send(message: WorkerMessage): void;
  /** The number of waiting deliveries changed; `wants` has the message for the broker a moment later. */
  waitingChanged(pool: ConnectionPool): void;
};

/** A session of this key is needed; `transaction` may be announced on a busy one, null: may not. */
export type SessionRequest = { key: string; transaction: Transaction | null };

type Waiter = {
  wanted: SessionRequest;
  isUrgent: boolean;
  wake: () => void;
  /** The busy session on which its transaction was announced. */
  slot: Slot | null;
};

/** While other workers wait, a session that was idle for this long is closed. */
const IDLE_WHEN_WANTED_MS = 100;
const WORKED_WITHIN_MS = 10_000;

export class ConnectionPool {
  readonly provider: string;
  readonly source: string;
  readonly limits: ProviderLimits;
  readonly idle: Slot[] = [];
  /** Connections that this worker may count on, as the broker last reported. */
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
  /** Connections requested from the broker and not granted yet. */
  #asked = 0;
  #askedUrgent = 0;
  #toGiveBack = 0;
  /** By key, when the last message was done; entries of the last few seconds. */
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

  /** The most recently used idle session for the key, so that sessions that are not needed time out. */
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

  /** A granted connection is not being opened yet. */
  get hasPermit(): boolean {
    return this.#unused.length > 0;
  }

  takePermit(): Permit | null {
    return this.#unused.shift() ?? null;
  }

  /** Closes an idle session, to whichever server of the provider, and takes its permit. */
  async replaceIdle(): Promise<Permit | null> {
    const slot = this.idle.shift();
    if (!slot) return null;
    this.#open.delete(slot);
    await slot.connection.close();
    if (this.#toGiveBack === 0 && slot.allowance === null) return { allowance: null };
    this.returnPermit(remaining(slot));
    return null;
  }

  /**
   * Waits until a session or a permit may be available, at most `timeoutMs`.
   * @returns the session on which the transaction was announced; null: try again
   */
  async turn(
    wanted: SessionRequest,
    { isUrgent, timeoutMs }: { isUrgent: boolean; timeoutMs: number },
  ): Promise<Slot | null> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter: Waiter = { wanted, isUrgent, wake: resolve, slot: null };
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

  /** Open sessions to servers with PIPELINING: each may have one more message in progress. */
  get pipelining(): number {
    let count = 0;
    for (const { connection } of this.#open) if (connection.hasPipelining) count += 1;
    return count;
  }

  /** Lets a waiting message follow the one on this session, if the session stays open. */
  announce(slot: Slot, mayFollow: (next: Transaction) => boolean): Transaction | null {
    const isLast = slot.connection.messagesSent + 1 >= slot.messagesMax;
    if (isLast || slot.allowance !== null || this.#toGiveBack > 0) return null;
    const index = this.#waiting.findIndex(
      ({ wanted: { key, transaction } }) =>
        key === slot.key && transaction !== null && mayFollow(transaction),
    );
    const [waiter] = index < 0 ? [] : this.#waiting.splice(index, 1);
    if (!waiter) return null;
    waiter.slot = slot;
    waiter.wake();
    return waiter.wanted.transaction;
  }

  /**
   * The message for the broker when the demand changed; null: it did not. Wanted are as many
   * connections as the share allows, and as there are messages that cannot follow on a busy session.
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

  /** Returns `count` connections: idle ones now, busy ones when their message is done. */
  giveBack(count: number): void {
    this.#toGiveBack = Math.min(this.held, this.#toGiveBack + count);
    while (this.#toGiveBack > 0 && this.idle.length > 0) this.end(this.idle.shift()!);
  }

  /** A message is done: the session is kept for the next one if it may carry one. */
  finished(slot: Slot, nowMs: number, isUsable: boolean): void {
    this.#finishedAtMs.set(slot.key, nowMs);
    this.wasBusy = this.idle.length === 0;
    const { connection } = slot;
    // Another message is on it or follows: the session is returned after the last one.
    if (connection.isBusy || connection.hasAnnounced) return;
    const isSpent = !isUsable || connection.messagesSent >= slot.messagesMax;
    if (!connection.reusable || isSpent || this.#toGiveBack > 0) return this.end(slot);
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

  /** This worker has a session open to the server, or finished a message there a moment ago. */
  works(key: string, nowMs: number): boolean {
    const finishedAtMs = this.#finishedAtMs.get(key) ?? -Infinity;
    return this.#hasOpen(key) || nowMs - finishedAtMs < WORKED_WITHIN_MS;
  }

  /** Ends a session that is not among the idle ones (any more). */
  end(slot: Slot): void {
    this.#open.delete(slot);
    void slot.connection.close().then(() => this.returnPermit(remaining(slot)));
  }

  /** A permit whose connection is closed or failed: to a waiting delivery, else back to the broker. */
  returnPermit({ allowance }: Permit): void {
    // A permit with an allowance is returned, because the broker counts its messages.
    if (
      allowance === null &&
      this.#toGiveBack === 0 &&
      this.#waiting.length > this.#unused.length
    ) {
      this.#unused.push({ allowance: null });
      this.#wakeOne();
      return;
    }
    this.#toGiveBack = Math.max(0, this.#toGiveBack - 1);
    this.held -= 1;
    const { provider, source } = this;
    this.#listener.send({ kind: 'free', provider, source, count: 1, unused: allowance ?? 0 });
    // There is one busy session less to follow on, so that a connection may be needed now.
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
   * Returns unused permits. Not to be called in the turn of a grant: the delivery that it woke takes the
   * permit in a later one.
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

/** The part of the allowance that was not used. */
function remaining({ allowance, connection }: Slot): Permit {
  return { allowance: allowance && Math.max(0, allowance - connection.messagesSent) };
}

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

  receive({ suspension, slowedForMs, reason }: ProviderStatus): void {
    const nowMs = this.#world.monotonicMs();
    this.#suspension = suspension && { kind: suspension.kind, untilMs: nowMs + suspension.forMs };
    this.#slowedUntilMs = slowedForMs === null ? -Infinity : nowMs + slowedForMs;
    this.#reason = reason;
    this.#usedAtMs = nowMs;
    for (const pool of this.#pools.values()) pool.wakeAll();
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

  /** Hosts with an idle session from these addresses of ours. */
  idleHosts(sources: readonly (string | undefined)[]): Set<string> {
    const pools = [...this.#pools.values()].filter(({ source }) => sources.includes(source));
    return new Set(
      pools.flatMap(({ idle }) => idle.map(({ connection }) => connection.facts.host)),
    );
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
