/**
 * Maintains the webhook of LETTERHAUS_OPERATOR_WEBHOOK: each start makes this endpoint of the operator's project match
 * the configuration, and enables it again. It is signed, retried and disabled like all others.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { OperatorConfig } from '../config/operator.ts';
import { checkOutboundUrl } from '../net/http/guarded-client.ts';
import type { Database, Queryable } from '../database/database.ts';
import { OPERATOR_SCOPE } from './condition-store.ts';
import { findOrCreateOperatorProject } from '../accounts/projects/project-store.ts';
import type { SecretBox } from '../secrets/secret-box.ts';
import {
  createEndpoint,
  deleteEndpoint,
  findEndpoint,
  findSecrets,
  rotateSecret,
  updateEndpoint,
} from '../webhooks/endpoint-store.ts';
import { formatSecret, SECRET_BYTES } from '../webhooks/sending/signed-request.ts';

/** The id of the configured endpoint. */
const ID = 'ffffffff-ffff-7fff-bfff-fffffffffffe';

type Options = {
  config: OperatorConfig & { allowPrivateNetworks: boolean };
  secrets: SecretBox;
  log: Pick<Logger, 'info' | 'warn'>;
};

export async function configureOperatorWebhook(db: Database, options: Options): Promise<void> {
  const { config, log } = options;
  const { operatorWebhook: webhook, allowPrivateNetworks: allowPrivate } = config;
  if (webhook === null) return void (await deleteEndpoint(db, OPERATOR_SCOPE, ID));
  const problem = checkOutboundUrl(webhook.url, { allowPrivate });
  if (problem !== null) {
    log.warn(`LETTERHAUS_OPERATOR_WEBHOOK gets no events: ${problem}`);
    return void (await deleteEndpoint(db, OPERATOR_SCOPE, ID));
  }
  await db.transaction(async (tx) => {
    // Locks the row of the project, so nodes that start at the same moment do this one after the other.
    await findOrCreateOperatorProject(tx);
    const endpoint = await findEndpoint(tx, OPERATOR_SCOPE, ID);
    if (endpoint === null) return createConfigured(tx, webhook, options);
    await updateEndpoint(tx, OPERATOR_SCOPE, { id: ID, url: webhook.url, status: 'enabled' });
    if (webhook.secret !== null) await rotateTo(tx, webhook.secret, options);
  });
}

async function createConfigured(
  tx: Queryable,
  { url, secret }: NonNullable<OperatorConfig['operatorWebhook']>,
  { secrets, log }: Options,
): Promise<void> {
  const sealed = secrets.seal(secret ?? formatSecret(randomBytes(SECRET_BYTES)), ID);
  const created = await createEndpoint(tx, OPERATOR_SCOPE, {
    id: ID,
    url,
    events: null,
    secret: sealed,
  });
  if (created === null) {
    return log.warn(
      'LETTERHAUS_OPERATOR_WEBHOOK gets no events: the operator has as many webhooks as a project may have; delete one',
    );
  }
  if (secret === null) {
    log.info(
      `a signing secret was made for LETTERHAUS_OPERATOR_WEBHOOK; \`letterhaus webhooks rotate-secret ${ID}\` shows a new one`,
    );
  }
}

/** Rotates to the configured secret. The earlier secret also signs for 24 hours. */
async function rotateTo(tx: Queryable, secret: string, { secrets, log }: Options): Promise<void> {
  const sealed = await findSecrets(tx, OPERATOR_SCOPE, ID);
  if (sealed !== null && openOrNull(secrets, sealed.secret) === secret) return;
  const resealed = secrets.seal(secret, ID);
  if ((await rotateSecret(tx, OPERATOR_SCOPE, { id: ID, secret: resealed })) !== null) return;
  log.warn(
    'LETTERHAUS_OPERATOR_WEBHOOK_SECRET is not used yet: the secret was changed twice within 24 hours',
  );
}

/** Returns null when it was sealed with a secret key that is lost. */
function openOrNull(secrets: SecretBox, sealed: Buffer): string | null {
  try {
    return secrets.open(sealed, ID);
  } catch {
    return null;
  }
}
