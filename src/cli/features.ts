/**
 * The domain and webhook services for one command, constructed as service/worker/server.ts does for a worker.
 * Separate from store.ts, so that only commands that need the services load them.
 */
import { isRefusal, type Refusal } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { createDomainService, type DomainService } from '../domains/domains.ts';
import { createFindRoute } from '../delivery/route/route-finding.ts';
import { LookupAllowance } from '../net/dns/allowance.ts';
import type { Diagnose } from '../emails/diagnosis/diagnosis.ts';
import { createLog } from '../service/machine/log.ts';
import { createRouting } from '../service/machine/routing.ts';
import { createDiagnosis } from '../service/worker/server-inquiries.ts';
import { createNetwork } from '../service/machine/network.ts';
import { prepareDataDir } from '../database/embedded/layout.ts';
import { takeSecretKey } from '../secrets/check-store.ts';
import { SecretBox } from '../secrets/secret-store.ts';
import { NO_ENDPOINT } from '../webhooks/replays.ts';
import { WebhookService } from '../webhooks/endpoints.ts';
import { type Cli, failure, isFailure, type Outcome } from './command.ts';
import { type ProjectOptions, scopesOfId, type Store, withStore } from './store.ts';

export type Features = Store & {
  domains: DomainService;
  webhooks: WebhookService;
  diagnose: Diagnose;
};

/** As withStore, with the domain and webhook services. A secret key that is not the database's is a failure. */
export function withFeatures(
  cli: Cli,
  work: (features: Features) => Promise<Outcome>,
): Promise<Outcome> {
  return withStore(cli, async (store) => {
    const { db, config } = store;
    const { world } = cli;
    const dataDir = prepareDataDir(config.dataDir);
    const place = { dataDir, configured: config.secretKey };
    const secrets = new SecretBox(await takeSecretKey(db, place));
    const { resolver, guard } = createNetwork(config, world);
    const log = createLog({ level: 'silent', forPeople: false });
    const domains = createDomainService({ db, world, secrets, resolver, config });
    const webhooks = new WebhookService({ db, world, secrets, resolver, guard, log });
    const { mailRouting, tls, leastTls, stopTls } = createRouting({
      config,
      db,
      resolver,
      guard,
      log,
    });
    const findRoute = createFindRoute({ mailRouting, tls, leastTls });
    const diagnose = createDiagnosis(db, new LookupAllowance(world), {
      domains,
      findRoute,
      isDatabaseStuck: () => false,
    });
    try {
      return await work({ ...store, domains, webhooks, diagnose });
    } finally {
      await stopTls();
      resolver.close();
    }
  });
}

/** Runs `work` in the project and environment of a webhook, found by its id. */
export function onWebhook(
  cli: Cli,
  { options, id }: { options: ProjectOptions; id: string },
  work: (features: Features, scope: Scope) => Promise<Outcome | Refusal>,
): Promise<Outcome> {
  return withFeatures(cli, async (features) => {
    const scopes = await scopesOfId(features.db, options, { table: 'webhook_endpoints', id });
    if (isFailure(scopes)) return scopes;
    let refusal = NO_ENDPOINT;
    for (const scope of scopes) {
      const outcome = await work(features, scope);
      if (!isRefusal(outcome)) return outcome;
      refusal = outcome;
      if (outcome.refused !== 'not_found') break;
    }
    return failure(refusal);
  });
}
