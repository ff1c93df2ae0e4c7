/**
 * The transport security of a worker, wired: MTA-STS policies with their store, DANE, and what is
 * counted of it.
 */
import { TlsCounters } from '../delivery/tls-counters.ts';
import { TlsRules } from '../delivery/tls-rules.ts';
import { StsCache } from '../net/tls/mta-sts-cache.ts';
import type { Ground } from './server.ts';
import { StsPolicies } from '../store/mta-sts.ts';
import { addTlsResults } from '../store/tls-results.ts';
import { systemWorld } from './system-world.ts';

export function createTls(ground: Ground): { tls: TlsRules; stopTls: () => Promise<void> } {
  const { config, db, resolver, guard, log } = ground;
  const counters = new TlsCounters((counts) => addTlsResults(db, counts));
  const policies = new StsCache({
    resolver,
    guard,
    world: systemWorld,
    port: config.mtaStsPort,
    store: new StsPolicies(db),
    onFailure: (domain, result, message) => {
      counters.add({ domain, policy: 'sts', result });
      log.info({ domain, result, problem: message }, 'an MTA-STS policy could not be had');
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
    await policies.settled();
    await counters.flush();
  };
  return { tls, stopTls };
}
