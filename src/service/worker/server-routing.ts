/** Constructs mail routing and TLS rules. */
import { MailRouting } from '../../delivery/route/mail-routing.ts';
import { leastTlsFor, TlsRules } from '../../delivery/route/tls-rules.ts';
import { TlsCounters } from '../../delivery/route/tls-counters.ts';
import { StsCache } from '../../net/tls/mta-sts.ts';
import { addTlsResults, StsPolicies } from '../../delivery/route/transport-security-store.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { WorkerContext } from './worker-context.ts';

type RoutingContext = Pick<WorkerContext, 'config' | 'db' | 'resolver' | 'guard' | 'log'>;

export function createRouting(context: RoutingContext) {
  const { config, db, resolver, guard } = context;
  const mailRouting = new MailRouting({
    db,
    world: systemWorld,
    resolver,
    guard,
    relayHost: config.relay?.host ?? null,
    ownNames: [config.hostname, ...config.sources.map(({ heloName }) => heloName)],
    providerSuffixes: config.shaping.suffixes,
  });
  return { mailRouting, leastTls: leastTlsFor(config.relay), ...createTls(context) };
}

function createTls(context: RoutingContext): { tls: TlsRules; stopTls: () => Promise<void> } {
  const { config, db, resolver, guard, log } = context;
  const counters = new TlsCounters((counts) => addTlsResults(db, counts));
  const policies = new StsCache({
    resolver,
    guard,
    world: systemWorld,
    port: config.mtaStsPort,
    store: new StsPolicies(db),
    onFailure: (domain, result, message) => {
      counters.add({ domain, policy: 'sts', result });
      log.info({ domain, result, problem: message }, 'an MTA-STS policy could not be fetched');
    },
  });
  const tls = new TlsRules({
    resolver,
    policies: config.relay === null ? policies : null,
    counters,
    port: config.mxPort,
    world: systemWorld,
  });
  const stopTls = async (): Promise<void> => {
    await policies.whenIdle();
    await counters.flush();
  };
  return { tls, stopTls };
}
