/**
 * Looks at every live domain once a day: DNS changes under our feet, and mail that no longer
 * authenticates harms its sender. A bad day does no harm (status.ts: 72 hours).
 */
import type { Logger } from 'pino';
import type { Resolver } from '../net/dns.ts';
import type { Database } from '../store/database.ts';
import { domainsToRecheck } from '../store/domains.ts';
import { type DomainServiceOptions, verifyDomain } from './service.ts';

const PER_TURN_MAX = 200;

export async function recheckDomains(
  db: Database,
  options: { resolver: Resolver; config: DomainServiceOptions['config']; log: Logger },
): Promise<void> {
  for (const domain of await domainsToRecheck(db, PER_TURN_MAX)) {
    const checked = await verifyDomain({ db, ...options }, domain);
    if (checked && checked.status !== domain.status) {
      const { id, status } = checked;
      options.log.info({ domainId: id, before: domain.status, status }, 'a domain changed');
    }
  }
}
