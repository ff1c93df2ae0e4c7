/** Looking up what a request names. What belongs to somebody else does not exist. */
import type { Refusal } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { isId } from '../store/ids.ts';
import * as endpoints from '../store/webhook-endpoints.ts';

export const NO_ENDPOINT: Refusal = {
  refused: 'not_found',
  message: 'There is no webhook with this id in this project and environment.',
};

const NO_DELIVERY: Refusal = {
  refused: 'not_found',
  message: 'There is no delivery with this id to this webhook.',
};

export type DeliveryId = { endpointId: string; id: string };

export async function findEndpoint(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<endpoints.WebhookEndpoint | Refusal> {
  return (isId(id) && (await endpoints.findEndpoint(db, scope, id))) || NO_ENDPOINT;
}

/** A disabled endpoint is sent nothing: what would be replayed would end as failed at once. */
export async function findEnabled(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<endpoints.WebhookEndpoint | Refusal> {
  const endpoint = await findEndpoint(db, scope, id);
  if ('refused' in endpoint || endpoint.status === 'enabled') return endpoint;
  return { refused: 'conflict', message: 'The webhook is disabled; enable it first.' };
}

/** One delivery with its payload and its attempts. */
export async function findDelivery(
  db: Queryable,
  scope: Scope,
  which: DeliveryId,
): Promise<endpoints.WebhookDeliveryDetail | Refusal> {
  const endpoint = await findEndpoint(db, scope, which.endpointId);
  if ('refused' in endpoint) return endpoint;
  return (isId(which.id) && (await endpoints.findDelivery(db, scope, which))) || NO_DELIVERY;
}
