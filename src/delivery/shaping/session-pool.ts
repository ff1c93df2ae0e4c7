/**
 * The sessions of one worker with one provider from one source, its permits, and the deliveries that wait for a
 * session.
 *
 * A permit (delivery/broker/broker-messages.ts) is in use from its grant until its connection is closed, including the
 * server's reply to QUIT. So the provider never has more connections than allowed.
 */
import type { World } from '../../lib/world.ts';
import type { Transaction } from '../../net/smtp/client.ts';
import type { BrokerMessage, PoolKey, WorkerMessage } from '../broker/broker-messages.ts';
import { SmtpSession, type SessionOwner } from './smtp-session.ts';
import type { ProviderLimits } from './settings.ts';

/** Permission to open one connection. `allowance`: messages that it may carry, or null without an extra limit. */
export type Permit = { allowance: number | null };

export type PoolContext = {
  world: Pick<World, 'monotonicMs'>;
  send(message: WorkerMessage): void;
  /** Called when the number of waiting deliveries changed. `takeDemandMessage` then returns the broker's message. */
  onWaitingChange(pool: SessionPool): void;
};

/** A request for a session with this key. `transaction` may be announced on a busy session, unless it is null. */
export type SessionRequest = { key: string; transaction: Transaction | null };

type Waiter = {
  request: SessionRequest;
  isUrgent: boolean;
  wake: () => void;
  session: SmtpSession | null;
};

/** Milliseconds after which an idle session is closed while other workers wait. */
const IDLE_WHILE_OTHERS_WAIT_MS = 100;
const OTHERS_SWEEP_EVERY_MS = 50;
const RECENT_WITHIN_MS = 10_000;

export class SessionPool implements SessionOwner {
  readonly provider: string;
  readonly source: string;
  readonly limits: ProviderLimits;
  /** Idle sessions, the most recently used last. */
  readonly idle: SmtpSession[] = [];
  /** This worker's part of the connections, as last reported by the broker. */
  share: number;
  window: number;
  wasBusy = false;
  #othersWait = false;
  /** The next sweep while other workers wait. */
  #sweepTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #context: PoolContext;
  readonly #sessions = new Set<SmtpSession>();
  readonly #unusedPermits: Permit[] = [];
  readonly #waiting: Waiter[] = [];
  #reportedDemand = 0;
  #reportedUrgent = 0;
  #permitsToReturn = 0;
  readonly #lastMessageAtMs = new Map<string, number>();

  constructor(
    { provider, source }: PoolKey,
    options: { limits: ProviderLimits; window: number; context: PoolContext },
  ) {
    this.provider = provider;
    this.source = source;
    this.limits = options.limits;
    this.window = options.window;
    this.share = options.window;
    this.#context = options.context;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** Permits in use by sessions in any state, and unused ones. */
  get permitCount(): number {
    return this.#sessions.size + this.#unusedPermits.length;
  }

  get hasUnusedPermit(): boolean {
    return this.#unusedPermits.length > 0;
  }

  get isEmpty(): boolean {
    return this.permitCount === 0 && this.waitingCount === 0 && this.#reportedDemand === 0;
  }

  /** Open sessions to servers with PIPELINING. Each may have one more message in progress. */
  get pipeliningCount(): number {
    let count = 0;
    for (const session of this.#sessions) if (session.hasPipelining) count += 1;
    return count;
  }

  /** Takes the most recently used idle session for the key, so that sessions that are not needed time out. */
  takeIdle(key: string): SmtpSession | null {
    const index = this.idle.findLastIndex((one) => one.key === key && one.isReusable);
    return index < 0 ? null : this.idle.splice(index, 1)[0]!.reuse();
  }

  /** Returns a connecting session that uses a permit, or null when there is none. */
  connect(key: string): SmtpSession | null {
    const permit = this.#unusedPermits.shift();
    if (permit === undefined) return null;
    const { allowance } = permit;
    const messagesMax = Math.min(allowance ?? Infinity, this.limits.messagesPerConnection);
    const session = new SmtpSession(key, { owner: this, limits: { messagesMax, allowance } });
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
   * @returns the session on which the transaction was announced, or null to try again
   */
  async waitForSession(
    request: SessionRequest,
    { isUrgent, timeoutMs }: { isUrgent: boolean; timeoutMs: number },
  ): Promise<SmtpSession | null> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter: Waiter = { request, isUrgent, wake: resolve, session: null };
    this.#waiting.push(waiter);
    this.#context.onWaitingChange(this);
    const timer = setTimeout(resolve, timeoutMs).unref();
    await promise;
    clearTimeout(timer);
    const index = this.#waiting.indexOf(waiter);
    if (index >= 0) this.#waiting.splice(index, 1);
    this.#context.onWaitingChange(this);
    return waiter.session;
  }

  takeAnnounced(
    session: SmtpSession,
    mayFollow: (next: Transaction) => boolean,
  ): Transaction | null {
    const isLast = session.messagesLeft <= 1 || session.limits.allowance !== null;
    if (isLast || this.#permitsToReturn > 0) return null;
    const index = this.#waiting.findIndex(
      ({ request: { key, transaction } }) =>
        key === session.key && transaction !== null && mayFollow(transaction),
    );
    const [waiter] = index < 0 ? [] : this.#waiting.splice(index, 1);
    if (!waiter) return null;
    waiter.session = session;
    waiter.wake();
    return waiter.request.transaction;
  }

  /** Keeps a session that no delivery uses any more if it can carry another message. */
  onReleased(session: SmtpSession, isUsable: boolean): void {
    const nowMs = this.#context.world.monotonicMs();
    this.#lastMessageAtMs.set(session.key, nowMs);
    this.wasBusy = this.idle.length === 0;
    if (session.isInUse) return;
    const canCarry = isUsable && session.isReusable && session.messagesLeft > 0;
    if (!canCarry || this.#permitsToReturn > 0) return void session.end();
    session.keep(nowMs);
    this.idle.push(session);
    this.#wakeOne();
  }

  onServerClosed(session: SmtpSession): void {
    this.idle.splice(this.idle.indexOf(session), 1);
    void session.end();
  }

  onClosed(session: SmtpSession): void {
    this.#sessions.delete(session);
    this.#returnPermit({ allowance: session.allowanceLeft });
  }

  /**
   * Returns the message for the broker, or null without a change. Wants as many connections as the share allows, and
   * as there are messages that cannot follow on a busy session.
   */
  takeDemandMessage(): WorkerMessage | null {
    const { provider, source, waitingCount } = this;
    const busy = this.#sessions.size - this.idle.length;
    const demand = Math.max(
      Math.min(waitingCount, this.share - this.permitCount),
      waitingCount - busy,
      0,
    );
    const urgent = this.#waiting.filter(({ isUrgent }) => isUrgent).length;
    if (demand === this.#reportedDemand && urgent === this.#reportedUrgent) return null;
    const count = demand - this.#reportedDemand;
    this.#reportedDemand = demand;
    this.#reportedUrgent = urgent;
    return { kind: 'want', provider, source, count, urgent };
  }

  addPermit(allowance: number | null): void {
    this.#reportedDemand = Math.max(0, this.#reportedDemand - 1);
    this.#reportedUrgent = Math.min(this.#reportedUrgent, this.#reportedDemand);
    if (this.waitingCount === 0) return this.#returnToBroker({ allowance });
    this.#unusedPermits.push({ allowance });
    this.#wakeOne();
  }

  /** Returns `count` connections: idle ones now, busy ones after their message. */
  async returnConnections(count: number): Promise<void> {
    this.#permitsToReturn = Math.min(this.permitCount, this.#permitsToReturn + count);
    await Promise.all(this.idle.splice(0, count).map((session) => session.end()));
  }

  /** Ends idle sessions now, and the others after their message. Stops sweeping. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#sweepTimer);
    await this.returnConnections(this.permitCount);
  }

  /** Applies a changed share, or that other workers began or stopped waiting. */
  applyShare({ share, window, othersWait }: Extract<BrokerMessage, { kind: 'pool' }>): void {
    const othersBegan = othersWait && !this.#othersWait;
    this.#othersWait = othersWait;
    if (othersBegan) this.#sweepForOthers();
    if (share === this.share && window === this.window) return;
    Object.assign(this, { share, window });
    this.wakeAll();
  }

  /** Returns whether a session to the server is open, or carried a message in the last RECENT_WITHIN_MS. */
  hasRecentSession(key: string): boolean {
    for (const session of this.#sessions) if (session.key === key && session.isOpen) return true;
    const finishedAtMs = this.#lastMessageAtMs.get(key) ?? -Infinity;
    return this.#context.world.monotonicMs() - finishedAtMs < RECENT_WITHIN_MS;
  }

  wakeAll(): void {
    for (const waiter of this.#waiting.splice(0)) waiter.wake();
  }

  sweep(): void {
    const nowMs = this.#context.world.monotonicMs();
    const maxMs = this.#othersWait ? IDLE_WHILE_OTHERS_WAIT_MS : this.limits.idleMs;
    for (const [key, atMs] of this.#lastMessageAtMs) {
      if (nowMs - atMs >= RECENT_WITHIN_MS) this.#lastMessageAtMs.delete(key);
    }
    for (let index = this.idle.length - 1; index >= 0; index -= 1) {
      const session = this.idle[index]!;
      if (nowMs - session.idleSinceMs < maxMs && session.isReusable) continue;
      this.idle.splice(index, 1);
      void session.end();
    }
  }

  /** Returns unused permits. Do not call it in the turn of a grant, whose delivery takes the permit later. */
  returnUnusedPermits(): void {
    while (this.#unusedPermits.length > this.waitingCount)
      this.#returnPermit(this.#unusedPermits.pop()!);
  }

  #sweepForOthers(): void {
    // At most one timer: others may have stopped waiting and begun again within one interval.
    clearTimeout(this.#sweepTimer);
    if (this.#isClosed) return;
    this.sweep();
    // The broker has dropped this worker's entry, and will report again whether others wait.
    if (this.isEmpty) this.#othersWait = false;
    if (!this.#othersWait) return;
    this.#sweepTimer = setTimeout(() => this.#sweepForOthers(), OTHERS_SWEEP_EVERY_MS).unref();
  }

  /** Passes the permit of a closed connection to a waiting delivery, else back to the broker. */
  #returnPermit(permit: Permit): void {
    // A permit with an allowance is always returned, because the broker counts its messages.
    const mayKeep = permit.allowance === null && this.#permitsToReturn === 0;
    if (!mayKeep || this.waitingCount <= this.#unusedPermits.length)
      return this.#returnToBroker(permit);
    this.#unusedPermits.push(permit);
    this.#wakeOne();
  }

  #returnToBroker({ allowance }: Permit): void {
    this.#permitsToReturn = Math.max(0, this.#permitsToReturn - 1);
    const { provider, source } = this;
    this.#context.send({ kind: 'free', provider, source, count: 1, unused: allowance ?? 0 });
    // One busy session fewer can carry a following message, so a connection may be needed now.
    if (this.waitingCount > 0) this.#context.onWaitingChange(this);
  }

  #wakeOne(): void {
    this.#waiting.shift()?.wake();
  }
}
