/**
 * Finds route, provider and TLS rules for a dry run, with the functions and caches of an attempt
 * (delivery/attempt/live-attempt.ts), but without a connection.
 */
import type { RouteFinding } from '../../core/dns/dns-findings.ts';
import type { MxHost } from '../../net/dns/mx.ts';
import type { TlsRule } from '../../net/tls/tls-rule.ts';
import type { MailRouting } from './mail-routing.ts';
import { SIMULATOR_HOST, SIMULATOR_PROVIDER } from '../attempt/simulator.ts';
import type { TlsRules } from './tls-rules.ts';

type RouteFindingOptions = {
  mailRouting: Pick<MailRouting, 'findRoute'>;
  tls: Pick<TlsRules, 'policyOf' | 'forAttempt'>;
  leastTls: 'opportunistic' | 'enforced';
};

/**
 * Finds the route to a destination.
 * @param tls the TLS that the email demands, or null for opportunistic TLS
 */
export type FindRoute = (
  destination: string,
  tls: 'opportunistic' | 'enforced' | null,
) => Promise<RouteFinding>;

export function createFindRoute({ mailRouting, tls, leastTls }: RouteFindingOptions): FindRoute {
  return async (destination, emailTls) => {
    const [found, sts] = await Promise.all([
      mailRouting.findRoute(destination),
      tls.policyOf(destination),
    ]);
    if (found.kind !== 'hosts') {
      const verdict = found.kind === 'temporary' ? 'unknown' : 'none';
      return { verdict, provider: null, mx: [], problem: found.message };
    }
    const demand = leastTls === 'enforced' ? 'enforced' : (emailTls ?? 'opportunistic');
    const { ruleFor } = await tls.forAttempt(found, { destination, demand, sts });
    return {
      verdict: 'found',
      provider: found.provider,
      mx: found.hosts.map((host) => mxFinding(host, ruleFor(host))),
      problem: found.dropped.map(({ name, reason }) => `${name} is left out: ${reason}`)[0] ?? null,
    };
  };
}

function mxFinding(
  { name, preference, addresses }: MxHost,
  rule: TlsRule,
): RouteFinding['mx'][number] {
  const problem = rule.mode === 'barred' ? rule.why : null;
  return {
    host: name,
    preference,
    addresses: [...addresses],
    tls: { mode: rule.mode, policy: rule.policy, problem },
  };
}

export const SIMULATED_ROUTE: RouteFinding = {
  verdict: 'found',
  provider: SIMULATOR_PROVIDER,
  mx: [
    {
      host: SIMULATOR_HOST,
      preference: 0,
      addresses: [],
      tls: { mode: 'none', policy: 'none', problem: null },
    },
  ],
  problem: null,
};
