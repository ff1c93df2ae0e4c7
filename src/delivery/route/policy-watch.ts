/**
 * Renews MTA-STS policies daily, long before they expire (RFC 8461 §3.3). To make one expire, an attacker must block
 * the policy host for its whole lifetime. Policies of domains without mail for 30 days are not renewed.
 */
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { StsCache } from '../../net/tls/mta-sts.ts';
import type { Database } from '../../database/database.ts';
import {
  deleteExpiredStsPolicies,
  listPoliciesToRenew,
  StsPolicies,
} from './transport-security-store.ts';
import { createNetwork } from '../../service/machine/network.ts';
import { systemWorld } from '../../service/machine/system-world.ts';

/** Limit on policies per run. Each takes a second or two; the next run continues. */
const RENEWALS_MAX = 50;
const DELETED_MAX = 5_000;

export async function renewStsPolicies(
  db: Database,
  { config, log }: { config: Config; log: Logger },
): Promise<void> {
  await deleteExpiredStsPolicies(db, DELETED_MAX);
  const domains = await listPoliciesToRenew(db, RENEWALS_MAX);
  if (domains.length === 0) return;
  const world = systemWorld;
  const { resolver, guard } = createNetwork(config, world);
  const cache = new StsCache({
    resolver,
    world,
    guard,
    port: config.mtaStsPort,
    store: new StsPolicies(db),
    onFailure: (domain, result, message) =>
      log.info({ domain, result, problem: message }, 'an MTA-STS policy could not be renewed'),
  });
  try {
    for (const domain of domains) await cache.renew(domain);
  } finally {
    resolver.close();
  }
}
