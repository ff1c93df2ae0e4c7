/**
 * The connections of one worker to receiving servers: kept open, reused, within the limits of each
 * provider.
 *
 * The broker of the machine (delivery/broker/broker.ts) grants every new connection; a message on an open session
 * needs no grant. Sessions are reused because a new one with STARTTLS costs 12 times the CPU of a
 * message on an open one. A message leaves from the address that its sending domain has towards this
 * receiver (sources.ts), so only on a session from that address. An address that did not answer is
 * skipped for minutes, and a provider that does not answer at all is suspended.
 */
import {
  type ConnectResult,
  connectSmtp,
  type SmtpOptions,
  type Transaction,
} from '../../net/smtp/client.ts';
import type { World } from '../../lib/world.ts';
import { classifyReply } from '../../mail/replies/classify.ts';
import type { BlockKey } from '../blocks/block-store.ts';
import type { BrokerMessage, WorkerMessage } from '../broker/messages.ts';
import { ProviderView } from './provider-view.ts';
import type { Session } from './session.ts';
import type { PoolContext, SessionPool, SessionRequest } from './session-pool.ts';
import { limitsOf, type ShapingSettings, slowdownFor, START_CONNECTIONS } from './settings.ts';
import { Remembered } from '../outage/remembered.ts';
import type { Place } from './slots.ts';
import { type Source, sourcesFor } from './sources.ts';
import { keyOf, type Target } from '../route/target.ts';
import { UplinkView } from '../outage/uplink.ts';

type OfProvider = Exclude<BrokerMessage, { kind: 'host' | 'prompt' | 'uplink' }>;

/** No server was contacted, and none is to be contacted for `delayMs`. `block`: the provider refuses such mail. */
export type Postponed = { kind: 'postponed'; delayMs: number; block?: BlockKey };
/**
 * `source`: our address; `''` for the system's choice. `isCrowded`: refused because of our other open
 * connections there, one of which may carry the message. `announced`: the session is busy, and the
 * message follows the one on it.
 */
type Acquired =
  | { kind: 'ready'; session: Session; source: string; reused?: boolean; announced?: boolean }
  | (Exclude<ConnectResult, { kind: 'ready' }> & { source: string; isCrowded: boolean })
  | Postponed;

export type SendRequest = {
  transaction: Transaction;
  /** A message that would expire sooner is also sent to servers that did not answer within the last minutes. */
  postponableMs: number;
  /** It failed on a kept session: it goes alone on a new one. */
  isAlone: boolean;
  hasOthers?: boolean;
  place?: Place | undefined;
};

type ConnectionsOptions = {
  world: World;
  port: number;
  heloName: string;
  /** Addresses to send from; none: the system's choice, with `heloName`. */
  sources: readonly Source[];
  shaping: ShapingSettings;
  /** Sends to the broker, in order; its messages are passed to `receive`. */
  send: (messages: readonly WorkerMessage[]) => void;
  session?: Pick<SmtpOptions, 'auth' | 'implicitTls' | 'timeouts' | 'ca'>;
};

/** How long a connection may take while another address is left. */
const CONNECT_MS_WITH_OTHERS = 10_000;
const DEAD_FOR_MS = 2 * 60_000;
const TIMED_OUT_FOR_MS = 15 * 60_000;
/** Greylisting usually accepts a retry from the same address within this time. */
const UNUSABLE_FOR_MS = 15 * 60_000;
/** A server that did not answer an announced message gets no announced messages for this time. */
const ALONE_FOR_MS = 3 * 24 * 3600_000;
/** After this time without a connection a delivery is postponed and makes room for others. */
const TURN_WITHIN_MS = 30_000;
const NO_TURN_DELAY_MS = 2_000;
/**
 * Deliveries beyond this, or four times the share, are postponed, because waiting ones occupy the worker. A share
 * that is halved leaves as many: three for each session (`windowOf`), of which the remaining ones take two.
 */
const WAITING_MIN = 16;
const SWEEP_EVERY_MS = 1_000;
const GROWTH_BATCHED_FOR_MS = 10;

export class Connections {
  readonly uplink: UplinkView;
  readonly #options: ConnectionsOptions;
  readonly #providers = new Map<string, ProviderView>();
  readonly #dead: Remembered;
  readonly #alone: Remembered;
  /** Pairs of our address and a server's address between which no connection is possible. */
  readonly #unusable: Remembered;
  #sweeper: NodeJS.Timeout | undefined;
  #isClosed = false;
  #outbox: WorkerMessage[] = [];
  #isFlushing = false;
  /** Pools whose number of waiting deliveries changed since the broker was last notified. */
  readonly #asking = new Set<SessionPool>();
  readonly #context: PoolContext;
  readonly #grown = new Map<SessionPool, number>();
  #onChange: (provider: string) => void = () => {};
  #onPrompt: (provider: string) => void = () => {};

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#dead = new Remembered(options.world);
    this.#alone = new Remembered(options.world);
    this.#unusable = new Remembered(options.world);
    const send = (message: WorkerMessage): void => this.#send(message);
    this.uplink = new UplinkView(options.shaping.uplink, { clock: options.world, send });
    const waitingChanged = (pool: SessionPool): void => {
      this.#asking.add(pool);
      this.#flushSoon();
    };
    this.#context = { world: options.world, send, waitingChanged };
  }

  /** A session to the target: an idle one, else a new one if granted, else a busy one that takes the
   *  message next. */
  async acquire(target: Target, request: SendRequest): Promise<Acquired> {
    const provider = this.#provider(target.provider);
    const wanted = this.#sessionRequestOf(target, request);
    const sources = this.#sourcesFor(target, request.transaction);
    const untilMs = this.#nowMs() + Math.min(TURN_WITHIN_MS, request.postponableMs);
    for (;;) {
      const source = this.#usable(sources, target.address) ?? sources[0]!;
      const pool = provider.pool(source);
      const idle = request.isAlone ? null : pool.takeIdle(wanted.key);
      if (idle) return usedAgain(idle);
      const delayMs = this.#postponeForMs([provider, pool], target, request.postponableMs);
      if (delayMs > 0) return { kind: 'postponed', delayMs };
      const session = pool.connect(wanted.key);
      if (session) {
        const opened = await this.#open(target, { pool, session, ...request });
        if (!('ourProblem' in opened)) return opened;
        this.#unusable.remember(`${source} ${target.address}`, UNUSABLE_FOR_MS);
        if (this.#usable(sources, target.address) === null) return opened;
        continue;
      }
      const timeoutMs = untilMs - this.#nowMs();
      const areTooMany = pool.waiting >= Math.max(WAITING_MIN, 4 * pool.share);
      if (timeoutMs <= 0 || areTooMany) return { kind: 'postponed', delayMs: NO_TURN_DELAY_MS };
      if (request.isAlone || pool.permits >= pool.share) pool.endIdle();
      const ahead = await pool.turn(wanted, { isUrgent: provider.isInOutage, timeoutMs });
      if (ahead) return { ...usedAgain(ahead), announced: true };
    }
  }

  /** The hosts of the provider with an idle session from the address that this message leaves from. */
  idleHosts(provider: string, transaction: Pick<Transaction, 'envelopeFrom'>): ReadonlySet<string> {
    const view = this.#providers.get(provider);
    if (!view) return new Set();
    const sources = ['0.0.0.0', '::'].map((address) =>
      this.#sourcesFor({ provider, address }, transaction).at(0),
    );
    return view.idleHosts(sources);
  }

  /** The host did not answer an announced message: it may have discarded it. */
  markAlone(host: string): void {
    this.#alone.remember(host, ALONE_FOR_MS);
  }

  /**
   * How many attempts at this provider may be in progress at once: one for each session, and two more for each that
   * can announce. One of these follows the message in progress; the other is signed meanwhile, because it
   * has to be ready in the moment when the first one's turn comes.
   */
  windowOf(provider: string): number {
    const view = this.#providers.get(provider);
    return (view?.share ?? START_CONNECTIONS) + 2 * (view?.following ?? 0);
  }

  /** The remaining time of the suspension; 0: the provider is not suspended. */
  suspendedForMs(provider: string): number {
    return this.#providers.get(provider)?.suspendedForMs ?? 0;
  }

  /** The last error of a provider in an outage; null: a server answers, or nothing is known. */
  outageReasonOf(provider: string): string | null {
    return this.#providers.get(provider)?.outageReason ?? null;
  }

  onChange(listener: (provider: string) => void): void {
    this.#onChange = listener;
  }

  /** Another worker got a session of the provider at once. */
  onPrompt(listener: (provider: string) => void): void {
    this.#onPrompt = listener;
  }

  /** The provider began, or stopped, to give sessions at once: the other workers want to know. */
  promptChanged(provider: string, isPrompt: boolean): void {
    this.#send({ kind: 'prompt', providers: [provider], isPrompt });
  }

  /** The provider accepted a message: one more connection, up to the limit, if all were busy. */
  grow(provider: string, source: string): void {
    const pool = this.#provider(provider).pool(source);
    if (!pool.wasBusy || pool.window >= pool.limits.connections) return;
    if (this.#grown.size === 0) setTimeout(() => this.#sendGrowth(), GROWTH_BATCHED_FOR_MS);
    this.#grown.set(pool, (this.#grown.get(pool) ?? 0) + 1);
  }

  /** The provider asked for fewer connections or a lower rate. @param reason its reply */
  shrink(provider: string, source: string, reason: string): void {
    this.#complained({ provider, source, reason, openedForMs: null });
  }

  /** None of the hosts that were tried could be reached. */
  unreached(provider: string, addresses: readonly string[], reason: string): void {
    this.#send({ kind: 'unreached', provider, addresses, reason });
  }

  markDead(address: string, { timedOut }: { timedOut: boolean }): void {
    const usualMs = timedOut ? TIMED_OUT_FOR_MS : DEAD_FOR_MS;
    // Until the broker says for how long: what is postponed meanwhile must not wait for minutes.
    const deadForMs = this.uplink.isDown ? Math.min(usualMs, this.uplink.retryMs) : usualMs;
    this.#dead.remember(address, deadForMs);
    this.#send({ kind: 'host', address, deadForMs });
  }

  /** The remaining time for which the address is skipped; 0: it may be connected to. */
  deadForMs(address: string): number {
    return this.#dead.forMs(address);
  }

  /** The providers that this worker sends to, and those that the broker reported on. */
  get providers(): Iterable<ProviderView> {
    return this.#providers.values();
  }

  receive(messages: readonly BrokerMessage[]): void {
    for (const message of messages) {
      if (message.kind === 'host') this.#dead.remember(message.address, message.deadForMs);
      else if (message.kind === 'prompt') message.providers.forEach(this.#onPrompt);
      else if (message.kind === 'uplink') this.uplink.receive(message);
      else this.#handle(this.#provider(message.provider), message);
    }
  }

  /** Sends QUIT on every idle session. Sessions in use are closed when they are released. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweeper);
    await Promise.all([...this.#providers.values()].map((provider) => provider.close()));
  }

  #handle(provider: ProviderView, message: OfProvider): void {
    if (message.kind === 'provider') {
      provider.receive(message);
      return this.#onChange(provider.key);
    }
    const pool = provider.pool(message.source);
    switch (message.kind) {
      case 'grant':
        pool.granted(message.messagesMax);
        break;
      case 'yield':
        void pool.giveBack(message.count);
        break;
      case 'pool':
        pool.update(message);
        this.#onChange(message.provider);
        break;
    }
  }

  #postponeForMs(
    [provider, pool]: [ProviderView, SessionPool],
    { address }: Target,
    postponableMs: number,
  ): number {
    // A granted connection is used even while the provider is paced.
    if (provider.isPaced && !pool.hasUnused) return provider.suspendedForMs;
    const deadForMs = this.deadForMs(address);
    return deadForMs < postponableMs ? deadForMs : 0;
  }

  async #open(
    target: Target,
    { pool, session, hasOthers, place }: { pool: SessionPool; session: Session } & SendRequest,
  ): Promise<Acquired> {
    const { address, provider } = target;
    const { source } = pool;
    const startedMs = this.#nowMs();
    place?.connecting();
    const result = await connectSmtp({
      ...this.#smtpOptions(target, source),
      connectMaxMs: hasOthers === true ? CONNECT_MS_WITH_OTHERS : undefined,
      signal: place?.signal,
    });
    if (!isSilence(result)) this.#reached(provider, address);
    if (result.kind === 'ready') {
      session.greeted(result.connection);
      return { kind: 'ready', session, source };
    }
    const isRefused = result.kind === 'replied' && classifyReply(result).slowDown === true;
    if (isRefused) {
      const openedForMs = this.#nowMs() - startedMs;
      const reason = result.reply.message;
      this.#complained({ provider, source, reason, openedForMs });
    }
    session.failed();
    return { ...result, source, isCrowded: isRefused && pool.works(session.key) };
  }

  #complained(complaint: Omit<Extract<WorkerMessage, { kind: 'slow' }>, 'kind' | 'pace'>): void {
    const found = slowdownFor(complaint.provider, complaint.reason);
    const pace = found && { messagesPerMinute: found.messagesPerMinute, forMs: found.forMs };
    this.#send({ kind: 'slow', ...complaint, pace });
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

  #sessionRequestOf(target: Target, { transaction, isAlone }: SendRequest): SessionRequest {
    const mayFollow = !isAlone && this.#alone.forMs(target.host) === 0;
    return { key: keyOf(target), transaction: mayFollow ? transaction : null };
  }

  #sourcesFor(
    { provider, address }: Pick<Target, 'provider' | 'address'>,
    { envelopeFrom }: Pick<Transaction, 'envelopeFrom'>,
  ): readonly string[] {
    return sourcesFor(this.#options.sources, { provider, address, envelopeFrom });
  }

  /** The first from which the address is not known to be unreachable; null: none. */
  #usable(sources: readonly string[], address: string): string | null {
    return sources.find((source) => this.#unusable.forMs(`${source} ${address}`) === 0) ?? null;
  }

  #provider(key: string): ProviderView {
    let provider = this.#providers.get(key);
    if (!provider) {
      const limits = limitsOf(this.#options.shaping, key);
      provider = new ProviderView(key, { limits, context: this.#context });
      this.#providers.set(key, provider);
      if (!this.#isClosed)
        this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_EVERY_MS).unref();
    }
    return provider;
  }

  #send(message: WorkerMessage): void {
    this.#outbox.push(message);
    this.#flushSoon();
  }

  /** One batch per turn of the event loop: a delivery that stops and resumes waiting sends nothing. */
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

  #sweep(): void {
    for (const [key, provider] of this.#providers) {
      provider.sweep();
      if (provider.isForgettable(this.#providers.size)) this.#providers.delete(key);
    }
  }

  #nowMs(): number {
    return this.#options.world.monotonicMs();
  }
}

function usedAgain(session: Session): Acquired & { kind: 'ready' } {
  return { kind: 'ready', session, source: session.source, reused: true };
}

/** No reply before the session was established: this is about the server, whatever the message. */
export function isSilence(result: { kind: string; phase?: string }): boolean {
  return result.kind === 'failed' && /^(?:connect|greeting|ehlo)$/.test(result.phase ?? '');
}
