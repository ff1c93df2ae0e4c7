/**
 * Connections to receiving servers: opened sparingly, used again, never more than a provider likes.
 *
 * A provider is what shares limits: the roll-up of MX hosts of one operator (net/dns/mx.ts). How many
 * connections this worker may have to it, the broker of the machine decides (broker.ts); for a
 * message on an open session nobody is asked. Reuse is worth a lot: a new STARTTLS session costs
 * 12 times the CPU of a message on an open one. A message leaves from the address that its sending
 * domain has towards this receiver (sources.ts), and so only on a session from there. A server that did not answer is left alone for a
 * while, and so is a provider of which none does.
 */
import { isIPv6 } from 'node:net';
import { connectSmtp, type Follower, type SmtpConnection } from '../net/smtp/client.ts';
import type { SmtpOptions, Transaction } from '../net/smtp/client.ts';
import type { World } from '../core/world.ts';
import { classifyReply } from '../mail/replies/classify.ts';
import type { ConnectionPool, Permit, PoolListener, Slot, Wish } from './connection-pool.ts';
import {
  type Acquired,
  type SendRequest,
  isSilence,
  keyOf,
  type Target,
  usedAgain,
} from './errand.ts';
import { ProviderView } from './provider-view.ts';
import type { BrokerMessage, WorkerMessage } from './permits.ts';
import { Remembered } from './remembered.ts';
import { START_CONNECTIONS } from './shaping-defaults.ts';
import { limitsOf, type ShapingSettings, slowdownFor } from './shaping-settings.ts';
import { inRankOrder, type Source } from './sources.ts';

export type ConnectionsOptions = {
  world: World;
  port: number;
  heloName: string;
  /** Ours to send from; none: the system's choice, under `heloName`. */
  sources: readonly Source[];
  shaping: ShapingSettings;
  /** To the broker, in order; its answers come to `hear`. */
  send: (messages: readonly WorkerMessage[]) => void;
  session?: Pick<SmtpOptions, 'auth' | 'implicitTls' | 'timeouts' | 'ca'>;
};

const DEAD_FOR_MS = 2 * 60_000;
const TIMED_OUT_FOR_MS = 15 * 60_000;
/** As long as greylisting remembers a first attempt: nobody should come from elsewhere meanwhile. */
const UNUSABLE_FOR_MS = 15 * 60_000;
/** A server that did not answer what was announced gets one message after the other. */
const ALONE_FOR_MS = 3 * 24 * 3600_000;
/** Whoever got no connection for so long lets others go first. */
const TURN_WITHIN_MS = 30_000;
const NO_TURN_DELAY_MS = 2_000;
/**
 * As many may wait at least. More come when many domains turn out to be one provider's: they would
 * keep everybody else's mail from being started.
 */
const WAITING_MIN = 16;
const SWEEP_EVERY_MS = 1_000;
/** While another worker waits for a connection. */
const WANTED_SWEEP_EVERY_MS = 50;
/** Growth is told in one go: what it allows is wanted soon, not at once. */
const GROWTH_BATCHED_FOR_MS = 10;

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #providers = new Map<string, ProviderView>();
  readonly #slots = new WeakMap<SmtpConnection, Slot>();
  readonly #dead: Remembered;
  readonly #alone: Remembered;
  /** Addresses of ours from which an address of theirs cannot be reached. */
  readonly #unusable: Remembered;
  #sweeper: NodeJS.Timeout | undefined;
  #outbox: WorkerMessage[] = [];
  #isFlushing = false;
  /** Pools in which other people wait than the broker knows of. */
  readonly #asking = new Set<ConnectionPool>();
  readonly #listener: PoolListener = {
    send: (message) => this.#send(message),
    waitingChanged: (pool) => {
      this.#asking.add(pool);
      this.#flushSoon();
    },
  };
  readonly #grown = new Map<ConnectionPool, number>();
  #onChange: (provider: string) => void = () => {};

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#dead = new Remembered(options.world);
    this.#alone = new Remembered(options.world);
    this.#unusable = new Remembered(options.world);
  }

  /**
   * An open session to the target: a used one if there is one, else a new one when allowed, else
   * one that is busy and takes the message next.
   */
  async acquire(target: Target, request: SendRequest): Promise<Acquired> {
    const provider = this.#provider(target.provider);
    const wish = this.#wishOf(target, request);
    const sources = this.#sourcesFor(target, request.transaction);
    const untilMs = this.#nowMs() + Math.min(TURN_WITHIN_MS, request.patienceMs);
    for (;;) {
      const source = this.#usable(sources, target.address) ?? sources[0]!;
      const pool = provider.pool(source);
      const slot = pool.takeIdle(wish.key);
      if (slot) return usedAgain(slot);
      const delayMs = this.#postponeForMs([provider, pool], target, request.patienceMs);
      if (delayMs > 0) return { kind: 'postponed', delayMs };
      const isFull = pool.held >= pool.share;
      const permit = pool.takePermit() ?? (isFull ? await pool.replaceIdle() : null);
      if (permit) {
        const opened = await this.#open(target, pool, permit);
        if (!('ourProblem' in opened)) return opened;
        this.#unusable.remember(`${source} ${target.address}`, UNUSABLE_FOR_MS);
        if (this.#usable(sources, target.address) === null) return opened;
        continue;
      }
      const timeoutMs = untilMs - this.#nowMs();
      const areTooMany = pool.waiting >= Math.max(WAITING_MIN, 2 * pool.share);
      if (timeoutMs <= 0 || areTooMany) return { kind: 'postponed', delayMs: NO_TURN_DELAY_MS };
      const ahead = await pool.turn(wish, { isUrgent: provider.isInOutage, timeoutMs });
      if (ahead) return { ...usedAgain(ahead), announced: true };
    }
  }

  /** The hosts of the provider that an idle session leads to from where this message is sent. */
  idleHosts(provider: string, transaction: Pick<Transaction, 'envelopeFrom'>): ReadonlySet<string> {
    const view = this.#providers.get(provider);
    if (!view) return new Set();
    const sources = ['0.0.0.0', '::'].map((address) =>
      this.#sourcesFor({ provider: provider, address }, transaction).at(0),
    );
    return view.idleHosts(sources);
  }

  /** What goes behind a message on its session: pass it on to `send`. */
  followerOn(connection: SmtpConnection): Follower | null {
    return this.#slots.get(connection)?.follower ?? null;
  }

  /** It did not answer what was announced: it may have thrown it away. */
  markAlone(host: string): void {
    this.#alone.remember(host, ALONE_FOR_MS);
  }

  /** Gives a session back after a message; it is kept if it can carry another. */
  release(connection: SmtpConnection): void {
    const slot = this.#slots.get(connection);
    if (!slot) return;
    slot.pool.finished(slot, this.#nowMs());
    this.#startSweeping();
  }

  /** How many messages may be under way to this provider at once. */
  windowOf(provider: string): number {
    const view = this.#providers.get(provider);
    return (view?.share ?? START_CONNECTIONS) + (view?.following ?? 0);
  }

  /** How much longer the provider is left alone as a whole; 0: it may be asked. */
  suspendedForMs(provider: string): number {
    return this.#providers.get(provider)?.suspendedForMs ?? 0;
  }

  /** What was met where nobody answers; null: somebody does, or nothing is known. */
  outageReasonOf(provider: string): string | null {
    return this.#providers.get(provider)?.outageReason ?? null;
  }

  onChange(listener: (provider: string) => void): void {
    this.#onChange = listener;
  }

  /** It took a message: one more connection, up to the cap, if all were busy. */
  grow(provider: string, source: string): void {
    const pool = this.#provider(provider).pool(source);
    if (!pool.wasBusy || pool.window >= pool.limits.connections) return;
    if (this.#grown.size === 0) setTimeout(() => this.#sendGrowth(), GROWTH_BATCHED_FOR_MS);
    this.#grown.set(pool, (this.#grown.get(pool) ?? 0) + 1);
  }

  /** It said that we are too many or too fast. @param reason what it said */
  shrink(provider: string, source: string, reason: string): void {
    this.#complained({ provider, source, reason, openedForMs: null });
  }

  /** None of the hosts that were asked could be reached. */
  unreached(provider: string, addresses: readonly string[], reason: string): void {
    this.#send({ kind: 'unreached', provider, addresses, reason });
  }

  markDead(address: string, { timedOut }: { timedOut: boolean }): void {
    const deadForMs = timedOut ? TIMED_OUT_FOR_MS : DEAD_FOR_MS;
    this.#dead.remember(address, deadForMs);
    this.#send({ kind: 'host', address, deadForMs });
  }

  /** How much longer the address is left alone; 0: it may be asked. */
  deadForMs(address: string): number {
    return this.#dead.forMs(address);
  }

  /** What is known of the providers that this worker sends to, or that are in trouble. */
  get providers(): Iterable<ProviderView> {
    return this.#providers.values();
  }

  /** What the broker says. */
  receive(messages: readonly BrokerMessage[]): void {
    for (const message of messages) {
      if (message.kind === 'host') this.#dead.remember(message.address, message.deadForMs);
      else if (message.kind === 'provider')
        this.#changed(this.#provider(message.provider).receive(message));
      else this.#handle(this.#provider(message.provider), message);
    }
  }

  /** Says QUIT on every idle session. Sessions in use are closed when they are given back. */
  async close(): Promise<void> {
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
    const idle = [...this.#providers.values()].flatMap((provider) => provider.drainIdle());
    await Promise.all(idle.map(({ connection }) => connection.close()));
  }

  #handle(
    provider: ProviderView,
    message: Exclude<BrokerMessage, { kind: 'host' | 'provider' }>,
  ): void {
    const pool = provider.pool(message.source);
    switch (message.kind) {
      case 'grant':
        pool.granted(message.messagesMax);
        this.#startSweeping();
        break;
      case 'yield':
        pool.owe(message.count);
        break;
      case 'wanted':
        pool.othersWait = message.isWanted;
        if (message.isWanted) this.#sweepForOthers(pool);
        break;
      case 'pool':
        pool.window = message.window;
        pool.share = message.share;
        pool.wakeAll();
        provider.countShares();
        this.#onChange(message.provider);
        break;
    }
  }

  #changed(provider: ProviderView): void {
    provider.wakeAll();
    this.#onChange(provider.key);
  }

  #postponeForMs(
    [provider, pool]: [ProviderView, ConnectionPool],
    { address }: Target,
    patienceMs: number,
  ): number {
    // Who was granted a place goes, although the next one has to wait.
    if (provider.isPaced && !pool.hasPermit) return provider.suspendedForMs;
    const deadForMs = this.deadForMs(address);
    return deadForMs < patienceMs ? deadForMs : 0;
  }

  async #open(target: Target, pool: ConnectionPool, permit: Permit): Promise<Acquired> {
    const [{ address, provider }, { source }, key] = [target, pool, keyOf(target)];
    const startedMs = this.#nowMs();
    const result = await connectSmtp(this.#smtpOptions(target, pool.source));
    if (!isSilence(result)) this.#reached(provider, address);
    if (result.kind !== 'ready') {
      const isRefused = result.kind === 'replied' && classifyReply(result).slowDown === true;
      if (isRefused) {
        const openedForMs = this.#nowMs() - startedMs;
        const reason = result.reply.message;
        this.#complained({ provider: provider, source, reason, openedForMs });
      }
      pool.returnPermit(permit);
      return { ...result, source, isCrowded: isRefused && pool.works(key, this.#nowMs()) };
    }
    const { allowance } = permit;
    const messagesMax = Math.min(allowance ?? Infinity, pool.limits.messagesPerConnection);
    const { connection } = result;
    const slot: Slot = {
      pool,
      connection,
      key,
      messagesMax,
      allowance,
      follower: (mayFollow) => pool.announce(slot, mayFollow),
      idleSinceMs: 0,
    };
    this.#slots.set(connection, slot);
    pool.opened(slot);
    return { ...result, source };
  }

  #complained(what: {
    provider: string;
    source: string;
    reason: string;
    openedForMs: number | null;
  }) {
    const found = slowdownFor(what.provider, what.reason);
    const pace = found && { messagesPerMinute: found.messagesPerMinute, forMs: found.forMs };
    this.#send({ kind: 'slow', ...what, pace });
  }

  #reached(provider: string, address: string): void {
    this.#dead.remember(address, 0);
    this.#send({ kind: 'reached', provider, address });
  }

  #smtpOptions(target: Target, source: string): SmtpOptions {
    const { host, address, dane, reducedHello } = target;
    const tls = target.expectsTls === true ? 'required' : target.tls;
    const { port, sources, session } = this.#options;
    const localAddress = source === '' ? undefined : source;
    const heloName = sources.find(({ ip }) => ip === source)?.heloName ?? this.#options.heloName;
    const how = { tls, dane, reducedHello };
    return { ...session, host, address, port, heloName, ...how, localAddress };
  }

  #wishOf(target: Target, { transaction, isAlone }: SendRequest): Wish {
    const mayFollow = !isAlone && this.#alone.forMs(target.host) === 0;
    return { key: keyOf(target), transaction: mayFollow ? transaction : null };
  }

  /** Our addresses of the same family, the first one to be used unless it cannot be (sources.ts). */
  #sourcesFor(
    { provider, address }: Pick<Target, 'provider' | 'address'>,
    { envelopeFrom }: Pick<Transaction, 'envelopeFrom'>,
  ): readonly string[] {
    const family = address.includes(':');
    const own = this.#options.sources.map(({ ip }) => ip).filter((ip) => isIPv6(ip) === family);
    if (own.length === 0) return [''];
    return inRankOrder(own, { sender: senderOf(envelopeFrom), receiver: provider });
  }

  /** The first that is not known to lead nowhere; null: none. */
  #usable(sources: readonly string[], address: string): string | null {
    return sources.find((source) => this.#unusable.forMs(`${source} ${address}`) === 0) ?? null;
  }

  #provider(key: string): ProviderView {
    let provider = this.#providers.get(key);
    if (!provider) {
      const { shaping, world } = this.#options;
      const limits = limitsOf(shaping, key);
      provider = new ProviderView(key, { limits, world, listener: this.#listener });
      this.#providers.set(key, provider);
    }
    return provider;
  }

  #send(message: WorkerMessage): void {
    this.#outbox.push(message);
    this.#flushSoon();
  }

  /**
   * All that one turn of the event loop brings is told at once: who looks again and goes on waiting
   * has not changed anything.
   */
  #flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => {
      this.#isFlushing = false;
      const messages = [
        ...this.#outbox,
        ...[...this.#asking].flatMap((pool) => pool.wants() ?? []),
      ];
      this.#outbox = [];
      this.#asking.clear();
      if (messages.length > 0) this.#options.send(messages);
    });
  }

  #sendGrowth(): void {
    for (const [{ provider, source }, count] of this.#grown) {
      this.#send({ kind: 'took', provider, source, count });
    }
    this.#grown.clear();
  }

  #sweepForOthers(pool: ConnectionPool): void {
    pool.sweep(this.#nowMs());
    if (!pool.othersWait) return;
    setTimeout(() => this.#sweepForOthers(pool), WANTED_SWEEP_EVERY_MS).unref();
  }

  #startSweeping(): void {
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_EVERY_MS).unref();
  }

  #sweep(): void {
    const nowMs = this.#nowMs();
    for (const [key, provider] of this.#providers) {
      provider.sweep(nowMs);
      if (provider.isForgettable(this.#providers.size)) this.#providers.delete(key);
    }
  }

  #nowMs(): number {
    return this.#options.world.monotonicMs();
  }
}

/** The sending domain, as the return path has it. */
function senderOf(envelopeFrom: string): string {
  return envelopeFrom.slice(envelopeFrom.lastIndexOf('@') + 1);
}
