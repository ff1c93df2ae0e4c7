/**
 * The rules about TLS for the hosts of one route: collected before the first of them is asked.
 *
 * Costs next to nothing where nobody publishes anything: the domain's MTA-STS policy is in memory
 * after the first look, and TLSA records are only looked for where DNSSEC vouches for the way
 * (net/dns/mx.ts says so with `daneNames`). A configured relay takes all mail for us: then what
 * recipients' domains publish is the relay's business.
 */
import type { World } from '../core/world.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import type { StsCache, StsPolicy } from '../net/tls/mta-sts.ts';
import type { MxHost, Route } from '../net/dns/mx.ts';
import { type DaneFinding, findDane, type TlsRule, tlsRuleFor } from '../net/tls/policy.ts';
import type { AttemptOptions } from './attempt.ts';
import type { TlsCounters } from './tls-counters.ts';
import { TlsMemory } from './tls-memory.ts';

type TlsForAttempt = Pick<AttemptOptions, 'ruleFor' | 'tlsMemory' | 'onTls'>;

export type TlsWishesOfDomain = {
  destination: string;
  demand: 'opportunistic' | 'enforced';
  sts: StsPolicy | null;
};

export type TlsRulesOptions = {
  resolver: Pick<Resolver, 'tlsa'>;
  /** null: nobody's policy is looked for, because a relay takes the mail. */
  policies: StsCache | null;
  counters: TlsCounters;
  /** Of the mail servers. */
  port: number;
  world: Pick<World, 'now' | 'monotonicMs'>;
};

const NO_DANE: DaneFinding = { kind: 'none' };

export class TlsRules {
  readonly #options: TlsRulesOptions;
  readonly #memory: TlsMemory;

  constructor(options: TlsRulesOptions) {
    this.#options = options;
    this.#memory = new TlsMemory(options.world);
  }

  /** The domain's MTA-STS policy; no promise when it is known. */
  policyOf(destination: string): StsPolicy | null | Promise<StsPolicy | null> {
    return this.#options.policies?.of(destination) ?? null;
  }

  /** No promise where nobody can have TLSA records. */
  forAttempt(route: Route, wishes: TlsWishesOfDomain): TlsForAttempt | Promise<TlsForAttempt> {
    if (!mayHaveDane(route)) return this.#rules(wishes, null);
    const { resolver, port, world } = this.#options;
    const how = { resolver, port, domain: wishes.destination, nowMs: world.now() };
    return findDaneOf(route, how).then((dane) => this.#rules(wishes, dane));
  }

  #rules(
    { destination, demand, sts }: TlsWishesOfDomain,
    dane: ReadonlyMap<string, DaneFinding> | null,
  ): TlsForAttempt {
    const { counters } = this.#options;
    return {
      ruleFor: (host: MxHost): TlsRule =>
        tlsRuleFor(host.name, { demand, sts, dane: dane?.get(host.name) ?? NO_DANE }),
      tlsMemory: this.#memory,
      onTls: ({ reportedAs }, result) => {
        counters.add({ domain: destination, policy: reportedAs, result: result ?? 'success' });
      },
    };
  }

  /**
   * After an attempt that failed because of TLS: the domain's policy of now, if that is another one.
   * Failures are never final, but each is followed by this look (RFC 8461 §5.1).
   */
  async newerPolicy({
    destination,
    sts,
  }: TlsWishesOfDomain): Promise<{ sts: StsPolicy | null } | null> {
    const { policies } = this.#options;
    if (policies === null || sts?.mode !== 'enforce') return null;
    const now = await policies.recheck(destination);
    return JSON.stringify(now) === JSON.stringify(sts) ? null : { sts: now };
  }
}

type Hosts = Extract<Route, { kind: 'hosts' }>;

function mayHaveDane(route: Route): route is Hosts {
  return route.kind === 'hosts' && route.hosts.some(({ daneNames }) => daneNames !== undefined);
}

async function findDaneOf(
  { hosts }: Hosts,
  options: Parameters<typeof findDane>[1],
): Promise<Map<string, DaneFinding>> {
  const found = hosts.map(async (host) => [host.name, await findDane(host, options)] as const);
  return new Map(await Promise.all(found));
}
