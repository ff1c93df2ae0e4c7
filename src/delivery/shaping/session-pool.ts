/**
 * The sessions of one worker with one provider from one source, its permits, and the deliveries that wait for a
 * session.
 *
 * A permit (delivery/broker/messages.ts) is in use from its grant until its connection is closed, including the
 * server's reply to QUIT. So the provider never has more connections than allowed.
 */
import type { World } from '../../lib/world.ts';
import type { Transaction } from '../../net/smtp/client.ts';
import type { BrokerMessage, PoolKey, WorkerMessage } from '../broker/messages.ts';
import { Session, type SessionOwner } from './session.ts';
import type { ProviderLimits } from './settings.ts';

/** Permission to open one connection. `allowance`: messages that it may carry; null: no extra limit. */
export type Permit = { allowance: number | null };

export type PoolContext = {
  world: Pick<World, 'monotonicMs'>;
  send(message: WorkerMessage): void;
  /** Called when the number of waiting deliveries changed. `wants` returns the broker's message a moment later. */
  waitingChanged(pool: SessionPool): void;
};

/** A request for a session with this key. `transaction` may be announced on a busy session; null: it may not. */
export type SessionRequest = { key: string; transaction: Transaction | null };

type Waiter = {
  wanted: SessionRequest;
  isUrgent: boolean;
  wake: () => void;
  session: Session | null;
};

/** Milliseconds after which an idle session is closed while other workers wait. */
const IDLE_WHEN_WANTED_MS = 100;
const WANTED_SWEEP_EVERY_MS = 50;
const WORKED_WITHIN_MS = 10_000;

export class SessionPool implements SessionOwner {
  readonly provider: string;
  readonly source: string;
  readonly limits: ProviderLimits;
  /** Idle sessions, the most recently used last. */
  readonly idle: Session[] = [];
  /** This worker's part of the connections, as last reported by the broker. */
  share: number;
  window: number;
  wasBusy = false;
  #othersWait = false;
  /** The next sweep while other workers wait. */
  #sweeping: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #context: PoolContext;
  readonly #sessions = new Set<Session>();
  readonly #unused: Permit[] = [];
  readonly #waiting: Waiter[] = [];
  #asked = 0;
  #askedUrgent = 0;
  #toGiveBack = 0;
  readonly #finishedAtMs = new Map<string, number>();

  constructor(
    { provider, source }: PoolKey,
    parts: { limits: ProviderLimits; window: number; context: PoolContext },
  ) {
    this.provider = provider;
    this.source = source;
    this.limits = parts.limits;
    this.window = parts.window;
    this.share = parts.window;
    this.#context = parts.context;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Permits in use by sessions in any state, and unused ones. */
  get permits(): number {
    return this.#sessions.size + this.#unused.length;
  }

  get hasUnused(): boolean {
    return this.#unused.length > 0;
  }

  get isEmpty(): boolean {
    return this.permits === 0 && this.waiting === 0 && this.#asked === 0;
  }

  /** Open sessions to servers with PIPELINING. Each may have one more message in progress. */
  get pipelining(): number {
    let count = 0;
    for (const session of this.#sessions) if (session.hasPipelining) count += 1;
    return count;
  }

  /** Takes the most recently used idle session for the key, so that sessions that are not needed time out. */
  takeIdle(key: string): Session | null {
    const index = this.idle.findLastIndex((one) => one.key === key && one.isUsable);
    return index < 0 ? null : this.idle.splice(index, 1)[0]!.take();
  }

  /** Returns a connecting session that uses a permit; null: there is none. */
  connect(key: string): Session | null {
    const permit = this.#unused.shift();
    if (permit === undefined) return null;
    const { allowance } = permit;
    const messagesMax = Math.min(allowance ?? Infinity, this.limits.messagesPerConnection);
    const session = new Session(key, { owner: this, limits: { messagesMax, allowance } });
    this.#sessions.add(session);
    return session;
  }

  /** Ends an idle session with any server of the provider, to give its permit to a waiting delivery. */
  endIdle(): void {
    const session = this.idle.shift();
    if (session) void session.end();
  }

  /**
   * Waits at most `timeoutMs` until a session or a permit may be available.
   * @returns the session on which the transaction was announced; null: try again
   */
  async turn(
    wanted: SessionRequest,
    { isUrgent, timeoutMs }: { isUrgent: boolean; timeoutMs: number },
  ): Promise<Session | null> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter: Waiter = { wanted, isUrgent, wake: resolve, session: null };
    this.#waiting.push(waiter);
    this.#context.waitingChanged(this);
    const timer = setTimeout(resolve, timeoutMs).unref();
    await promise;
    clearTimeout(timer);
    const index = this.#waiting.indexOf(waiter);
    if (index >= 0) this.#waiting.splice(index, 1);
    this.#context.waitingChanged(this);
    return waiter.session;
  }

  announce(session: Session, mayFollow: (next: Transaction) => boolean): Transaction | null {
    const isLast = session.messagesLeft <= 1 || session.limits.allowance !== null;
    if (isLast || this.#toGiveBack > 0) return null;
    const index = this.#waiting.findIndex(
      ({ wanted: { key, transaction } }) =>
        key === session.key && transaction !== null && mayFollow(transaction),
    );
    const [waiter] = index < 0 ? [] : this.#waiting.splice(index, 1);
    if (!waiter) return null;
    waiter.session = session;
    waiter.wake();
    return waiter.wanted.transaction;
  }

  /** Keeps a session that no delivery uses any more if it can carry another message. */
  released(session: Session, isUsable: boolean): void {
    const nowMs = this.#context.world.monotonicMs();
    this.#finishedAtMs.set(session.key, nowMs);
    this.wasBusy = this.idle.length === 0;
    if (session.isInUse) return;
    const canCarry = isUsable && session.isUsable && session.messagesLeft > 0;
    if (!canCarry || this.#toGiveBack > 0) return void session.end();
    session.keep(nowMs);
    this.idle.push(session);
    this.#wakeOne();
  }

  dropped(session: Session): void {
    this.idle.splice(this.idle.indexOf(session), 1);
    void session.end();
  }

  closed(session: Session): void {
    this.#sessions.delete(session);
    this.#returnPermit({ allowance: session.allowanceLeft });
  }

  /**
   * Returns the message for the broker, or null without a change. Wants as many connections as the share allows, and
   * as there are messages that cannot follow on a busy session.
   */
  wants(): WorkerMessage | null {
    const { provider, source, waiting } = this;
    const busy = this.#sessions.size - this.idle.length;
    const wanted = Math.max(Math.min(waiting, this.share - this.permits), waiting - busy, 0);
    const urgent = this.#waiting.filter(({ isUrgent }) => isUrgent).length;
    if (wanted === this.#asked && urgent === this.#askedUrgent) return null;
    const count = wanted - this.#asked;
    this.#asked = wanted;
    this.#askedUrgent = urgent;
    return { kind: 'want', provider, source, count, urgent };
  }

  granted(allowance: number | null): void {
    this.#asked = Math.max(0, this.#asked - 1);
    this.#askedUrgent = Math.min(this.#askedUrgent, this.#asked);
    if (this.waiting === 0) return this.#free({ allowance });
    this.#unused.push({ allowance });
    this.#wakeOne();
  }

  /** Returns `count` connections: idle ones now, busy ones after their message. */
  async giveBack(count: number): Promise<void> {
    this.#toGiveBack = Math.min(this.permits, this.#toGiveBack + count);
    await Promise.all(this.idle.splice(0, count).map((session) => session.end()));
  }

  /** Ends idle sessions now, and the others after their message. Stops sweeping. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#sweeping);
    await this.giveBack(this.permits);
  }

  /** Applies a changed share, or that other workers began or stopped waiting. */
  update({ share, window, othersWait }: Extract<BrokerMessage, { kind: 'pool' }>): void {
    const othersBegan = othersWait && !this.#othersWait;
    this.#othersWait = othersWait;
    if (othersBegan) this.#sweepForOthers();
    if (share === this.share && window === this.window) return;
    Object.assign(this, { share, window });
    this.wakeAll();
  }

  /** Returns whether a session to the server is open, or carried a message in the last WORKED_WITHIN_MS. */
  works(key: string): boolean {
    for (const session of this.#sessions) if (session.key === key && session.isOpen) return true;
    const finishedAtMs = this.#finishedAtMs.get(key) ?? -Infinity;
    return this.#context.world.monotonicMs() - finishedAtMs < WORKED_WITHIN_MS;
  }

  wakeAll(): void {
    for (const waiter of this.#waiting.splice(0)) waiter.wake();
  }

  sweep(): void {
    const nowMs = this.#context.world.monotonicMs();
    const maxMs = this.#othersWait ? IDLE_WHEN_WANTED_MS : this.limits.idleMs;
    for (const [key, atMs] of this.#finishedAtMs) {
      if (nowMs - atMs >= WORKED_WITHIN_MS) this.#finishedAtMs.delete(key);
    }
    for (let index = this.idle.length - 1; index >= 0; index -= 1) {
      const session = this.idle[index]!;
      if (nowMs - session.idleSinceMs < maxMs && session.isUsable) continue;
      this.idle.splice(index, 1);
      void session.end();
    }
  }

  /** Returns unused permits. Do not call it in the turn of a grant, whose delivery takes the permit later. */
  returnUnused(): void {
    while (this.#unused.length > this.waiting) this.#returnPermit(this.#unused.pop()!);
  }

  #sweepForOthers(): void {
    // At most one timer: others may have stopped waiting and begun again within one interval.
    clearTimeout(this.#sweeping);
    if (this.#isClosed) return;
    this.sweep();
    // The broker has dropped this worker's entry, and will report again whether others wait.
    if (this.isEmpty) this.#othersWait = false;
    if (!this.#othersWait) return;
    this.#sweeping = setTimeout(() => this.#sweepForOthers(), WANTED_SWEEP_EVERY_MS).unref();
  }

  /** Passes the permit of a closed connection to a waiting delivery, else back to the broker. */
  #returnPermit(permit: Permit): void {
    // A permit with an allowance is always returned, because the broker counts its messages.
    const isOurs = permit.allowance === null && this.#toGiveBack === 0;
    if (!isOurs || this.waiting <= this.#unused.length) return this.#free(permit);
    this.#unused.push(permit);
    this.#wakeOne();
  }

  #free({ allowance }: Permit): void {
    this.#toGiveBack = Math.max(0, this.#toGiveBack - 1);
    const { provider, source } = this;
    this.#context.send({ kind: 'free', provider, source, count: 1, unused: allowance ?? 0 });
    // One busy session fewer can carry a following message, so a connection may be needed now.
    if (this.waiting > 0) this.#context.waitingChanged(this);
  }

  #wakeOne(): void {
    this.#waiting.shift()?.wake();
  }
}
