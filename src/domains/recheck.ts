/** Periodic checks of all live domains: daily, and more often while required records are missing. */
import type { Logger } from 'pino';
import { type CheckOptions, verifyDomain } from './check.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import { domainsToRecheck } from './domain-store.ts';
import type { Database } from '../database/database.ts';

type RecheckOptions = {
  resolver: Resolver;
  config: CheckOptions['config'];
  log: Logger;
  isStopping: () => boolean;
};

const ROUND = { max: 64, perProjectMax: 8 };
/**
 * Domains checked at the same time. Each needs about 25 queries. More domains overflow the receive buffer of a name
 * server.
 */
const AT_ONCE = 8;

/**
 * Checks every live domain that is due (`domainsToRecheck`). If a check throws, the domain waits for the next run.
 *
 * A domain whose name servers do not answer takes 30 s. Several domains are therefore checked at once, and projects
 * alternate: slow name servers of one project delay others by only a few domains.
 */
export async function recheckDomains(db: Database, options: RecheckOptions): Promise<void> {
  const { log, isStopping } = options;
  for (;;) {
    const due = await domainsToRecheck(db, ROUND);
    if (due.length === 0) return;
    const queue = due.values();
    let failures = 0;
    const work = async (): Promise<void> => {
      for (const domain of queue) {
        if (isStopping()) return;
        await verifyDomain({ db, ...options }, domain).catch((error: unknown) => {
          failures += 1;
          log.warn({ err: error, domain_id: domain.id }, 'a domain could not be checked');
        });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (failures > 0 || isStopping()) return;
  }
}
