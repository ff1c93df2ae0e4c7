/**
 * Logs when no server of a provider answers, when a provider asks for less mail, and when either ends. Each outage or
 * slowdown is one line at its start and one at its end, however much mail it affects.
 *
 * Anyone can create names whose servers do not answer. So, apart from named providers, at most 20 lines a minute
 * begin; one line counts the others.
 */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import type { ProviderStatus } from '../broker/broker-messages.ts';
import { withoutAddresses } from '../../mail/logged-recipient.ts';
import { isNamedProvider } from '../../net/providers.ts';

export type ProviderChange = Pick<ProviderStatus, 'provider' | 'state' | 'reason'>;

type LoggedState = 'suspended' | 'slowed';

const WINDOW_MS = 60_000;
const OTHERS_PER_WINDOW = 20;
const ONGOING_MAX = 2_000;

const LINES = {
  suspended: {
    event: 'provider.suspended',
    begins: 'no server of a provider answers; its mail waits, and one message at a time is a probe',
    remedy:
      'Nothing, if its servers are down. If other machines reach them, check network, firewall and DNS of this one; ' +
      'letterhaus queue shows the waiting mail.',
    ended: 'a server of the provider answers again; its mail is sent again',
  },
  slowed: {
    event: 'provider.slowed',
    begins: 'a provider asks for fewer connections or messages, and gets fewer',
    remedy:
      'Nothing: the service raises the limits again as the provider accepts mail. If this repeats, send less, or set its limits in LETTERHAUS_SHAPING ' +
      '(docs/shaping.md).',
    ended: 'the provider has its configured limits again',
  },
} as const;

type Options = { log: Pick<Logger, 'warn' | 'info'>; world: Pick<World, 'monotonicMs'> };

export class ProviderLog {
  readonly #options: Options;
  readonly #ongoing: Record<LoggedState, Map<string, number>> = {
    suspended: new Map(),
    slowed: new Map(),
  };
  #othersLogged = 0;
  readonly #notLogged: Record<LoggedState, number> = { suspended: 0, slowed: 0 };
  #isInWindow = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Logs the begin or end of a state. Called with every change of a provider; most need no line. */
  noteChange({ provider, state, reason }: ProviderChange): void {
    this.#set('suspended', state === 'suspended', { provider, reason });
    // A provider that was slowed before its outage is still slowed after it.
    if (state !== 'suspended') this.#set('slowed', state === 'slowed', { provider, reason });
  }

  #set(
    state: LoggedState,
    isOn: boolean,
    about: { provider: string; reason: string | null },
  ): void {
    const { provider } = about;
    const open = this.#ongoing[state];
    const sinceMs = open.get(provider);
    if (isOn === (sinceMs !== undefined)) return;
    if (sinceMs !== undefined) {
      open.delete(provider);
      const forS = Math.round((this.#options.world.monotonicMs() - sinceMs) / 1_000);
      const { event, ended } = LINES[state];
      this.#options.log.info({ event, state: 'cleared', provider, for_s: forS }, ended);
      return;
    }
    if (this.#mayBegin(state, provider)) this.#begin(state, about);
  }

  #begin(
    state: LoggedState,
    { provider, reason }: { provider: string; reason: string | null },
  ): void {
    this.#ongoing[state].set(provider, this.#options.world.monotonicMs());
    const { event, remedy, begins } = LINES[state];
    const logFields = { provider, reason: reason === null ? undefined : withoutAddresses(reason) };
    this.#options.log.warn({ event, state: 'raised', ...logFields, remedy }, begins);
  }

  #mayBegin(state: LoggedState, provider: string): boolean {
    if (isNamedProvider(provider)) return true;
    if (!this.#isInWindow) setTimeout(() => this.#endWindow(), WINDOW_MS).unref();
    this.#isInWindow = true;
    if (this.#othersLogged < OTHERS_PER_WINDOW && this.#ongoing[state].size < ONGOING_MAX) {
      this.#othersLogged += 1;
      return true;
    }
    this.#notLogged[state] += 1;
    return false;
  }

  #endWindow(): void {
    this.#isInWindow = false;
    this.#othersLogged = 0;
    for (const state of ['suspended', 'slowed'] as const) {
      const count = this.#notLogged[state];
      if (count === 0) continue;
      this.#notLogged[state] = 0;
      const { event } = LINES[state];
      this.#options.log.warn(
        { event: `${event}.more`, count },
        `more providers are ${state}; letterhaus queue lists them`,
      );
    }
  }
}
