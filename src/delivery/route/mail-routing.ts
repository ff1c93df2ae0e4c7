/**
 * Finds the route to each destination: its mail servers (net/dns/mx.ts), or the relay that takes all mail. Remembers
 * the provider of each destination.
 *
 * A **provider** is a large operator of mail servers, or else the group of MX hosts of a destination
 * (net/providers.ts). Until a look-up finds the mail servers of a destination, the destination itself stands in for
 * its provider: here, in delivery/memory/fair-queue.ts and in the column `queue.provider`. After the look-up its
 * deliveries move to the provider.
 */
import { lookup } from 'node:dns/promises';
import type { World } from '../../lib/world.ts';
import type { AddressGuard } from '../../net/ip-addresses.ts';
import { resolveMailHosts, type MailHosts } from '../../net/dns/mx.ts';
import type { Resolver } from '../../net/dns/resolver.ts';
import type { ProviderSuffixes } from '../../net/providers.ts';
import { readInstallation } from '../../domains/mail-host-store.ts';
import type { Queryable } from '../../database/database.ts';

/** Milliseconds for which a failed look-up is reused, so that further attempts do not repeat it. */
const FAILURE_REMEMBERED_MS = 10_000;
const REMEMBERED_MAX = 50_000;
const OWN_NAMES_REMEMBERED_MS = 60_000;

type MailRoutingOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs' | 'random'>;
  resolver: Resolver;
  guard: AddressGuard;
  /** Host name of the relay that takes all mail, or null when mail goes to the mail servers of its destination. */
  relayHost: string | null;
  ownNames: readonly string[];
  providerSuffixes: ProviderSuffixes;
};

export class MailRouting {
  readonly #options: MailRoutingOptions;
  readonly #providers = new Map<string, string>();
  readonly #knownProviders = new Set<string>();
  readonly #failures = new Map<string, { route: MailHosts; untilMs: number }>();

  #ownNames: { names: ReadonlySet<string>; untilMs: number } | null = null;

  constructor(options: MailRoutingOptions) {
    this.#options = options;
  }

  /** Returns the provider of a destination, or the destination itself until a look-up has found its mail servers. */
  providerOf(destination: string): string {
    return this.#providers.get(destination) ?? destination;
  }

  /** Returns whether `provider` is a provider that a look-up found, or a destination whose provider is known. */
  isProviderKnown(provider: string): boolean {
    return this.#providers.has(provider) || this.#knownProviders.has(provider);
  }

  /** Looks up the provider of a destination; null when it is known. The promise never rejects. */
  lookUpProvider(destination: string): Promise<void> | null {
    if (this.#providers.has(destination)) return null;
    return this.#resolve(destination).then(() => undefined);
  }

  async findRoute(destination: string): Promise<MailHosts> {
    const failure = this.#failures.get(destination);
    const isFresh = failure && this.#options.world.monotonicMs() < failure.untilMs;
    if (isFresh && !this.#providers.has(destination)) return failure.route;
    return this.#resolve(destination);
  }

  async #resolve(destination: string): Promise<MailHosts> {
    const { resolver, guard, world, relayHost, providerSuffixes } = this.#options;
    const random = (): number => world.random();
    const options = { resolver, guard, random, providerSuffixes };
    const route =
      relayHost === null
        ? await resolveMailHosts(destination, {
            ...options,
            ownNames: await this.#hostNamesOfNodes(),
          })
        : await relayRoute(relayHost);
    if (this.#providers.size + this.#failures.size >= REMEMBERED_MAX) {
      for (const memory of [this.#providers, this.#knownProviders, this.#failures]) memory.clear();
    }
    this.#failures.delete(destination);
    if (route.kind === 'temporary') {
      const untilMs = world.monotonicMs() + FAILURE_REMEMBERED_MS;
      this.#failures.set(destination, { route, untilMs });
    }
    if (route.kind === 'hosts') {
      this.#providers.set(destination, route.provider);
      this.#knownProviders.add(route.provider);
    }
    return route;
  }

  /** Returns the host names of all nodes. A route to one of them would be a mail loop. */
  async #hostNamesOfNodes(): Promise<ReadonlySet<string>> {
    const { db, world, ownNames } = this.#options;
    const nowMs = world.monotonicMs();
    if (this.#ownNames !== null && nowMs < this.#ownNames.untilMs) return this.#ownNames.names;
    const before = [...(this.#ownNames?.names ?? [])];
    const ofNodes = await readInstallation(db).then(
      ({ returnPathHost, hosts }) => [returnPathHost ?? [], hosts.map(({ name }) => name)].flat(2),
      () => before,
    );
    const names = new Set([...ownNames, ...ofNodes].map((name) => name.toLowerCase()));
    this.#ownNames = { names, untilMs: nowMs + OWN_NAMES_REMEMBERED_MS };
    return names;
  }
}

/** Returns the route to the relay. The operator chose it, so its address may be private. */
async function relayRoute(host: string): Promise<MailHosts> {
  try {
    const records = await lookup(host, { all: true });
    const addresses = records.map(({ address }) => address);
    const hosts = [{ name: host, preference: 0, addresses }];
    return { kind: 'hosts', hosts, provider: `relay ${host}`, dropped: [] };
  } catch {
    return { kind: 'temporary', message: `The relay ${host} has no address now.` };
  }
}
