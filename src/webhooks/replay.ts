/**
 * Sending again what was sent, or given up, before: under the old ids, with the schedule started
 * anew. Events that came while an endpoint was disabled were never meant for it and are not here.
 */
import { type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../store/postgres/database.ts';
import * as deliveries from '../store/webhook-endpoints.ts';
import { type DeliveryId, findDelivery, findEnabled } from './find.ts';

export type ReplayRange = {
  since: Date;
  /** Exclusive. */
  until: Date;
  /** Only what ended like this; null: everything. */
  status: deliveries.DeliveryStatus | null;
};

/** How much one call may send again: a longer time is replayed in several calls. */
const REPLAY_MAX = 50_000;
const BATCH = 1_000;

export async function replay(
  db: Queryable,
  scope: Scope,
  which: DeliveryId,
): Promise<deliveries.WebhookDeliveryDetail | Refusal> {
  const { endpointId, id } = which;
  const endpoint = await findEnabled(db, scope, endpointId);
  if ('refused' in endpoint) return endpoint;
  const delivery = await findDelivery(db, scope, which);
  if ('refused' in delivery) return delivery;
  if (delivery.event === null) {
    return { refused: 'conflict', message: 'This event is older than what is kept.' };
  }
  await deliveries.replayDeliveries(db, scope, { endpointId, ids: [id] });
  return findDelivery(db, scope, which);
}

/** @returns how many are sent again */
export async function replayRange(
  db: Queryable,
  scope: Scope,
  { endpointId, range }: { endpointId: string; range: ReplayRange },
): Promise<{ count: number } | Refusal> {
  const endpoint = await findEnabled(db, scope, endpointId);
  if ('refused' in endpoint) return endpoint;
  if (range.until <= range.since) return refuseUntil('must be after since');
  const wanted = { ...range, endpointId, limit: REPLAY_MAX + 1 };
  const ids = await deliveries.findDeliveryIds(db, scope, wanted);
  if (ids.length > REPLAY_MAX) {
    return refuseUntil(`reaches over more than ${REPLAY_MAX} deliveries; replay in shorter pieces`);
  }
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH);
    await deliveries.replayDeliveries(db, scope, { endpointId, ids: batch });
  }
  return { count: ids.length };
}

function refuseUntil(message: string): Refusal {
  return refuseFields([{ field: 'until', message }]);
}
