/**
 * Grants connections to the workers of one machine, because a provider counts the connections of all
 * of them together. Bookkeeping with a clock, no I/O; it runs in the supervisor, or in the only worker.
 *
 * Guarantees: no more permits are granted than the limit of (our address, provider); a waiting worker
 * gets connections whatever the others hold (idle ones are closed for it, busy ones are shared out); the
 * permits of a dead worker become free. Reusing an open connection sends no message: workers report
 * only opening, closing and growth.
 */
import type { World } from '../../lib/world.ts';
import { type BrokerPool, BrokerProvider, type Holder } from './provider.ts';
import type { BrokerMessage, HostMessage, ProviderStatus, WorkerMessage } from './messages.ts';
import { GroupRooms } from './room.ts';
import { limitsOf, type ShapingSettings } from '../shaping/settings.ts';
import { Uplink, type UplinkChange } from '../outage/uplink.ts';

type BrokerOptions = {
  settings: ShapingSettings;
  world: Pick<World, 'monotonicMs' | 'random'>;
  send: (worker: number, messages: readonly BrokerMessage[]) => void;
  /** Our own uplink is down, or up again: for the log. */
  onUplink?: (change: UplinkChange) => void;
  /** A provider may have changed, and not because our own uplink is down: for the log. */
  onProvider?: (change: ProviderStatus & { isInOutage: boolean }) => void;
};

/** Interval of `tick` while anything depends on time. */
export const BROKER_TICK_MS = 250;
/** A worker without any connection waits this long before a busy one is taken from another. */
const WAITING_FOR_MS = 1_000;
const FORGET_EVERY_MS = 10_000;
/** A provider without mail is kept for this time, with the number of connections that it accepted. */
const FORGET_AFTER_MS = 3600_000;
/** Beyond this, providers without mail are forgotten at once: they start with few connections again. */
const PROVIDERS_MAX = 20_000;
/** What a worker that joins is told at once, the newest. */
const PROMPT_MAX = 1_000;

type WantMessage = Extract<WorkerMessage, { kind: 'want' }>;

export class Broker {
  readonly #options: BrokerOptions;
  readonly #providers = new Map<string, BrokerProvider>();
  readonly #rooms = new GroupRooms();
  readonly #workers = new Set<number>();
  /** Providers whose state depends on time. */
  readonly #watched = new Set<BrokerProvider>();
  /** Those that gave a session at once, the newest last. */
  readonly #prompt = new Set<string>();
  readonly #uplink: Uplink;
  #outbox = new Map<number, BrokerMessage[]>();
  #forgetAtMs = 0;

  constructor(options: BrokerOptions) {
    this.#options = options;
    this.#uplink = new Uplink(options.settings.uplink, options.world);
  }

  /**
   * Adds a worker that is ready to receive. It receives outages of all providers, and which of them answer at once,
   * whether or not it has mail for them.
   */
  join(worker: number): void {
    this.#workers.add(worker);
    if (this.#prompt.size === 0) return;
    this.#enqueue(worker, { kind: 'prompt', providers: [...this.#prompt] });
    this.#flush();
  }

  /** Removes a worker whose process, with all its connections, has ended. */
  leave(worker: number): void {
    this.#workers.delete(worker);
    for (const provider of this.#providers.values()) {
      for (const pool of provider.pools.values()) {
        const holder = pool.holders.get(worker);
        if (!holder) continue;
        pool.count(-holder.held);
        pool.holders.delete(worker);
        this.#serve(provider);
      }
    }
    this.#outbox.delete(worker);
    this.#flush();
  }

  receive(worker: number, messages: readonly WorkerMessage[]): void {
    for (const message of messages) this.#handle(worker, message);
    this.#flush();
  }

  /** Ends suspensions, grants connections that have become allowed, and forgets unused providers. */
  tick(): void {
    this.#checkUplink();
    for (const provider of this.#watched) {
      const hasChanged = provider.expire();
      this.#serve(provider);
      if (hasChanged || provider.notifiedSuspension !== provider.suspensionKind)
        this.#notifyProvider(provider);
      if (!provider.dependsOnTime) this.#watched.delete(provider);
    }
    this.#forget();
    this.#flush();
  }

  /** In how many milliseconds `tick` is to be called; Infinity: not before the next message. */
  get tickWithinMs(): number {
    if (this.#watched.size > 0 || this.#uplink.isSuspect) return BROKER_TICK_MS;
    return this.#providers.size > 0 ? FORGET_EVERY_MS : Infinity;
  }

  #handle(worker: number, message: WorkerMessage): void {
    if (message.kind === 'host') return this.#hostDied(worker, message);
    if (message.kind === 'prompt') return this.#answersPromptly(message, worker);
    if (message.kind === 'answered') return this.#answered(message.provider);
    if (message.kind === 'unresolved') return this.#noAnswer(worker, message.provider);
    const provider = this.#provider(message.provider);
    switch (message.kind) {
      case 'want':
        this.#wanted(worker, provider, message);
        break;
      case 'free':
        this.#freed(worker, provider, message);
        break;
      case 'took':
        this.#took(provider, provider.pool(message.source), message.count);
        break;
      case 'slow':
        if (!provider.complained(message)) return;
        if (message.pace !== null) this.#recall(provider);
        this.#notifyProvider(provider);
        break;
      case 'reached':
        if (provider.outage.answered(message.address)) this.#recovered(provider);
        return this.#answered(message.provider);
      case 'unreached':
        this.#unreached(provider, message);
        return this.#noAnswer(worker, message.provider);
    }
    this.#serve(provider);
  }

  /** From a worker that may not know yet that our uplink is down. */
  #hostDied(worker: number, { address, deadForMs }: HostMessage): void {
    const longestMs = this.#uplink.isDown ? this.#options.settings.uplink.retryMs : Infinity;
    this.#notifyHost({ kind: 'host', address, deadForMs: Math.min(deadForMs, longestMs) }, worker);
  }

  #took(provider: BrokerProvider, { window }: BrokerPool, count: number): void {
    const wasWhole = window.isWhole;
    window.grow(count, this.#nowMs());
    if (window.isWhole !== wasWhole) this.#notifyProvider(provider);
  }

  #wanted(worker: number, provider: BrokerProvider, { source, count, urgent }: WantMessage): void {
    const holder = provider.pool(source).holder(worker);
    if (holder.wanted === 0) holder.waitingSinceMs = this.#nowMs();
    holder.wanted = Math.max(0, holder.wanted + count);
    holder.urgent = Math.min(urgent, holder.wanted);
    provider.usedAtMs = this.#nowMs();
    if (provider.suspensionKind !== null)
      this.#enqueue(worker, { kind: 'provider', ...provider.status() });
  }

  #freed(
    worker: number,
    provider: BrokerProvider,
    { source, count, unused }: { source: string; count: number; unused: number },
  ): void {
    const pool = provider.pool(source);
    const holder = pool.holder(worker);
    const given = Math.min(count, holder.held);
    holder.held -= given;
    holder.yielding = Math.max(0, holder.yielding - given);
    pool.count(-given);
    if (holder.held === 0) holder.waitingSinceMs = this.#nowMs();
    provider.giveBack(unused);
  }

  #unreached(
    provider: BrokerProvider,
    { addresses, reason }: Extract<WorkerMessage, { kind: 'unreached' }>,
  ): void {
    const { isDown, phase } = this.#uplink;
    const shortMs = isDown ? this.#uplink.suspensionMs(provider.key) : null;
    const failure = { addresses, reason, phase, suspensionMs: shortMs };
    if (provider.outage.failed(failure)) return this.#suspend(provider);
    // The worker skips them for minutes, but one connection is to probe when the suspension ends.
    const deadForMs = provider.outage.suspendedForMs || shortMs;
    if (deadForMs === null) return;
    for (const address of addresses) this.#notifyHost({ kind: 'host', address, deadForMs });
  }

  #noAnswer(worker: number, provider: string): void {
    this.#uplink.noAnswer(provider);
    this.#checkUplink();
    // Again, because a worker may have been started since.
    if (this.#uplink.isDown) {
      const { failedForMs } = this.#uplink;
      this.#enqueue(worker, { kind: 'uplink', isDown: true, failedForMs });
    }
  }

  /** Our uplink may be found down: what is suspended since the last answer is to be probed soon. */
  #checkUplink(): void {
    if (!this.#uplink.goesDown()) return;
    const { failed, phase, failedForMs } = this.#uplink;
    for (const key of failed) {
      const provider = this.#providers.get(key);
      if (!provider) continue;
      provider.outage.shorten(this.#uplink.suspensionMs(key), phase);
      this.#suspend(provider);
    }
    this.#notifyUplink({ isDown: true, failedForMs });
  }

  /** The first answer ends it: no receiver had an outage meanwhile. */
  #answered(answering: string): void {
    const { isDown, phase, failedForMs } = this.#uplink;
    const failed = isDown ? [...this.#uplink.failed] : [];
    this.#uplink.answered(answering);
    if (!isDown) return;
    for (const key of failed) {
      const provider = this.#providers.get(key);
      provider?.outage.takeBack(phase);
      if (provider) this.#reopen(provider);
    }
    this.#notifyUplink({ isDown: false, failedForMs });
  }

  #notifyUplink(change: UplinkChange): void {
    for (const worker of this.#workers) this.#enqueue(worker, { kind: 'uplink', ...change });
    this.#options.onUplink?.(change);
  }

  #suspend(provider: BrokerProvider): void {
    const deadForMs = provider.outage.suspendedForMs;
    for (const address of provider.outage.silentAddresses) {
      this.#notifyHost({ kind: 'host', address, deadForMs });
    }
    this.#notifyProvider(provider);
    this.#serve(provider);
  }

  #recovered(provider: BrokerProvider): void {
    for (const pool of provider.pools.values()) pool.window.restart();
    this.#reopen(provider);
  }

  #reopen(provider: BrokerProvider): void {
    for (const address of provider.outage.forgetSilent()) {
      this.#notifyHost({ kind: 'host', address, deadForMs: 0 });
    }
    this.#notifyProvider(provider);
    this.#serve(provider);
  }

  /** Revokes all open connections: they were granted without a message rate. */
  #recall(provider: BrokerProvider): void {
    for (const pool of provider.pools.values()) {
      while (pool.out > pool.yielding) this.#askBack(pool);
    }
  }

  /** Grants what may be granted, then revokes connections where shares are unequal. */
  #serve(provider: BrokerProvider): void {
    for (const pool of provider.pools.values()) {
      while (this.#grantOne(provider, pool));
      this.#redistribute(provider, pool);
      this.#notifyShares(provider, pool);
      for (const [worker, { held, wanted }] of pool.holders) {
        if (held === 0 && wanted === 0) pool.holders.delete(worker);
      }
    }
    if (provider.dependsOnTime) this.#watched.add(provider);
  }

  /** Grants to the worker with the fewest connections; among equals to the one that waits longest. */
  #grantOne(provider: BrokerProvider, pool: BrokerPool): boolean {
    const isSuspended = provider.outage.suspendedForMs > 0;
    const [next] = [...pool.holders]
      .filter(([, { wanted, urgent }]) => (isSuspended ? urgent : wanted) > 0)
      .toSorted(
        ([, one], [, other]) => one.held - other.held || one.waitingSinceMs - other.waitingSinceMs,
      );
    if (!next || pool.out >= provider.windowOf(pool)) return false;
    if (provider.outage.isOngoing && provider.out > 0) return false;
    const nowMs = this.#nowMs();
    if ((pool.newConnections?.waitMs(nowMs) ?? 0) > 0) return false;
    const messagesMax = provider.allow();
    if (messagesMax === 0) return false;
    pool.newConnections?.take(1, nowMs);
    const [worker, holder] = next;
    holder.held += 1;
    holder.wanted -= 1;
    holder.urgent = Math.max(0, holder.urgent - 1);
    pool.count(1);
    this.#enqueue(worker, { kind: 'grant', ...pool.key, messagesMax });
    // The next message may have to wait for long: the workers defer their mail.
    if (messagesMax !== null && provider.suspensionKind !== null) this.#notifyProvider(provider);
    return true;
  }

  /** Revokes connections: those beyond the window, and those that other workers need. */
  #redistribute(provider: BrokerProvider, pool: BrokerPool): void {
    let excess = pool.out - pool.yielding - provider.windowOf(pool);
    while (excess-- > 0) this.#askBack(pool);
    const isShort = pool.waiting > 0 && pool.out >= provider.windowOf(pool);
    if (!isShort || pool.yielding > 0 || provider.outage.isOngoing) return;
    const waiting = [...pool.holders.values()].filter(({ wanted }) => wanted > 0);
    const fewest = Math.min(...waiting.map(({ held }) => held));
    const richest = richestOf(pool);
    const waitsLong = waiting.some(
      (holder) => holder.held === 0 && this.#nowMs() - holder.waitingSinceMs >= WAITING_FOR_MS,
    );
    const most = richest?.[1].held ?? 0;
    if (most - fewest >= 2 || (waitsLong && most > 0)) this.#askBack(pool);
  }

  #askBack(pool: BrokerPool): void {
    const richest = richestOf(pool);
    if (!richest) return;
    richest[1].yielding += 1;
    this.#enqueue(richest[0], { kind: 'yield', ...pool.key, count: 1 });
  }

  #notifyShares(provider: BrokerProvider, pool: BrokerPool): void {
    const window = provider.windowOf(pool);
    const free = Math.max(0, window - pool.out);
    const fair = Math.floor(window / Math.max(1, pool.holders.size));
    for (const [worker, { held, wanted, yielding, lastSent }] of pool.holders) {
      const share = Math.max(1, fair, Math.min(window, held - yielding + free));
      const othersWait = free === 0 && pool.waiting > wanted;
      const isSame = lastSent.share === share && lastSent.window === window;
      if (isSame && lastSent.othersWait === othersWait) continue;
      Object.assign(lastSent, { share, window, othersWait });
      this.#enqueue(worker, { kind: 'pool', ...pool.key, ...lastSent });
    }
  }

  #notifyProvider(provider: BrokerProvider): void {
    provider.notifiedSuspension = provider.suspensionKind;
    const status = provider.status();
    for (const worker of this.#workers) this.#enqueue(worker, { kind: 'provider', ...status });
    if (this.#uplink.isDown) return;
    this.#options.onProvider?.({ ...status, isInOutage: provider.outage.isOngoing });
  }

  #notifyHost(message: HostMessage, from?: number): void {
    for (const worker of this.#workers) if (worker !== from) this.#enqueue(worker, message);
  }

  #answersPromptly(
    { providers, isPrompt }: Extract<WorkerMessage, { kind: 'prompt' }>,
    from: number,
  ) {
    for (const name of providers) {
      this.#prompt.delete(name);
      if (isPrompt) this.#prompt.add(name);
      if (this.#prompt.size > PROMPT_MAX) this.#prompt.delete(this.#prompt.keys().next().value!);
    }
    if (!isPrompt) return;
    for (const worker of this.#workers) {
      if (worker !== from) this.#enqueue(worker, { kind: 'prompt', providers });
    }
  }

  #enqueue(worker: number, message: BrokerMessage): void {
    const box = this.#outbox.get(worker);
    if (box) box.push(message);
    else this.#outbox.set(worker, [message]);
  }

  /** Called last, when the state is consistent: a worker in this process may answer at once. */
  #flush(): void {
    const outbox = this.#outbox;
    this.#outbox = new Map();
    for (const [worker, messages] of outbox) this.#options.send(worker, messages);
  }

  #provider(key: string): BrokerProvider {
    let provider = this.#providers.get(key);
    if (!provider) {
      const limits = limitsOf(this.#options.settings, key);
      const roomOf = this.#rooms.join(key, limits.connections);
      provider = new BrokerProvider(key, limits, { ...this.#options, roomOf });
      this.#providers.set(key, provider);
    }
    return provider;
  }

  #forget(): void {
    if (this.#nowMs() < this.#forgetAtMs) return;
    this.#forgetAtMs = this.#nowMs() + FORGET_EVERY_MS;
    const beforeMs = this.#nowMs() - (this.#providers.size > PROVIDERS_MAX ? 0 : FORGET_AFTER_MS);
    for (const [key, provider] of this.#providers) {
      if (!provider.isForgettable || provider.usedAtMs >= beforeMs) continue;
      this.#providers.delete(key);
      this.#rooms.leave(key);
    }
  }

  #nowMs(): number {
    return this.#options.world.monotonicMs();
  }
}

/** The worker that holds most, less what was revoked from it. */
function richestOf(pool: BrokerPool): [number, Holder] | undefined {
  return [...pool.holders]
    .filter(([, { held, yielding }]) => held > yielding)
    .toSorted(([, one], [, other]) => other.held - other.yielding - (one.held - one.yielding))[0];
}

/** Calls the broker's `tick` while anything depends on time; without mail there are no calls. */
export class BrokerTimer {
  readonly #broker: Pick<Broker, 'tick' | 'tickWithinMs'>;
  #timer: NodeJS.Timeout | undefined;
  #setForMs = Infinity;

  constructor(broker: Pick<Broker, 'tick' | 'tickWithinMs'>) {
    this.#broker = broker;
  }

  /** To be called after every message to the broker. */
  schedule(): void {
    const withinMs = this.#broker.tickWithinMs;
    if (withinMs >= this.#setForMs) return;
    clearTimeout(this.#timer);
    this.#setForMs = withinMs;
    this.#timer = setTimeout(() => {
      this.#setForMs = Infinity;
      this.#broker.tick();
      this.schedule();
    }, withinMs).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#setForMs = 0;
  }
}
