/**
 * Connections to receiving servers: opened sparingly, used again, never more than a provider likes.
 *
 * A provider is the roll-up of MX hosts that share their limits (net/mx.ts). Each starts with two
 * connections, gains one with every delivery while all are busy, and loses half when it says that
 * we are too many. Reuse is worth a lot: a new STARTTLS session costs 12 times the CPU of a
 * message on an open one. An address that did not answer is left alone for two minutes.
 */
import { type ConnectResult, connectSmtp, type SmtpConnection } from '../net/smtp-client.ts';
import type { SmtpOptions, SmtpTlsMode } from '../net/smtp-client.ts';
import type { DaneExpectation } from '../net/dane.ts';
import type { World } from '../core/world.ts';

export type Target = {
  provider: string;
  /** MX host name. */
  host: string;
  address: string;
  tls: SmtpTlsMode;
  reducedHello?: boolean;
  /** With the mode `dane`; sessions of other keys were opened under other records. */
  dane?: DaneExpectation;
  daneKey?: string;
};

export type ConnectionsOptions = {
  world: World;
  port: number;
  heloName: string;
  sourceIps: readonly string[];
  /** Most connections of this worker to one provider. */
  perProviderMax: number;
  session?: Pick<SmtpOptions, 'auth' | 'implicitTls' | 'timeouts' | 'ca'>;
};

const FIRST_WINDOW = 2;
const MESSAGES_PER_CONNECTION_MAX = 100;
const IDLE_MAX_MS = 10_000;
const DEAD_FOR_MS = 2 * 60_000;
/** Providers and addresses that are remembered at most; the oldest go first. */
const REMEMBERED_MAX = 10_000;

type Provider = {
  window: number;
  open: number;
  idle: { connection: SmtpConnection; key: string; sinceMs: number }[];
  waiting: (() => void)[];
};

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #providers = new Map<string, Provider>();
  readonly #deadUntilMs = new Map<string, number>();
  #sweeper: NodeJS.Timeout | undefined;
  #nextSource = 0;
  #onChange: (provider: string) => void = () => {};

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  /** An open session to the target: a used one if there is one, else a new one when allowed. */
  async acquire(target: Target): Promise<ConnectResult & { reused?: boolean }> {
    const provider = this.#provider(target.provider);
    const key = keyOf(target);
    for (;;) {
      const idle = takeIdle(provider, key);
      if (idle) return { kind: 'ready', connection: idle, reused: true };
      if (provider.open < provider.window || this.#closeOneIdle(provider)) break;
      await new Promise<void>((resolve) => provider.waiting.push(resolve));
    }
    provider.open += 1;
    const result = await connectSmtp(this.#smtpOptions(target));
    if (result.kind !== 'ready') this.#freed(provider);
    return result;
  }

  /** Gives a session back after a message; it is kept if it can carry another. */
  release(target: Target, connection: SmtpConnection): void {
    const provider = this.#provider(target.provider);
    if (!connection.reusable || connection.messagesSent >= MESSAGES_PER_CONNECTION_MAX) {
      void connection.close();
      this.#freed(provider);
      return;
    }
    const sinceMs = this.#options.world.monotonicMs();
    provider.idle.push({ connection, key: keyOf(target), sinceMs });
    provider.waiting.shift()?.();
    this.#sweeper ??= setInterval(() => this.#sweep(), 1_000).unref();
  }

  /** How many messages may be under way to this provider at once. */
  windowOf(provider: string): number {
    return this.#provider(provider).window;
  }

  /** How much longer the provider is left alone as a whole; 0: it may be asked. */
  restsForMs(_provider: string): number {
    return 0;
  }

  onChange(listener: (provider: string) => void): void {
    this.#onChange = listener;
  }

  /** It took a message: one more connection, up to the cap. */
  grow(provider: string): void {
    const state = this.#provider(provider);
    if (state.window >= this.#options.perProviderMax) return;
    state.window += 1;
    this.#onChange(provider);
  }

  /** It said that we are too many or too fast. */
  shrink(provider: string): void {
    const state = this.#provider(provider);
    state.window = Math.max(1, Math.floor(state.window / 2));
  }

  markDead(address: string): void {
    remember(this.#deadUntilMs, address, this.#options.world.monotonicMs() + DEAD_FOR_MS);
  }

  /** How much longer the address is left alone; 0 or less: it may be asked. */
  deadForMs(address: string): number {
    return (this.#deadUntilMs.get(address) ?? 0) - this.#options.world.monotonicMs();
  }

  get openCount(): number {
    let open = 0;
    for (const provider of this.#providers.values()) open += provider.open;
    return open;
  }

  /** Says QUIT on every idle session. Sessions in use are closed when they are given back. */
  async close(): Promise<void> {
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
    const idle = [...this.#providers.values()].flatMap((provider) => provider.idle.splice(0));
    await Promise.all(idle.map(({ connection }) => connection.close()));
  }

  #provider(key: string): Provider {
    let provider = this.#providers.get(key);
    if (!provider) {
      provider = {
        window: Math.min(FIRST_WINDOW, this.#options.perProviderMax),
        open: 0,
        idle: [],
        waiting: [],
      };
      this.#providers.set(key, provider);
    }
    return provider;
  }

  #smtpOptions({ host, address, tls, dane, reducedHello }: Target): SmtpOptions {
    const { port, heloName, session } = this.#options;
    const localAddress = this.#source(address);
    const how = { tls, dane, reducedHello };
    return { ...session, host, address, port, heloName, ...how, localAddress };
  }

  /** The next of our addresses, in turn, of the same family. */
  #source(address: string): string | undefined {
    const family = address.includes(':');
    const sources = this.#options.sourceIps.filter((ip) => ip.includes(':') === family);
    this.#nextSource += 1;
    return sources[this.#nextSource % (sources.length || 1)];
  }

  #freed(provider: Provider): void {
    provider.open -= 1;
    provider.waiting.shift()?.();
  }

  /** Makes room by closing an idle session to another host of the same provider. */
  #closeOneIdle(provider: Provider): boolean {
    const idle = provider.idle.shift();
    if (!idle) return false;
    void idle.connection.close();
    provider.open -= 1;
    return provider.open < provider.window;
  }

  #sweep(): void {
    const nowMs = this.#options.world.monotonicMs();
    for (const [key, provider] of this.#providers) {
      const expired = provider.idle.filter(
        ({ connection, sinceMs }) => !connection.reusable || nowMs - sinceMs > IDLE_MAX_MS,
      );
      provider.idle = provider.idle.filter((idle) => !expired.includes(idle));
      for (const { connection } of expired) {
        void connection.close();
        this.#freed(provider);
      }
      const forgettable = provider.open === 0 && provider.waiting.length === 0;
      if (forgettable && this.#providers.size > REMEMBERED_MAX) this.#providers.delete(key);
    }
  }
}

/** What went under a weaker rule never carries what goes under a stronger one. */
function keyOf({ host, address, tls, daneKey = '' }: Target): string {
  return `${host} ${address} ${tls} ${daneKey}`;
}

function takeIdle(provider: Provider, key: string): SmtpConnection | null {
  // The one used last: the others grow old and are closed.
  for (let index = provider.idle.length - 1; index >= 0; index -= 1) {
    const idle = provider.idle[index];
    if (idle?.key !== key || !idle.connection.reusable) continue;
    provider.idle.splice(index, 1);
    return idle.connection;
  }
  return null;
}

function remember(map: Map<string, number>, key: string, untilMs: number): void {
  map.delete(key);
  map.set(key, untilMs);
  if (map.size <= REMEMBERED_MAX) return;
  const oldest = map.keys().next();
  if (!oldest.done) map.delete(oldest.value);
}
