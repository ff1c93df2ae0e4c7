/**
 * The connections of one worker to mail servers. Sessions stay open and are reused within the limits of each
 * provider, because a new one with STARTTLS costs 12 times the CPU time of a message on an open one.
 *
 * The broker of the machine (delivery/broker/broker.ts) grants every new connection. A sending domain has one source
 * address for a provider (sources.ts), so a message only uses sessions from that address. An address that did not
 * answer is skipped for minutes, and a provider without any reply is suspended.
 */
import {
  type ConnectResult,
  connectSmtp,
  type SmtpOptions,
  type Transaction,
} from '../../net/smtp/client.ts';
import type { World } from '../../lib/world.ts';
import { classifyReply } from '../../mail/replies/classify.ts';
import type { SmtpPhase } from '../../mail/replies/smtp-reply.ts';
import type { BlockKey } from '../blocks/block-store.ts';
import type { BrokerMessage, WorkerMessage } from '../broker/broker-messages.ts';
import { BrokerOutbox } from './broker-outbox.ts';
import type { PhaseTimer } from '../attempt/phase-timer.ts';
import { ProviderView } from './provider-view.ts';
import type { SmtpSession } from './smtp-session.ts';
import type { PoolContext, SessionPool, SessionRequest } from './session-pool.ts';
import { limitsOf, type ShapingSettings, findSlowdown, START_CONNECTIONS } from './settings.ts';
import { TimedMemory } from '../outage/timed-memory.ts';
import type { SlotUse } from '../memory/slots.ts';
import { type Source, sourcesFor } from './sources.ts';
import { sessionKeyOf, type SmtpTarget } from '../route/smtp-target.ts';
import { UplinkView } from '../outage/uplink-view.ts';
import { DAY_MS } from '../../lib/units.ts';

type SlowMessage = Extract<WorkerMessage, { kind: 'slow' }>;
type ProviderMessage = Exclude<BrokerMessage, { kind: 'host' | 'prompt' | 'uplink' }>;

/** No server, connection or memory is available, and nothing was sent. `block`: the provider refuses such mail. */
export type Unavailable = { kind: 'unavailable'; delayMs: number; block?: BlockKey };
type AcquireResult =
  | {
      kind: 'ready';
      session: SmtpSession;
      /** Local address; `''`: the system's choice. */
      source: string;
      isReused?: boolean;
      /** True when the session is busy, and the message follows the current one. */
      isAnnounced?: boolean;
    }
  | (Exclude<ConnectResult, { kind: 'ready' }> & {
      source: string;
      /** True when it was refused because of our other connections there, one of which may carry the message. */
      hasTooManyConnections: boolean;
    })
  | Unavailable;

export type SendRequest = {
  transaction: Transaction;
  /** Milliseconds until the message expires. A server that is skipped for longer than this is still tried. */
  untilExpiryMs: number;
  /** The message failed on a kept session, so it is sent alone on a new one. */
  needsNewSession: boolean;
  hasOthers?: boolean;
  slot?: SlotUse | undefined;
  phases?: PhaseTimer | undefined;
};

type ConnectionsOptions = {
  world: World;
  port: number;
  heloName: string;
  /** Source addresses; when empty, the system chooses, and `heloName` is used. */
  sources: readonly Source[];
  shaping: ShapingSettings;
  /** Sends messages to the broker in order. The broker's messages are passed to `receive`. */
  send: (messages: readonly WorkerMessage[]) => void;
  session?: Pick<SmtpOptions, 'auth' | 'implicitTls' | 'timeouts' | 'ca'>;
};

const CONNECT_MS_WITH_OTHERS = 10_000;
const SKIPPED_FOR_MS = 2 * 60_000;
const SKIPPED_AFTER_TIMEOUT_MS = 15 * 60_000;
/** Milliseconds. Most servers that greylist accept a retry from the same address within this time. */
const SOURCE_UNUSABLE_FOR_MS = 15 * 60_000;
/** Milliseconds without announced messages for a server that did not answer one. */
const NO_ANNOUNCING_FOR_MS = 3 * DAY_MS;
/** Milliseconds that a delivery waits for a connection before it leaves memory to others. */
const SESSION_WITHIN_MS = 30_000;
const NO_SESSION_DELAY_MS = 2_000;
/**
 * Deliveries that may wait for the sessions of a pool at least. The limit is four times the share if that is more. It
 * is limited because waiting deliveries occupy the worker. When a share is halved, this still admits the deliveries in
 * progress: three for each former session (`windowOf`).
 */
const WAITING_LIMIT_MIN = 16;
const SWEEP_EVERY_MS = 1_000;

export class SmtpConnections {
  readonly uplink: UplinkView;
  readonly #options: ConnectionsOptions;
  readonly #providers = new Map<string, ProviderView>();
  readonly #skippedAddresses: TimedMemory;
  readonly #hostsWithoutAnnouncing: TimedMemory;
  readonly #unusableSources: TimedMemory;
  #sweeper: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #outbox: BrokerOutbox;
  readonly #context: PoolContext;
  #onChange: (provider: string) => void = () => {};
  #onPrompt: (provider: string) => void = () => {};

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#skippedAddresses = new TimedMemory(options.world);
    this.#hostsWithoutAnnouncing = new TimedMemory(options.world);
    this.#unusableSources = new TimedMemory(options.world);
    this.#outbox = new BrokerOutbox(options.send);
    const send = (message: WorkerMessage): void => this.#outbox.send(message);
    this.uplink = new UplinkView(options.shaping.uplink, { clock: options.world, send });
    const onWaitingChange = (pool: SessionPool): void => this.#outbox.noteDemand(pool);
    this.#context = { world: options.world, send, onWaitingChange };
  }

  /** Returns a session to the target: an idle one, a new one if granted, or a busy one to announce the message on. */
  async acquire(target: SmtpTarget, request: SendRequest): Promise<AcquireResult> {
    const provider = this.#provider(target.provider);
    const sessionRequest = this.#sessionRequestOf(target, request);
    const sources = this.#sourcesFor(target, request.transaction);
    const untilMs = this.#nowMs() + Math.min(SESSION_WITHIN_MS, request.untilExpiryMs);
    const { phases } = request;
    phases?.begin();
    for (;;) {
      const source = this.#firstUsableSource(sources, target.address) ?? sources[0]!;
      const pool = provider.pool(source);
      const idle = request.needsNewSession ? null : pool.takeIdle(sessionRequest.key);
      if (idle) return reusedSession(idle, phases);
      const delayMs = this.#unavailableForMs([provider, pool], target, request.untilExpiryMs);
      if (delayMs > 0) return { kind: 'unavailable', delayMs };
      const session = pool.connect(sessionRequest.key);
      if (session) {
        const opened = await this.#open(target, { pool, session, ...request });
        if (!('isSourceProblem' in opened)) return opened;
        this.#unusableSources.remember(`${source} ${target.address}`, SOURCE_UNUSABLE_FOR_MS);
        if (this.#firstUsableSource(sources, target.address) === null) return opened;
        continue;
      }
      const timeoutMs = untilMs - this.#nowMs();
      const isQueueFull = pool.waitingCount >= Math.max(WAITING_LIMIT_MIN, 4 * pool.share);
      if (timeoutMs <= 0 || isQueueFull)
        return { kind: 'unavailable', delayMs: NO_SESSION_DELAY_MS };
      if (request.needsNewSession || pool.permitCount >= pool.share) pool.endIdle();
      const announcedOn = await pool.waitForSession(sessionRequest, {
        isUrgent: provider.isInOutage,
        timeoutMs,
      });
      if (announcedOn) return { ...reusedSession(announcedOn, phases), isAnnounced: true };
    }
  }

  /** Returns the hosts of the provider with an idle session from the source address of this message. */
  idleHosts(provider: string, transaction: Pick<Transaction, 'envelopeFrom'>): ReadonlySet<string> {
    const view = this.#providers.get(provider);
    if (!view) return new Set();
    const sources = ['0.0.0.0', '::'].map((address) =>
      this.#sourcesFor({ provider, address }, transaction).at(0),
    );
    return view.idleHosts(sources);
  }

  /** Stops announcing messages to a host that did not answer one, because it may have discarded it. */
  stopAnnouncing(host: string): void {
    this.#hostsWithoutAnnouncing.remember(host, NO_ANNOUNCING_FOR_MS);
  }

  /**
   * Returns how many attempts at this provider may run at once: one for each session, and two more for each that can
   * announce. One of the two follows the current message. The other is signed meanwhile, so that it is ready when its
   * turn comes.
   */
  windowOf(provider: string): number {
    const view = this.#providers.get(provider);
    return (view?.share ?? START_CONNECTIONS) + 2 * (view?.pipeliningCount ?? 0);
  }

  suspendedForMs(provider: string): number {
    return this.#providers.get(provider)?.suspendedForMs ?? 0;
  }

  /** Returns the last error of a provider in an outage, or null when a server answers, or nothing is known. */
  outageReasonOf(provider: string): string | null {
    return this.#providers.get(provider)?.outageReason ?? null;
  }

  onChange(listener: (provider: string) => void): void {
    this.#onChange = listener;
  }

  onPrompt(listener: (provider: string) => void): void {
    this.#onPrompt = listener;
  }

  /** Notifies the other workers that the provider began or stopped giving sessions at once. */
  notifyPromptChange(provider: string, isPrompt: boolean): void {
    this.#outbox.send({ kind: 'prompt', providers: [provider], isPrompt });
  }

  /** Records an accepted message. If all connections were busy, the window grows by one, up to the limit. */
  recordAccepted(provider: string, source: string): void {
    const pool = this.#provider(provider).pool(source);
    if (!pool.wasBusy || pool.window >= pool.limits.connections) return;
    this.#outbox.countAccepted(pool);
  }

  /**
   * Reports that the provider asked for fewer connections or a lower rate.
   * @param reason its reply
   */
  reportSlowdownReply(provider: string, source: string, reason: string): void {
    this.#reportSlowdown({ provider, source, reason, openedForMs: null });
  }

  reportUnreached(provider: string, addresses: readonly string[], reason: string): void {
    this.#outbox.send({ kind: 'unreached', provider, addresses, reason });
  }

  skipAddress(address: string, { timedOut }: { timedOut: boolean }): void {
    const standardMs = timedOut ? SKIPPED_AFTER_TIMEOUT_MS : SKIPPED_FOR_MS;
    // The broker sends the final time later. Until then mail must not wait for minutes.
    const skippedForMs = this.uplink.isDown
      ? Math.min(standardMs, this.uplink.retryMs)
      : standardMs;
    this.#skippedAddresses.remember(address, skippedForMs);
    this.#outbox.send({ kind: 'host', address, skippedForMs });
  }

  skippedForMs(address: string): number {
    return this.#skippedAddresses.forMs(address);
  }

  get providers(): Iterable<ProviderView> {
    return this.#providers.values();
  }

  receive(messages: readonly BrokerMessage[]): void {
    for (const message of messages) {
      if (message.kind === 'host')
        this.#skippedAddresses.remember(message.address, message.skippedForMs);
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

  #handle(provider: ProviderView, message: ProviderMessage): void {
    if (message.kind === 'provider') {
      provider.receive(message);
      return this.#onChange(provider.key);
    }
    const pool = provider.pool(message.source);
    switch (message.kind) {
      case 'grant':
        pool.addPermit(message.messagesMax);
        break;
      case 'yield':
        void pool.returnConnections(message.count);
        break;
      case 'pool':
        pool.applyShare(message);
        this.#onChange(message.provider);
        break;
    }
  }

  #unavailableForMs(
    [provider, pool]: [ProviderView, SessionPool],
    { address }: SmtpTarget,
    untilExpiryMs: number,
  ): number {
    // A granted connection is used even while the provider is paced.
    if (provider.isPaced && !pool.hasUnusedPermit) return provider.suspendedForMs;
    const skippedForMs = this.skippedForMs(address);
    return skippedForMs < untilExpiryMs ? skippedForMs : 0;
  }

  async #open(
    target: SmtpTarget,
    opening: { pool: SessionPool; session: SmtpSession } & SendRequest,
  ): Promise<AcquireResult> {
    const { address, provider } = target;
    const { pool, session, hasOthers, slot, phases } = opening;
    const { source } = pool;
    const startedMs = this.#nowMs();
    phases?.end('wait');
    slot?.markConnecting();
    const result = await connectSmtp({
      ...this.#smtpOptions(target, source),
      connectMaxMs: hasOthers === true ? CONNECT_MS_WITH_OTHERS : undefined,
      signal: slot?.signal,
      onStep: phases?.onStep,
    });
    if (result.kind === 'failed' && result.phase === 'connect') phases?.end('connect');
    if (!hasNoSession(result)) this.#reportReached(provider, address);
    if (result.kind === 'ready') {
      session.markGreeted(result.connection);
      return { kind: 'ready', session, source };
    }
    const isRefused = result.kind === 'replied' && classifyReply(result).slowDown === true;
    if (isRefused) {
      const openedForMs = this.#nowMs() - startedMs;
      const { code, enhancedCode, message } = result.reply;
      const reason = [code, enhancedCode, message].filter((part) => part !== null).join(' ');
      this.#reportSlowdown({ provider, source, reason, openedForMs });
    }
    session.markFailed();
    return {
      ...result,
      source,
      hasTooManyConnections: isRefused && pool.hasRecentSession(session.key),
    };
  }

  #reportSlowdown(slowdown: Omit<SlowMessage, 'kind' | 'pace'>): void {
    const known = findSlowdown(slowdown.provider, slowdown.reason);
    const pace = known && { messagesPerMinute: known.messagesPerMinute, forMs: known.forMs };
    this.#outbox.send({ kind: 'slow', ...slowdown, pace });
  }

  #reportReached(provider: string, address: string): void {
    this.#skippedAddresses.remember(address, 0);
    this.#outbox.send({ kind: 'reached', provider, address });
  }

  #smtpOptions(target: SmtpTarget, source: string): SmtpOptions {
    const { host, address, dane, reducedHello } = target;
    const tls = target.expectsTls === true ? 'required' : target.tls;
    const { port, sources, session } = this.#options;
    const localAddress = source === '' ? undefined : source;
    const heloName = sources.find(({ ip }) => ip === source)?.heloName ?? this.#options.heloName;
    const tlsOptions = { tls, dane, reducedHello };
    return { ...session, host, address, port, heloName, ...tlsOptions, localAddress };
  }

  #sessionRequestOf(
    target: SmtpTarget,
    { transaction, needsNewSession }: SendRequest,
  ): SessionRequest {
    const mayFollow = !needsNewSession && this.#hostsWithoutAnnouncing.forMs(target.host) === 0;
    return { key: sessionKeyOf(target), transaction: mayFollow ? transaction : null };
  }

  #sourcesFor(
    { provider, address }: Pick<SmtpTarget, 'provider' | 'address'>,
    { envelopeFrom }: Pick<Transaction, 'envelopeFrom'>,
  ): readonly string[] {
    return sourcesFor(this.#options.sources, { provider, address, envelopeFrom });
  }

  #firstUsableSource(sources: readonly string[], address: string): string | null {
    return (
      sources.find((source) => this.#unusableSources.forMs(`${source} ${address}`) === 0) ?? null
    );
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

  #sweep(): void {
    for (const [key, provider] of this.#providers) {
      provider.sweep();
      if (provider.isIdle(this.#providers.size)) this.#providers.delete(key);
    }
  }

  #nowMs(): number {
    return this.#options.world.monotonicMs();
  }
}

function reusedSession(
  session: SmtpSession,
  phases: PhaseTimer | undefined,
): AcquireResult & { kind: 'ready' } {
  phases?.end('wait');
  return { kind: 'ready', session, source: session.source, isReused: true };
}

const PHASES_BEFORE_SESSION: ReadonlySet<SmtpPhase | undefined> = new Set<SmtpPhase>([
  'connect',
  'greeting',
  'ehlo',
]);

/** Returns whether no session was established. This says something about the server, not about the message. */
export function hasNoSession(result: { kind: string; phase?: SmtpPhase }): boolean {
  return result.kind === 'failed' && PHASES_BEFORE_SESSION.has(result.phase);
}
