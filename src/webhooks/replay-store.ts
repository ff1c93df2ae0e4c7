/**
 * Queues stored webhook deliveries again for replays, one by one or by time range, with the same ids and a new retry
 * schedule. A replayed delivery is queued like any other, so one worker at a time sends it
 * (sending/webhook-queue-store.ts).
 *
 * Any worker queues a range in steps (`advanceReplays`). A step and the cursor of its replay commit together. At most
 * DUE_MAX deliveries of an endpoint are due at a time. New events wait only for these, and an endpoint with an outage
 * stops its replay.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { newId } from '../database/ids.ts';
import {
  type DeliveredType,
  type DeliveryRange,
  type DeliveryStatus,
  findDeliveryIds,
  parseResponseCode,
} from './delivery-store.ts';
import { batchDelete } from '../database/expiry.ts';

// Lock order: the queue row first, then the delivery, as in sending/webhook-queue-store.ts.
const replaySql = (condition: string, isFirst: string) => `
wanted as materialized (
  select webhook_deliveries.project_id, webhook_deliveries.endpoint_id,
         webhook_deliveries.event_id from webhook_deliveries
   where webhook_deliveries.project_id = $1 and webhook_deliveries.environment = $2
     and webhook_deliveries.endpoint_id = $3
     and webhook_deliveries.event_id = any($4::uuid[])${condition}
),
queued as (
  insert into webhook_queue as queued (project_id, endpoint_id, event_id, due_at)
  select project_id, endpoint_id, event_id, app_now() from wanted order by event_id
  on conflict (project_id, event_id, endpoint_id) do update set due_at = excluded.due_at, attempts = 0
   where queued.holder is null
  returning queued.event_id
),
asked as (
  update nodes set checks_asked = checks_asked + 1
   where id = any(array(select queued.holder from wanted join webhook_queue queued
                            on queued.project_id = wanted.project_id and queued.event_id = wanted.event_id
                           and queued.endpoint_id = wanted.endpoint_id
                         where queued.holder is not null))
),
rested as (
  update webhook_endpoints set blocked_until = app_now()
   where project_id = $1 and id = $3 and blocked_until > app_now() and ${isFirst}
)
update webhook_deliveries set status = 'pending', completed_at = null
  from queued
 where webhook_deliveries.project_id = $1 and webhook_deliveries.endpoint_id = $3
   and webhook_deliveries.event_id = queued.event_id
   and webhook_deliveries.event_id = any($4::uuid[])`;

const REPLAY = `with ${replaySql('', 'true')}
returning webhook_deliveries.event_id`;

/**
 * Queues deliveries, due now. A delivery that a worker is sending does not change, but that worker compares its
 * memory with the table. A suspended endpoint is tried at once.
 * @returns the number of deliveries that were queued
 */
export async function replayDeliveries(
  db: Queryable,
  scope: Scope,
  { endpointId, ids }: { endpointId: string; ids: readonly string[] },
): Promise<number> {
  const values = [scope.projectId, scope.environment, endpointId, ids];
  return (await db.query(REPLAY, values)).length;
}

export type ReplayStatus = 'running' | 'completed' | 'canceled';

export type WebhookReplay = {
  id: string;
  endpointId: string;
  since: Date;
  /** Exclusive. Never later than the request. */
  until: Date;
  deliveryStatus: DeliveryStatus | null;
  type: DeliveredType | null;
  /** As in the API. */
  code: string | null;
  /** `canceled` when the endpoint was disabled or deleted. */
  status: ReplayStatus;
  total: number;
  queued: number;
  createdAt: Date;
  completedAt: Date | null;
};

const COLUMNS = `id, endpoint_id as "endpointId", since, until, delivery_status as "deliveryStatus",
       event_type as type, response_code as code, status, total, queued, created_at as "createdAt", completed_at as "completedAt"`;

const CREATE = `
insert into webhook_replays (project_id, environment, endpoint_id, id, since, until,
                             delivery_status, status, total, event_type, response_code, stepped_at,
                             created_at)
values ($1, $2, $3, $4, $5, least($6, app_now()), $7, 'running', $8, $9, $10, app_now(), app_now())
on conflict (endpoint_id) where status = 'running' do nothing
returning ${COLUMNS}`;

/** The migration that added the filters of replays. */
const SCHEMA_WITH_FILTERS = 85;

/** Returns whether a node of an older version runs. It would replay a whole period, because it knows no filter. */
export async function hasNodeWithoutFilters(db: Queryable): Promise<boolean> {
  const older = await db.query('select from nodes where schema_known < $1 limit 1', [
    SCHEMA_WITH_FILTERS,
  ]);
  return older.length > 0;
}

export type NewReplay = Omit<DeliveryRange, 'code'> & { code: string | null; total: number };

/** Starts a replay. Returns null while another replay of the endpoint runs. */
export async function createReplay(
  db: Queryable,
  scope: Scope,
  { endpointId, since, until, status, type, code, total }: NewReplay,
): Promise<WebhookReplay | null> {
  const values = [endpointId, newId(), since, until, status, total, type, code];
  const [row] = await db.query<WebhookReplay>(CREATE, [
    scope.projectId,
    scope.environment,
    ...values,
  ]);
  return row ?? null;
}

const FIND = `
select ${COLUMNS} from webhook_replays
 where project_id = $1 and environment = $2 and endpoint_id = $3 and id = $4`;

export async function findReplay(
  db: Queryable,
  scope: Scope,
  { endpointId, id }: { endpointId: string; id: string },
): Promise<WebhookReplay | null> {
  const values = [scope.projectId, scope.environment, endpointId, id];
  const [row] = await db.query<WebhookReplay>(FIND, values);
  return row ?? null;
}

const FIND_RUNNING_OF_ENDPOINT = `
select ${COLUMNS} from webhook_replays
 where project_id = $1 and environment = $2 and endpoint_id = $3 and status = 'running'`;

export async function findRunningReplay(
  db: Queryable,
  scope: Scope,
  endpointId: string,
): Promise<WebhookReplay | null> {
  const values = [scope.projectId, scope.environment, endpointId];
  const [row] = await db.query<WebhookReplay>(FIND_RUNNING_OF_ENDPOINT, values);
  return row ?? null;
}

/** Limit on the due deliveries of an endpoint. A new event waits for at most that many. */
const DUE_MAX = 500;
const ADVANCED_MAX = 20;

// Oldest steps first, so that all replays progress when there are more than one poll feeds.
const FIND_RUNNING = `
select webhook_replays.project_id as "projectId", webhook_replays.environment,
       webhook_replays.after_event as "afterEvent", webhook_replays.id,
       webhook_replays.endpoint_id as "endpointId", webhook_replays.since, webhook_replays.until,
       webhook_replays.delivery_status as "deliveryStatus", webhook_replays.event_type as type,
       webhook_replays.response_code as code,
       coalesce(webhook_endpoints.status = 'enabled', false) as "isOpen",
       ${DUE_MAX} - (select count(*)::int from (
          select from webhook_queue
           where webhook_queue.endpoint_id = webhook_replays.endpoint_id and webhook_queue.holder is null
             and webhook_queue.due_at <= app_now()
           order by webhook_queue.due_at limit ${DUE_MAX}) due) as capacity
  from webhook_replays
  left join webhook_endpoints on webhook_endpoints.project_id = webhook_replays.project_id
       and webhook_endpoints.id = webhook_replays.endpoint_id
 where webhook_replays.status = 'running'
 order by webhook_replays.stepped_at
 limit ${ADVANCED_MAX}`;

type RunningReplay = Scope &
  Pick<
    WebhookReplay,
    'id' | 'endpointId' | 'since' | 'until' | 'deliveryStatus' | 'type' | 'code'
  > & {
    afterEvent: string | null;
    isOpen: boolean;
    capacity: number;
  };

const RECORD_PASS = `
update webhook_replays set stepped_at = app_now()
 where project_id = $1 and id = $2 and status = 'running'`;

const END = `
update webhook_replays set status = $3, completed_at = app_now()
 where project_id = $1 and id = $2 and status = 'running'
   and after_event is not distinct from $4::uuid`;

/**
 * Advances the running replays by one step. Several workers may do this concurrently: a step counts only if the
 * cursor has not changed.
 * @returns whether deliveries were queued
 */
export async function advanceReplays(db: Queryable): Promise<boolean> {
  let hasQueued = false;
  for (const running of await db.query<RunningReplay>(FIND_RUNNING)) {
    const { projectId, id } = running;
    if (!running.isOpen) await db.query(END, [projectId, id, 'canceled', running.afterEvent]);
    else if (running.capacity > 0 && (await queueStep(db, running))) hasQueued = true;
    else await db.query(RECORD_PASS, [projectId, id]);
  }
  return hasQueued;
}

// Only the first step ends a suspension. Later steps would make every poll try an unreachable endpoint.
const STEP = `
with stepped as (
  update webhook_replays
     set after_event = $7, queued = queued + cardinality($4::uuid[]), stepped_at = app_now()
   where project_id = $1 and id = $5 and status = 'running'
     and after_event is not distinct from $6::uuid
  returning 1
),
${replaySql(' and exists (select from stepped)', '$6::uuid is null')}`;

async function queueStep(db: Queryable, running: RunningReplay): Promise<boolean> {
  const { projectId, endpointId, id, afterEvent, deliveryStatus: status, capacity } = running;
  const { since, until, type } = running;
  const code = running.code === null ? null : parseResponseCode(running.code);
  const range = {
    endpointId,
    since,
    until,
    status,
    type,
    code,
    after: afterEvent,
    limit: capacity,
  };
  const ids = await findDeliveryIds(db, running, range);
  const last = ids.at(-1);
  if (last === undefined) {
    await db.query(END, [projectId, id, 'completed', afterEvent]);
    return false;
  }
  const values = [projectId, running.environment, endpointId, ids, id, afterEvent, last];
  await db.query(STEP, values);
  return true;
}

export const deleteOldReplays = batchDelete(
  'webhook_replays',
  `status <> 'running' and completed_at <= app_now() - interval '30 days'`,
);
