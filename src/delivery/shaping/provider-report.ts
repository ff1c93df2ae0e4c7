/**
 * Writes this worker's state of providers to the table that `letterhaus queue` reads
 * (provider-state-store.ts), every 2 s and only changes.
 */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { isNamedProvider } from '../../net/providers.ts';
import type { Queryable } from '../../database/database.ts';
import { setUplinkDown } from '../queue/worker-store.ts';
import { type StoredProviderState, writeProviderStates } from './provider-state-store.ts';
import type { ProviderFacts, ProviderView } from './provider-view.ts';
import type { SmtpConnections } from './smtp-connections.ts';

type StoredState = Omit<StoredProviderState, 'isUplinkDown'>;

export type ProviderReportOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs'>;
  log: Logger;
  leaseId: () => string | null;
  connections: Pick<SmtpConnections, 'providers' | 'uplink'>;
};

const EVERY_MS = 2_000;
/** The most important providers are written first (mostImportantFirst). */
const PROVIDERS_MAX = 200;

export class ProviderReport {
  readonly #options: ProviderReportOptions;
  #timer: NodeJS.Timeout | undefined;
  #node: string | null = null;
  #stored = new Map<string, string>();
  #isUplinkDown = false;

  constructor(options: ProviderReportOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setTimeout(() => {
      this.#write()
        .catch((error: unknown) => {
          // An unknown part was written, so the next write contains all rows.
          this.#node = null;
          this.#options.log.debug(
            { err: error },
            'this worker could not store the states of providers; its next report contains all of them',
          );
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
    const { db, world, leaseId, connections } = this.#options;
    const node = leaseId();
    if (node === null) return;
    const isNew = node !== this.#node;
    if (isNew) this.#stored.clear();
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
      (one) => this.#stored.get(one.provider) !== printed(one),
    );
    const removed = [...this.#stored.keys()].filter((provider) => !now.has(provider));
    if (changed.length === 0 && removed.length === 0) return;
    await writeProviderStates(db, node, {
      changed: changed.map((one) => stateOf(one, world)),
      removed,
    });
    this.#stored = new Map([...now].map(([provider, one]) => [provider, printed(one)]));
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
 * Sorts large providers and those in the operator's file first. Within each part, suspended or slowed providers
 * alternate with the busiest. Strangers can have thousands of suspended names. These hide neither the busy providers
 * nor those that took mail before they were suspended, because names that never took a message come last.
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

function stateOf(
  { provider, state, reason, untilMs, window, open }: ProviderFacts,
  world: Pick<World, 'monotonicMs'>,
): StoredState {
  return {
    provider,
    state,
    reason,
    forMs: untilMs === null ? null : untilMs - world.monotonicMs(),
    connectionsMax: window,
    connectionsOpen: open,
  };
}
