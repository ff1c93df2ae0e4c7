/**
 * Collects the TLS rules for the hosts of a route before the first connection.
 *
 * A domain without policies costs little: its MTA-STS result is in memory after the first look-up, and TLSA records
 * are looked up only where DNSSEC authenticated the route (net/dns/mx.ts sets `daneNames`). With a configured relay,
 * policies of recipient domains do not apply.
 */
import type { World } from '../../lib/world.ts';
import type { Resolver } from '../../net/dns/resolver.ts';
import type { TlsResult } from '../../net/smtp/client.ts';
import type { StsCache, StsPolicy } from '../../net/tls/mta-sts.ts';
import type { MxHost, MailHosts } from '../../net/dns/mx.ts';
import {
  type DaneFinding,
  findDane,
  type PolicyResult,
  type TlsRule,
  tlsRuleFor,
} from '../../net/tls/tls-rule.ts';
import type { TlsCounters } from './tls-counters.ts';
import { TlsMemory } from './tls-memory.ts';

export type TlsForAttempt = {
  ruleFor: (host: MxHost) => TlsRule;
  tlsMemory: TlsMemory;
  /** Called for every new session and every skipped host, with the result for TLS reports. */
  onTls: (rule: TlsRule, result: TlsResult | PolicyResult) => void;
};

export type TlsRequest = {
  destination: string;
  demand: 'opportunistic' | 'enforced';
  sts: StsPolicy | null;
};

type TlsRulesOptions = {
  resolver: Pick<Resolver, 'tlsa'>;
  /** null with a relay. */
  policies: StsCache | null;
  counters: TlsCounters;
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

  /** Returns the domain's MTA-STS policy, without a promise when it is in memory. */
  policyOf(destination: string): StsPolicy | null | Promise<StsPolicy | null> {
    return this.#options.policies?.policyFor(destination) ?? null;
  }

  /** Returns the rules for an attempt, without a promise when no host can have TLSA records. */
  forAttempt(route: MailHosts, request: TlsRequest): TlsForAttempt | Promise<TlsForAttempt> {
    if (!mayHaveDane(route)) return this.#rulesFor(request, null);
    const { resolver, port, world } = this.#options;
    const options = { resolver, port, domain: request.destination, nowMs: world.now() };
    return findDaneOf(route, options).then((dane) => this.#rulesFor(request, dane));
  }

  #rulesFor(
    { destination, demand: senderDemand, sts: stsPolicy }: TlsRequest,
    dane: ReadonlyMap<string, DaneFinding> | null,
  ): TlsForAttempt {
    const { counters } = this.#options;
    return {
      ruleFor: (host: MxHost): TlsRule =>
        tlsRuleFor(host.name, { senderDemand, stsPolicy, dane: dane?.get(host.name) ?? NO_DANE }),
      tlsMemory: this.#memory,
      onTls: ({ reportedAs }, result) => {
        counters.add({ domain: destination, policy: reportedAs, result: result ?? 'success' });
      },
    };
  }

  /** Returns the policy if it has changed since the attempt, else null (RFC 8461 §5.1). */
  async newerPolicy({ destination, sts }: TlsRequest): Promise<{ sts: StsPolicy | null } | null> {
    const { policies } = this.#options;
    if (policies === null || sts?.mode !== 'enforce') return null;
    const now = await policies.recheck(destination);
    return JSON.stringify(now) === JSON.stringify(sts) ? null : { sts: now };
  }
}

/**
 * Returns the least TLS of every attempt. A password is sent only to a relay with a verified certificate, or within
 * this machine.
 */
export function leastTlsFor(
  relay: { host: string; auth?: object | null } | null,
): 'opportunistic' | 'enforced' {
  const isHere = /^(?:localhost|127\.[\d.]+|::1)$/.test(relay?.host ?? '');
  return relay?.auth && !isHere ? 'enforced' : 'opportunistic';
}

type Hosts = Extract<MailHosts, { kind: 'hosts' }>;

function mayHaveDane(route: MailHosts): route is Hosts {
  return route.kind === 'hosts' && route.hosts.some(({ daneNames }) => daneNames !== undefined);
}

async function findDaneOf(
  { hosts }: Hosts,
  options: Parameters<typeof findDane>[1],
): Promise<Map<string, DaneFinding>> {
  const found = hosts.map(async (host) => [host.name, await findDane(host, options)] as const);
  return new Map(await Promise.all(found));
}
