/**
 * The rules about TLS for the hosts of one route: collected before the first of them is asked.
 *
 * Costs nothing where nobody publishes anything: TLSA records are only looked for where DNSSEC
 * vouches for the way (net/mx.ts says so with `daneNames`).
 */
import type { World } from '../core/world.ts';
import type { Resolver } from '../net/dns.ts';
import type { MxHost, Route } from '../net/mx.ts';
import { type DaneFinding, findDane, type TlsRule, tlsRuleFor } from '../net/tls-policy.ts';
import type { AttemptOptions } from './attempt.ts';
import { TlsMemory } from './tls-memory.ts';

export type TlsRules = {
  of(
    route: Route,
    asked: { destination: string; demand: 'opportunistic' | 'enforced' },
  ): Promise<Pick<AttemptOptions, 'ruleFor' | 'tlsMemory' | 'onTls'>>;
};

export type TlsRulesOptions = {
  resolver: Pick<Resolver, 'tlsa'>;
  /** Of the mail servers. */
  port: number;
  world: Pick<World, 'now' | 'monotonicMs'>;
};

const NO_DANE: DaneFinding = { kind: 'none' };

export function createTlsRules({ resolver, port, world }: TlsRulesOptions): TlsRules {
  const tlsMemory = new TlsMemory(world);
  return {
    async of(route, { destination, demand }) {
      const dane = await findDaneOf(route, {
        resolver,
        port,
        domain: destination,
        nowMs: world.now(),
      });
      const ruleFor = (host: MxHost): TlsRule =>
        tlsRuleFor(host.name, { demand, sts: null, dane: dane?.get(host.name) ?? NO_DANE });
      return { ruleFor, tlsMemory, onTls: () => {} };
    },
  };
}

/** By host; null where no host of the route can have TLSA records. */
async function findDaneOf(
  route: Route,
  options: Parameters<typeof findDane>[1],
): Promise<Map<string, DaneFinding> | null> {
  const hosts = route.kind === 'hosts' ? route.hosts.filter(({ daneNames }) => daneNames) : [];
  if (hosts.length === 0) return null;
  const findings = await Promise.all(
    hosts.map(async (host) => [host.name, await findDane(host, options)] as const),
  );
  return new Map(findings);
}
