/**
 * Writes this worker's state of providers to the table that `letterhaus queue` reads
 * (delivery/shaping/provider-state-store.ts), every 2 s and only what changed.
 */
import type { Logger } from 'pino';
import type { Connections } from '../../delivery/shaping/connections.ts';
import type { ProviderFacts, ProviderView } from '../../delivery/shaping/provider-view.ts';
import { isNamedProvider } from '../../net/providers.ts';
import type { Queryable } from '../../database/database.ts';
import { setUplinkDown } from '../../delivery/queue/node-store.ts';
import {
  type ProviderState,
  writeProviderStates,
} from '../../delivery/shaping/provider-state-store.ts';
import { systemWorld } from '../machine/system-world.ts';

type WrittenState = Omit<ProviderState, 'isUplinkDown'>;

export type ProviderReportOptions = {
  db: Queryable;
  log: Logger;
  holder: () => string | null;
  connections: Pick<Connections, 'providers' | 'uplink'>;
};

const EVERY_MS = 2_000;
/** The most important first (mostImportantFirst). */
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

/**
 * Large providers and those of the operator's file, then by turns one that is suspended or slowed and one of the busiest.
 * Anybody can have thousands of names that are suspended: they hide neither the busy ones nor, because they
 * never took a message, those that did before they were suspended.
 */
export function mostImportantFirst(providers: readonly ProviderFacts[]): ProviderFacts[] {
  const [named, others] = parted(providers, ({ provider }) => isNamedProvider(provider));
  return [...alternating(named), ...alternating(others)];
}

function alternating(providers: readonly ProviderFacts[]): ProviderFacts[] {
  const [working, affected] = parted(
    providers,
    ({ state }) => state === 'open' || state === 'full',
  );
  working.sort((one, other) => other.open - one.open);
  affected.sort((one, other) => other.window - one.window || other.open - one.open);
  const longest = Math.max(working.length, affected.length);
  return Array.from({ length: longest }, (_, index) => [affected[index], working[index]])
    .flat()
    .filter((one) => one !== undefined);
}

function parted<Item>(items: readonly Item[], isFirst: (item: Item) => boolean): [Item[], Item[]] {
  return [items.filter(isFirst), items.filter((item) => !isFirst(item))];
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
