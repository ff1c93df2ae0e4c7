/**
 * Writes this worker's state of providers to the table that `letterhaus queue` reads
 * (store/provider-states.ts), every 2 s and only what changed.
 */
import type { Logger } from 'pino';
import type { Connections } from '../delivery/connections.ts';
import type { ProviderFacts, ProviderView } from '../delivery/connection-pool.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { setUplinkDown } from '../store/nodes.ts';
import { type ProviderState, writeProviderStates } from '../store/provider-states.ts';
import { systemWorld } from './system-world.ts';

type WrittenState = Omit<ProviderState, 'isUplinkDown'>;

export type ProviderReportOptions = {
  db: Queryable;
  log: Logger;
  holder: () => string | null;
  connections: Pick<Connections, 'providers' | 'uplink'>;
};

const EVERY_MS = 2_000;
/** The suspended and slowed ones first, then the busiest. */
const PROVIDERS_MAX = 200;

export class ProviderReport {
  readonly #options: ProviderReportOptions;
  #timer: NodeJS.Timeout | undefined;
  #node: string | null = null;
  #written = new Map<string, string>();
  #isUplinkDown = false;

  constructor(options: ProviderReportOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setTimeout(() => {
      this.#write()
        .catch((error: unknown) => {
          // Which rows were written is not known, so all are written again.
          this.#node = null;
          this.#options.log.debug({ err: error }, 'the states of receivers could not be written');
        })
        .finally(() => {
          if (this.#timer !== undefined) this.start();
        });
    }, EVERY_MS).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #write(): Promise<void> {
    const { db, holder, connections } = this.#options;
    const node = holder();
    if (node === null) return;
    const isNew = node !== this.#node;
    if (isNew) this.#written.clear();
    this.#node = node;
    const { isDown } = connections.uplink;
    if (isNew || isDown !== this.#isUplinkDown) await setUplinkDown(db, node, isDown);
    this.#isUplinkDown = isDown;
    const facts = [...connections.providers]
      .map((provider) => (isDown && provider.isInOutage ? ofUplink(provider) : provider.describe()))
      .filter(isReported);
    const first = mostImportantFirst(facts);
    const now = new Map(first.slice(0, PROVIDERS_MAX).map((one) => [one.provider, one]));
    const changed = [...now.values()].filter(
      (one) => this.#written.get(one.provider) !== printed(one),
    );
    const gone = [...this.#written.keys()].filter((provider) => !now.has(provider));
    if (changed.length === 0 && gone.length === 0) return;
    await writeProviderStates(db, node, { changed: changed.map(stateOf), gone });
    this.#written = new Map([...now].map(([provider, one]) => [provider, printed(one)]));
  }
}

function ofUplink(provider: ProviderView): ProviderFacts {
  const facts = provider.describe();
  const reason = `no mail server anywhere answers: our own network is down (${facts.reason})`;
  return { ...facts, reason };
}

function isReported({ state, open }: ProviderFacts): boolean {
  return state !== 'open' || open > 0;
}

/** The suspended and slowed ones, then the busiest. */
export function mostImportantFirst(providers: readonly ProviderFacts[]): ProviderFacts[] {
  return providers.toSorted((one, other) => weightOf(other) - weightOf(one));
}

function weightOf({ state, open }: ProviderFacts): number {
  return open + (state === 'open' || state === 'full' ? 0 : 1_000_000);
}

function printed({ state, reason, untilMs, window, open }: ProviderFacts): string {
  return JSON.stringify([state, reason, untilMs && Math.round(untilMs / 1000), window, open]);
}

function stateOf({ provider, state, reason, untilMs, window, open }: ProviderFacts): WrittenState {
  return {
    provider,
    state,
    reason,
    forMs: untilMs === null ? null : untilMs - systemWorld.monotonicMs(),
    connectionsMax: window,
    connectionsOpen: open,
  };
}
