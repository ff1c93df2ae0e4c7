/**
 * Looks at every live domain once a day: DNS changes under our feet, and mail that no longer
 * authenticates harms its sender. A bad day does no harm (status.ts: 72 hours).
 *
 * Name servers that do not answer cost half a minute a domain (verify.ts). So several domains are looked at
 * at once, and projects take turns: what one project's name servers cost delays the others by a few of
 * its domains, however many it has.
 */
import type { Logger } from 'pino';
import type { Resolver } from '../net/dns/resolver.ts';
import type { Database } from '../store/postgres/database.ts';
import { domainsToRecheck, type StoredDomain } from '../store/domains.ts';
import { type DomainServiceOptions, verifyDomain } from './service.ts';

export type RecheckOptions = {
  resolver: Resolver;
  config: DomainServiceOptions['config'];
  log: Logger;
  isStopping: () => boolean;
};

const ROUND = { max: 64, perProjectMax: 8 };
/** Each asks some 25 questions in one go: with more at once the receive buffer of a name server overflows. */
const AT_ONCE = 8;

/** Until none is due. One that cannot be checked is left for the next time. */
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
        await recheck(db, options, domain).catch((error: unknown) => {
          failures += 1;
          log.warn({ err: error, domainId: domain.id }, 'a domain could not be checked');
        });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (failures > 0 || isStopping()) return;
  }
}

async function recheck(db: Database, options: RecheckOptions, domain: StoredDomain): Promise<void> {
  const checked = await verifyDomain({ db, ...options }, domain);
  if (checked === null || checked.status === domain.status) return;
  const { id, status } = checked;
  options.log.info({ domainId: id, before: domain.status, status }, 'a domain changed');
}
