/**
 * Grants connections to the workers of one machine, because a provider counts the connections of all of them
 * together. The broker does no I/O; it runs in the supervisor, or in the only worker.
 *
 * Guarantees: the permits of a source at a provider never exceed the limit. A waiting worker gets connections even
 * when the others have them all: they close idle ones and share busy ones. The permits of a dead worker become free.
 * Workers report only opening, closing and growth, so reusing a connection sends no message.
 */
import type { World } from '../../lib/world.ts';
import type { BrokerPool } from './broker-pool.ts';
import { BrokerProvider } from './broker-provider.ts';
import type {
  BrokerMessage,
  HostMessage,
  ProviderStatus,
  WorkerMessage,
} from './broker-messages.ts';
import { GroupCapacities } from './group-capacity.ts';
import { limitsOf, type ShapingSettings } from '../shaping/settings.ts';
import { Uplink, type UplinkChange } from '../outage/uplink.ts';

type BrokerOptions = {
  settings: ShapingSettings;
  world: Pick<World, 'monotonicMs' | 'random'>;
  send: (worker: number, messages: readonly BrokerMessage[]) => void;
  onUplink?: (change: UplinkChange) => void;
  /** Called when a provider may have changed, except while the uplink is down. For the log. */
  onProvider?: (change: ProviderStatus) => void;
};

export const BROKER_TICK_MS = 250;
const DROP_UNUSED_EVERY_MS = 10_000;
/** Milliseconds that a provider without mail is kept, with the number of connections that it accepted. */
const UNUSED_AFTER_MS = 3600_000;
/** Beyond this number, providers without mail are dropped at once. They start with few connections again. */
const PROVIDERS_MAX = 20_000;
/** Limit on the prompt providers that a joining worker is notified of. The newest are kept. */
const PROMPT_PROVIDERS_MAX = 1_000;

export class Broker {
  readonly #options: BrokerOptions;
  readonly #providers = new Map<string, BrokerProvider>();
  readonly #capacities = new GroupCapacities();
  readonly #workers = new Set<number>();
  readonly #timedProviders = new Set<BrokerProvider>();
  /** Providers that gave a session at once, the newest last. */
  readonly #promptProviders = new Set<string>();
  readonly #uplink: Uplink;
  #outbox = new Map<number, BrokerMessage[]>();
  #dropUnusedAtMs = 0;

  constructor(options: BrokerOptions) {
    this.#options = options;
    this.#uplink = new Uplink(options.settings.uplink, options.world);
  }

  /** Adds a worker that is ready to receive. It is notified of prompt providers, even without mail for them. */
  addWorker(worker: number): void {
    this.#workers.add(worker);
    if (this.#promptProviders.size === 0) return;
    this.#enqueue(worker, { kind: 'prompt', providers: [...this.#promptProviders] });
    this.#flush();
  }

  removeWorker(worker: number): void {
    this.#workers.delete(worker);
    for (const provider of this.#providers.values()) {
      for (const pool of provider.pools.values()) {
        if (pool.removeWorker(worker)) this.#grantPermits(provider);
      }
    }
    this.#outbox.delete(worker);
    this.#flush();
  }

  receive(worker: number, messages: readonly WorkerMessage[]): void {
    for (const message of messages) this.#handle(worker, message);
    this.#flush();
  }

  tick(): void {
    this.#checkUplink();
    for (const provider of this.#timedProviders) {
      const hasChanged = provider.endPacingIfOver();
      this.#grantPermits(provider);
      if (hasChanged || provider.isWaitReported !== provider.waitMs > 0)
        this.#notifyProvider(provider);
      if (!provider.dependsOnTime) this.#timedProviders.delete(provider);
    }
    this.#dropUnused();
    this.#flush();
  }

  /** Milliseconds until `tick` must be called; Infinity: not before the next message. */
  get tickWithinMs(): number {
    if (this.#timedProviders.size > 0 || this.#uplink.isSuspect) return BROKER_TICK_MS;
    return this.#providers.size > 0 ? DROP_UNUSED_EVERY_MS : Infinity;
  }

  #handle(worker: number, message: WorkerMessage): void {
    if (message.kind === 'host') return this.#forwardSkippedAddress(worker, message);
    if (message.kind === 'prompt') return this.#notePrompt(message, worker);
    if (message.kind === 'replied') return this.#recordReply(message.provider);
    if (message.kind === 'unresolved') return this.#recordNoReply(worker, message.provider);
    const provider = this.#providerOf(message.provider);
    switch (message.kind) {
      case 'want':
        provider.poolFor(message.source).changeDemand(worker, message, this.#nowMs());
        provider.usedAtMs = this.#nowMs();
        if (provider.waitMs > 0) this.#enqueue(worker, { kind: 'provider', ...provider.status() });
        break;
      case 'free':
        provider.poolFor(message.source).returnPermits(worker, message.count, this.#nowMs());
        provider.returnAllowance(message.unused);
        break;
      case 'accepted':
        if (provider.recordAccepted(message.source, message.count)) this.#notifyProvider(provider);
        break;
      case 'slow':
        if (!provider.slowDown(message)) return;
        if (message.pace !== null) this.#revokeAll(provider);
        this.#notifyProvider(provider);
        break;
      case 'reached':
        if (provider.recordReached(message.address)) this.#reopen(provider);
        return this.#recordReply(message.provider);
      case 'unreached':
        this.#recordUnreached(provider, message);
        return this.#recordNoReply(worker, message.provider);
    }
    this.#grantPermits(provider);
  }

  /** Forwards an unreachable address. Caps the time, because the worker may not know that the uplink is down. */
  #forwardSkippedAddress(worker: number, { address, skippedForMs }: HostMessage): void {
    const longestMs = this.#uplink.isDown ? this.#options.settings.uplink.retryMs : Infinity;
    this.#notify(
      { kind: 'host', address, skippedForMs: Math.min(skippedForMs, longestMs) },
      worker,
    );
  }

  #recordUnreached(
    provider: BrokerProvider,
    { addresses, reason }: Extract<WorkerMessage, { kind: 'unreached' }>,
  ): void {
    const { isDown, phase } = this.#uplink;
    const uplinkSuspensionMs = isDown ? this.#uplink.suspensionMs(provider.key) : null;
    const failure = { addresses, reason, phase, suspensionMs: uplinkSuspensionMs };
    if (provider.recordFailure(failure)) return this.#suspend(provider);
    // The worker skips the addresses for minutes, but one connection must probe when the suspension ends.
    const skippedForMs = provider.outage.suspendedForMs || uplinkSuspensionMs;
    if (skippedForMs === null) return;
    for (const address of addresses) this.#notify({ kind: 'host', address, skippedForMs });
  }

  #recordNoReply(worker: number, provider: string): void {
    this.#uplink.recordNoReply(provider);
    this.#checkUplink();
    // Sent again, because the worker may have started since.
    if (this.#uplink.isDown) {
      const { failedForMs } = this.#uplink;
      this.#enqueue(worker, { kind: 'uplink', isDown: true, failedForMs });
    }
  }

  #checkUplink(): void {
    if (!this.#uplink.markDownIfEvident()) return;
    const { failedProviders, phase, failedForMs } = this.#uplink;
    for (const key of failedProviders) {
      const provider = this.#providers.get(key);
      if (!provider) continue;
      provider.outage.shortenSuspension(this.#uplink.suspensionMs(key), phase);
      this.#suspend(provider);
    }
    this.#notifyUplink({ isDown: true, failedForMs });
  }

  /**
   * Records a reply of a server. If the uplink was down, this ends it, and the failures of its phase no longer
   * count.
   */
  #recordReply(repliedProvider: string): void {
    const { isDown, phase, failedForMs } = this.#uplink;
    const failedProviders = isDown ? [...this.#uplink.failedProviders] : [];
    this.#uplink.recordReply(repliedProvider);
    if (!isDown) return;
    for (const key of failedProviders) {
      const provider = this.#providers.get(key);
      provider?.undoFailures(phase);
      if (provider) this.#reopen(provider);
    }
    this.#notifyUplink({ isDown: false, failedForMs });
  }

  #notifyUplink(change: UplinkChange): void {
    this.#notify({ kind: 'uplink', ...change });
    this.#options.onUplink?.(change);
  }

  #suspend(provider: BrokerProvider): void {
    const { silentAddresses, suspendedForMs } = provider.outage;
    this.#applyOutageChange(provider, { addresses: silentAddresses, skippedForMs: suspendedForMs });
  }

  #reopen(provider: BrokerProvider): void {
    this.#applyOutageChange(provider, {
      addresses: provider.outage.clearSilent(),
      skippedForMs: 0,
    });
  }

  #applyOutageChange(
    provider: BrokerProvider,
    { addresses, skippedForMs }: { addresses: readonly string[]; skippedForMs: number },
  ): void {
    for (const address of addresses) this.#notify({ kind: 'host', address, skippedForMs });
    this.#notifyProvider(provider);
    this.#grantPermits(provider);
  }

  /** Revokes all open connections, because they were granted without a message rate. */
  #revokeAll(provider: BrokerProvider): void {
    for (const pool of provider.pools.values()) {
      while (pool.inUseAfterYields > 0) this.#revokeOne(pool);
    }
  }

  /** Grants all permits that the limits allow, then revokes connections where shares are unequal. */
  #grantPermits(provider: BrokerProvider): void {
    for (const pool of provider.pools.values()) {
      while (this.#grantOne(provider, pool));
      this.#redistribute(provider, pool);
      for (const [worker, share] of pool.changedShares(provider.windowOf(pool))) {
        this.#enqueue(worker, { kind: 'pool', ...pool.key, ...share });
      }
    }
    if (provider.dependsOnTime) this.#timedProviders.add(provider);
  }

  #grantOne(provider: BrokerProvider, pool: BrokerPool): boolean {
    const worker = pool.nextWaiting({ isUrgent: provider.outage.suspendedForMs > 0 });
    if (worker === null || pool.inUse >= provider.windowOf(pool)) return false;
    if (provider.state === 'suspended' && provider.inUse > 0) return false;
    const nowMs = this.#nowMs();
    if ((pool.newConnections?.waitMs(nowMs) ?? 0) > 0) return false;
    const messagesMax = provider.takeAllowance();
    if (messagesMax === 0) return false;
    pool.newConnections?.takeTokens(1, nowMs);
    pool.grant(worker);
    this.#enqueue(worker, { kind: 'grant', ...pool.key, messagesMax });
    // The next message may wait long, so the workers defer their mail.
    if (messagesMax !== null && provider.waitMs > 0) this.#notifyProvider(provider);
    return true;
  }

  /** Revokes connections beyond the window, and those that other workers need. */
  #redistribute(provider: BrokerProvider, pool: BrokerPool): void {
    const window = provider.windowOf(pool);
    for (let excess = pool.inUseAfterYields - window; excess > 0; excess -= 1) {
      this.#revokeOne(pool);
    }
    if (pool.demand === 0 || pool.inUse < window || pool.isYielding) return;
    if (provider.state !== 'suspended' && pool.isUnfair(this.#nowMs())) this.#revokeOne(pool);
  }

  #revokeOne(pool: BrokerPool): void {
    const worker = pool.revokeOne();
    if (worker !== null) this.#enqueue(worker, { kind: 'yield', ...pool.key, count: 1 });
  }

  #notifyProvider(provider: BrokerProvider): void {
    const status = provider.status();
    provider.isWaitReported = status.waitMs > 0;
    this.#notify({ kind: 'provider', ...status });
    if (!this.#uplink.isDown) this.#options.onProvider?.(status);
  }

  #notePrompt({ providers, isPrompt }: Extract<WorkerMessage, { kind: 'prompt' }>, from: number) {
    for (const name of providers) {
      this.#promptProviders.delete(name);
      if (isPrompt) this.#promptProviders.add(name);
      if (this.#promptProviders.size > PROMPT_PROVIDERS_MAX)
        this.#promptProviders.delete(this.#promptProviders.keys().next().value!);
    }
    if (isPrompt) this.#notify({ kind: 'prompt', providers }, from);
  }

  #notify(message: BrokerMessage, from?: number): void {
    for (const worker of this.#workers) if (worker !== from) this.#enqueue(worker, message);
  }

  #enqueue(worker: number, message: BrokerMessage): void {
    const box = this.#outbox.get(worker);
    if (box) box.push(message);
    else this.#outbox.set(worker, [message]);
  }

  /** Sends the queued messages. Called last, because a worker in this process may answer at once. */
  #flush(): void {
    const outbox = this.#outbox;
    this.#outbox = new Map();
    for (const [worker, messages] of outbox) this.#options.send(worker, messages);
  }

  #providerOf(key: string): BrokerProvider {
    let provider = this.#providers.get(key);
    if (!provider) {
      const limits = limitsOf(this.#options.settings, key);
      const capacityOf = this.#capacities.addProvider(key, limits.connections);
      provider = new BrokerProvider(key, limits, { ...this.#options, capacityOf });
      this.#providers.set(key, provider);
    }
    return provider;
  }

  #dropUnused(): void {
    if (this.#nowMs() < this.#dropUnusedAtMs) return;
    this.#dropUnusedAtMs = this.#nowMs() + DROP_UNUSED_EVERY_MS;
    const beforeMs = this.#nowMs() - (this.#providers.size > PROVIDERS_MAX ? 0 : UNUSED_AFTER_MS);
    for (const [key, provider] of this.#providers) {
      if (!provider.isIdle || provider.usedAtMs >= beforeMs) continue;
      this.#providers.delete(key);
      this.#capacities.removeProvider(key);
    }
  }

  #nowMs(): number {
    return this.#options.world.monotonicMs();
  }
}

export class BrokerTimer {
  readonly #broker: Pick<Broker, 'tick' | 'tickWithinMs'>;
  #timer: NodeJS.Timeout | undefined;
  #setForMs = Infinity;

  constructor(broker: Pick<Broker, 'tick' | 'tickWithinMs'>) {
    this.#broker = broker;
  }

  /** Sets the timer for the next tick. The owner of the broker calls this after every message to it. */
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
