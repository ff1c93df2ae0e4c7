/**
 * The domain and webhook services for one command, constructed as service/server.ts does for a worker.
 * Apart from store.ts so that only the commands that need them load them.
 */
import { createDomainService, type DomainService } from '../domains/service.ts';
import { createLog } from '../service/log.ts';
import { createNetwork } from '../service/network.ts';
import { prepareDataDir } from '../store/postgres/embedded/layout.ts';
import { secretKeyOf, SecretBox } from '../store/secrets.ts';
import { createWebhookService, type WebhookService } from '../webhooks/service.ts';
import type { Cli, Outcome } from './command.ts';
import { type Store, withStore } from './store.ts';

export type Features = Store & { domains: DomainService; webhooks: WebhookService };

/** As withStore, with the services around the database. */
export function withFeatures(
  cli: Cli,
  work: (features: Features) => Promise<Outcome>,
): Promise<Outcome> {
  return withStore(cli, async (store) => {
    const { db, config } = store;
    const { world } = cli;
    const { resolver, guard } = createNetwork(config, world);
    const secrets = new SecretBox(secretKeyOf(prepareDataDir(config.dataDir), config.secretKey));
    const log = createLog({ level: 'silent', forPeople: false });
    const domains = createDomainService({ db, world, secrets, resolver, config });
    const webhooks = createWebhookService({ db, world, secrets, resolver, guard, log });
    try {
      return await work({ ...store, domains, webhooks });
    } finally {
      resolver.close();
    }
  });
}
