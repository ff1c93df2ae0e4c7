/** Periodic checks of all live domains: daily, and more often while required records are missing. */
import type { Logger } from 'pino';
import { type CheckOptions, verifyDomain } from './domain-check.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import { listDomainsToRecheck } from './domain-store.ts';
import type { Database } from '../database/database.ts';

type RecheckOptions = {
  resolver: Resolver;
  config: CheckOptions['config'];
  log: Logger;
  isStopping: () => boolean;
};

const ROUND_LIMITS = { max: 64, perProjectMax: 8 };
/**
 * Domains checked at the same time. Each needs about 25 queries. More domains overflow the receive buffer of a name
 * server.
 */
const CONCURRENT_CHECKS = 8;

/**
 * Checks every live domain that is due (`listDomainsToRecheck`). If a check throws, the domain waits for the next run.
 *
 * A domain whose name servers do not respond takes 30 s. Several domains are therefore checked at once, and projects
 * alternate: slow name servers of one project delay others by only a few domains.
 */
export async function recheckDomains(db: Database, options: RecheckOptions): Promise<void> {
  const { log, isStopping } = options;
  for (;;) {
    const domains = await listDomainsToRecheck(db, ROUND_LIMITS);
    if (domains.length === 0) return;
    const queue = domains.values();
    let failures = 0;
    const checkNext = async (): Promise<void> => {
      for (const domain of queue) {
        if (isStopping()) return;
        await verifyDomain({ db, ...options }, domain).catch((error: unknown) => {
          failures += 1;
          log.warn(
            { err: error, domain_id: domain.id },
            'this node could not check a domain; the next round does it again',
          );
        });
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_CHECKS }, checkNext));
    if (failures > 0 || isStopping()) return;
  }
}
