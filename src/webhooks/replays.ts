/**
 * Replays stored deliveries: sends them to an endpoint again, with the same ids. Queues a single delivery at once.
 * Records a time range, which the loops of all workers queue in steps (replay-store.ts).
 *
 * A replay enables an endpoint that the service disabled (410, five days of failures), because its owner has probably
 * repaired the receiver. It refuses an endpoint that its owner disabled.
 */
import { isRefusal, type Refusal, refuseFields, noSuch } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { isId } from '../database/ids.ts';
import type { Queryable } from '../database/database.ts';
import {
  countDeliveries,
  type DeliveryRange,
  parseResponseCode,
  type WebhookDeliveryDetail,
} from './delivery-store.ts';
import * as endpoints from './endpoint-store.ts';
import {
  createReplay,
  findReplay,
  findRunningReplay,
  hasNodeWithoutFilters,
  replayDeliveries,
  type WebhookReplay,
} from './replay-store.ts';

export const NO_ENDPOINT = noSuch('webhook');

const NO_REPLAY: Refusal = {
  refused: 'not_found',
  message: 'There is no replay with this id of this webhook.',
};

const ANOTHER_RUNS: Refusal = {
  refused: 'conflict',
  message: 'Another replay of this webhook is running; wait until it has ended.',
};

const OLDER_NODE: Refusal = {
  refused: 'conflict',
  message:
    'A node of an older version runs, which would replay the whole period; upgrade it, or leave out type and code.',
};

/** Limit on the deliveries of one replay. A longer period needs several replays. */
const REPLAY_MAX = 50_000;

export async function findEndpoint(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<endpoints.WebhookEndpoint | Refusal> {
  return (isId(id) && (await endpoints.findEndpoint(db, scope, id))) || NO_ENDPOINT;
}

export type DeliveryIds = { endpointId: string; id: string };

export async function replayStoredDelivery(
  db: Queryable,
  scope: Scope,
  { endpointId, id, delivery }: DeliveryIds & { delivery: WebhookDeliveryDetail },
): Promise<Refusal | null> {
  if (delivery.event === null) {
    return { refused: 'conflict', message: 'This event was removed after its retention.' };
  }
  const endpoint = await findReplayable(db, scope, endpointId);
  if (isRefusal(endpoint)) return endpoint;
  await enableIfDisabled(db, scope, endpoint);
  await replayDeliveries(db, scope, { endpointId, ids: [id] });
  return null;
}

/** Replays some deliveries of an endpoint. Ids without a delivery are ignored. */
export async function replaySelected(
  db: Queryable,
  scope: Scope,
  { endpointId, ids }: { endpointId: string; ids: readonly string[] },
): Promise<{ queued: number } | Refusal> {
  const endpoint = await findReplayable(db, scope, endpointId);
  if (isRefusal(endpoint)) return endpoint;
  await enableIfDisabled(db, scope, endpoint);
  return { queued: await replayDeliveries(db, scope, { endpointId, ids }) };
}

/** `code` as in the API. */
export type ReplayRange = Omit<DeliveryRange, 'endpointId' | 'code'> & { code: string | null };

export async function startReplay(
  db: Queryable,
  scope: Scope,
  range: ReplayRange & { endpointId: string },
): Promise<WebhookReplay | Refusal> {
  const { endpointId } = range;
  const endpoint = await findReplayable(db, scope, endpointId);
  if (isRefusal(endpoint)) return endpoint;
  if (range.until <= range.since) return refuseUntil('must be after since');
  const code = range.code === null ? null : parseResponseCode(range.code);
  const isFiltered = range.type !== null || code !== null;
  if (isFiltered && (await hasNodeWithoutFilters(db))) return OLDER_NODE;
  const counted = { ...range, code, limit: REPLAY_MAX + 1 };
  const { covered, matching: total } = await countDeliveries(db, scope, counted);
  if (covered > REPLAY_MAX) {
    return refuseUntil(`covers more than ${REPLAY_MAX} deliveries; replay shorter periods`);
  }
  await enableIfDisabled(db, scope, endpoint);
  const created = await createReplay(db, scope, { ...range, total });
  if (created !== null) return created;
  const running = await findRunningReplay(db, scope, endpointId);
  return running !== null && isSameRange(running, range) ? running : ANOTHER_RUNS;
}

/** Compares `until` with `<=`, because a running replay ends at the time of its request at the latest. */
function isSameRange(running: WebhookReplay, range: ReplayRange): boolean {
  const { since, until, status, type, code } = range;
  return (
    running.type === type &&
    running.code === code &&
    running.since.getTime() === since.getTime() &&
    running.until <= until &&
    running.deliveryStatus === status
  );
}

function refuseUntil(message: string): Refusal {
  return refuseFields([{ field: 'until', message }]);
}

export async function findReplayOfEndpoint(
  db: Queryable,
  scope: Scope,
  ids: DeliveryIds,
): Promise<WebhookReplay | Refusal> {
  const endpoint = await findEndpoint(db, scope, ids.endpointId);
  if (isRefusal(endpoint)) return endpoint;
  return (isId(ids.id) && (await findReplay(db, scope, ids))) || NO_REPLAY;
}

async function findReplayable(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<endpoints.WebhookEndpoint | Refusal> {
  const endpoint = await findEndpoint(db, scope, id);
  if (isRefusal(endpoint)) return endpoint;
  if (endpoint.status === 'enabled' || endpoint.disabledReason !== null) return endpoint;
  return { refused: 'conflict', message: 'The webhook is disabled; enable it first.' };
}

async function enableIfDisabled(
  db: Queryable,
  scope: Scope,
  { id, status }: endpoints.WebhookEndpoint,
): Promise<void> {
  if (status === 'disabled') await endpoints.reenableEndpoint(db, scope, id);
}
