/**
 * The route of each destination (net/dns/mx.ts, or the relay that takes all mail), and its provider once
 * that is known.
 *
 * A **provider** is a large operator of mail servers, or else the MX hosts of a destination (net/providers.ts). While the mail
 * servers of a destination are not known, the destination domain stands in for its provider, here, in
 * delivery/queue/fair-queue.ts and in the column `queue.provider`; once they are known its deliveries move to the provider.
 */
import { lookup } from 'node:dns/promises';
import type { World } from '../../lib/world.ts';
import type { AddressGuard } from '../../net/addresses.ts';
import { resolveRoute, type Route } from '../../net/dns/mx.ts';
import type { Resolver } from '../../net/dns/resolver.ts';
import type { ProviderSuffixes } from '../../net/providers.ts';
import { readInstallation } from '../../domains/mail-host-store.ts';
import type { Queryable } from '../../database/database.ts';

/** A failed lookup is kept for this time, so that further attempts do not repeat it. */
const FAILURE_REMEMBERED_MS = 10_000;
/** Destinations. Beyond this number all are forgotten and looked up again. */
const REMEMBERED_MAX = 50_000;
const OWN_NAMES_FOR_MS = 60_000;

type MailRoutingOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs' | 'random'>;
  resolver: Resolver;
  guard: AddressGuard;
  /** Host name of the relay that takes all mail; null: mail goes to the mail servers of its destination. */
  relayHost: string | null;
  /** Names of this machine. */
  ownNames: readonly string[];
  providerSuffixes: ProviderSuffixes;
};

export class MailRouting {
  readonly #options: MailRoutingOptions;
  readonly #providers = new Map<string, string>();
  readonly #names = new Set<string>();
  readonly #failures = new Map<string, { route: Route; untilMs: number }>();

  #ownNames: { names: ReadonlySet<string>; untilMs: number } | null = null;

  constructor(options: MailRoutingOptions) {
    this.#options = options;
  }

  /** The provider of a destination; the destination itself while its mail servers are not known. */
  providerOf(destination: string): string {
    return this.#providers.get(destination) ?? destination;
  }

  /** Whether this names a provider, or a destination whose provider is known. */
  knows(provider: string): boolean {
    return this.#providers.has(provider) || this.#names.has(provider);
  }

  /** Looks up the provider of a destination; null when it is known. Never rejects. */
  learn(destination: string): Promise<void> | null {
    if (this.#providers.has(destination)) return null;
    return this.#ask(destination).then(() => undefined);
  }

  /** The route, or the failure of a lookup within the last FAILURE_REMEMBERED_MS. */
  async find(destination: string): Promise<Route> {
    const failure = this.#failures.get(destination);
    const isFresh = failure && this.#options.world.monotonicMs() < failure.untilMs;
    if (isFresh && !this.#providers.has(destination)) return failure.route;
    return this.#ask(destination);
  }

  async #ask(destination: string): Promise<Route> {
    const { resolver, guard, world, relayHost, providerSuffixes } = this.#options;
    const random = (): number => world.random();
    const options = { resolver, guard, random, providerSuffixes };
    const route =
      relayHost === null
        ? await resolveRoute(destination, { ...options, ownNames: await this.#namesOfOurs() })
        : await relayRoute(relayHost);
    if (this.#providers.size + this.#failures.size >= REMEMBERED_MAX) {
      for (const memory of [this.#providers, this.#names, this.#failures]) memory.clear();
    }
    this.#failures.delete(destination);
    if (route.kind === 'temporary') {
      const untilMs = world.monotonicMs() + FAILURE_REMEMBERED_MS;
      this.#failures.set(destination, { route, untilMs });
    }
    if (route.kind === 'hosts') {
      this.#providers.set(destination, route.provider);
      this.#names.add(route.provider);
    }
    return route;
  }

  /** Host names of all nodes: mail must not be sent to one of them, because it would come back. */
  async #namesOfOurs(): Promise<ReadonlySet<string>> {
    const { db, world, ownNames } = this.#options;
    const nowMs = world.monotonicMs();
    if (this.#ownNames !== null && nowMs < this.#ownNames.untilMs) return this.#ownNames.names;
    const before = [...(this.#ownNames?.names ?? [])];
    const ofNodes = await readInstallation(db).then(
      ({ returnPathHost, hosts }) => [returnPathHost ?? [], hosts.map(({ name }) => name)].flat(2),
      () => before,
    );
    const names = new Set([...ownNames, ...ofNodes].map((name) => name.toLowerCase()));
    this.#ownNames = { names, untilMs: nowMs + OWN_NAMES_FOR_MS };
    return names;
  }
}

/** All mail goes to one host. The operator chose it, so its address may be private. */
async function relayRoute(host: string): Promise<Route> {
  try {
    const found = await lookup(host, { all: true });
    const addresses = found.map(({ address }) => address);
    const hosts = [{ name: host, preference: 0, addresses }];
    return { kind: 'hosts', hosts, provider: `relay ${host}`, dropped: [] };
  } catch {
    return { kind: 'temporary', message: `The relay ${host} has no address at present.` };
  }
}
