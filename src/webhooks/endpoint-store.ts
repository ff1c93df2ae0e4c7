/**
 * Stores webhook endpoints: registers, changes and deletes them, and rotates their secrets. Secrets are sealed
 * (secrets/secret-box.ts), and only `webhooks/` opens them. delivery-store.ts contains the deliveries.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { type Page, type PageResult, cutToPage } from '../database/page.ts';

export type EndpointStatus = 'enabled' | 'disabled';

/** Shape of the events that an endpoint gets (compat/resend/wire/webhook-payload.ts). */
export type PayloadFormat = 'letterhaus' | 'resend';

export type WebhookEndpoint = {
  id: string;
  url: string;
  /** Null subscribes to all types, including those added later. */
  events: readonly EventType[] | null;
  status: EndpointStatus;
  format: PayloadFormat;
  /** Why the service disabled it, as a sentence. Null when a request disabled it. */
  disabledReason: string | null;
  /** Null when the endpoint is healthy. */
  failingSince: Date | null;
  /** Failed attempts in a row since then. */
  failures: number;
  /** Null when the endpoint is healthy. */
  lastFailure: LastFailure | null;
  /** No delivery is attempted before this time; null when the endpoint is not suspended. */
  suspendedUntil: Date | null;
  createdAt: Date;
};

/** The last failed attempt, with the beginning of the response. */
export type LastFailure = {
  at: string;
  status: number | null;
  answer: string | null;
  error: string | null;
};

export type EndpointWithSecret = { endpoint: WebhookEndpoint; signingSecret: string };

/** Secrets sealed with the endpoint's id. Earlier secrets are present only while they are valid. */
export type SealedSecrets = {
  secret: Buffer;
  previousSecret: Buffer | null;
  /** The secret before the previous one, after two rotations within 24 hours. */
  earlierSecret: Buffer | null;
};

/** Limit for each project and environment. It bounds the fan-out of an event. */
export const ENDPOINTS_MAX = 50;

const columnsOf = (row: string): string => `
       ${row}.id, ${row}.url, ${row}.events, ${row}.status, ${row}.payload_format as format,
       ${row}.disabled_reason as "disabledReason", ${row}.failing_since as "failingSince",
       case when ${row}.failing_since is null then 0 else ${row}.failures end as failures,
       case when ${row}.failing_since is not null then ${row}.last_failure end as "lastFailure",
       case when ${row}.status = 'enabled' and ${row}.blocked_until > app_now()
            then ${row}.blocked_until end as "suspendedUntil",
       ${row}.created_at as "createdAt"`;

const COLUMNS = columnsOf('webhook_endpoints');

const CREATE = `
insert into webhook_endpoints (project_id, environment, id, url, events, status, secret,
                               payload_format, created_at)
select $1, $2, $3, $4, $5, 'enabled', $6, $7, app_now()
 where (select count(*) from webhook_endpoints where project_id = $1 and environment = $2)
       < ${ENDPOINTS_MAX}
returning ${COLUMNS}`;

/** Returns null at the limit of endpoints. */
export async function createEndpoint(
  db: Queryable,
  scope: Scope,
  endpoint: Pick<WebhookEndpoint, 'id' | 'url' | 'events'> & {
    secret: Buffer;
    format?: PayloadFormat;
  },
): Promise<WebhookEndpoint | null> {
  const { id, url, events, secret, format = 'letterhaus' } = endpoint;
  const values = [scope.projectId, scope.environment, id, url, events, secret, format];
  const [row] = await db.query<WebhookEndpoint>(CREATE, values);
  return row ?? null;
}

const LIST = `
select ${COLUMNS} from webhook_endpoints
 where project_id = $1 and environment = $2
   and ($4::uuid is null or id < $4) and ($5::uuid is null or id > $5)
 order by case when $5::uuid is null then id end desc, id
 limit $3`;

export async function listEndpoints(
  db: Queryable,
  scope: Scope,
  page: Page,
): Promise<PageResult<WebhookEndpoint>> {
  const values = [scope.projectId, scope.environment, page.limit + 1, page.after, page.before];
  return cutToPage(await db.query<WebhookEndpoint>(LIST, values), page);
}

const FIND = `
select ${COLUMNS} from webhook_endpoints
 where project_id = $1 and environment = $2 and id = $3`;

export async function findEndpoint(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<WebhookEndpoint | null> {
  const [row] = await db.query<WebhookEndpoint>(FIND, [scope.projectId, scope.environment, id]);
  return row ?? null;
}

const FIND_FOR_UPDATE = `${FIND} for update`;

/** Finds an endpoint and locks its row until the transaction ends, so that two changes of it follow one another. */
export async function lockEndpoint(
  tx: Queryable,
  scope: Scope,
  id: string,
): Promise<WebhookEndpoint | null> {
  const values = [scope.projectId, scope.environment, id];
  const [row] = await tx.query<WebhookEndpoint>(FIND_FOR_UPDATE, values);
  return row ?? null;
}

const FIND_SECRETS = `
select secret, case when previous_secret_expires_at > app_now() then previous_secret end
       as "previousSecret",
       case when earlier_secret_expires_at > app_now() then earlier_secret end as "earlierSecret"
  from webhook_endpoints
 where project_id = $1 and environment = $2 and id = $3`;

export async function findSecrets(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<SealedSecrets | null> {
  const values = [scope.projectId, scope.environment, id];
  const [row] = await db.query<SealedSecrets>(FIND_SECRETS, values);
  return row ?? null;
}

// Changes only given fields, so that concurrent changes do not overwrite each other. Another URL, or enabling,
// resets the failures.
const UPDATE = `
update webhook_endpoints
   set url = current.url, events = case when $5 then $6 else webhook_endpoints.events end,
       status = current.status,
       failures        = case when current.anew then 0 else webhook_endpoints.failures end,
       failing_since   = case when not current.anew then webhook_endpoints.failing_since end,
       disabled_reason = case when not current.anew then webhook_endpoints.disabled_reason end,
       blocked_until   = case when current.anew then app_now() else webhook_endpoints.blocked_until end
  from (select coalesce($4, url) as url, coalesce($7, status) as status,
               url <> coalesce($4, url) or status <> coalesce($7, status) as anew
          from webhook_endpoints
         where project_id = $1 and environment = $2 and id = $3 for update) current
 where webhook_endpoints.project_id = $1 and webhook_endpoints.environment = $2 and webhook_endpoints.id = $3
returning ${COLUMNS}`;

/** Omitted fields do not change. `events` null subscribes to all types. */
export type EndpointChange = {
  url?: string | undefined;
  events?: readonly EventType[] | null | undefined;
  status?: EndpointStatus | undefined;
};

export async function updateEndpoint(
  db: Queryable,
  scope: Scope,
  { id, url, events, status }: EndpointChange & { id: string },
): Promise<WebhookEndpoint | null> {
  const changes = [url ?? null, events !== undefined, events ?? null, status ?? null];
  const values = [scope.projectId, scope.environment, id, ...changes];
  const [row] = await db.query<WebhookEndpoint>(UPDATE, values);
  return row ?? null;
}

const REENABLE = `
update webhook_endpoints
   set status = 'enabled', failures = 0, failing_since = null, disabled_reason = null,
       blocked_until = app_now()
 where project_id = $1 and environment = $2 and id = $3
   and status = 'disabled' and disabled_reason is not null`;

/** Enables an endpoint that the service disabled. An endpoint that its owner disabled does not change. */
export async function reenableEndpoint(db: Queryable, scope: Scope, id: string): Promise<void> {
  await db.query(REENABLE, [scope.projectId, scope.environment, id]);
}

// Does nothing while both earlier secrets are valid: a third rotation would end one of them early.
const ROTATE = `
update webhook_endpoints
   set earlier_secret = case when previous_secret_expires_at > app_now() then previous_secret end,
       earlier_secret_expires_at = previous_secret_expires_at,
       previous_secret = secret, previous_secret_expires_at = app_now() + interval '24 hours',
       secret = $4
 where project_id = $1 and environment = $2 and id = $3
   and (earlier_secret is null or earlier_secret_expires_at <= app_now())
returning ${COLUMNS}`;

/**
 * Replaces the secret. Earlier secrets stay valid for 24 hours from their rotation.
 * @returns null when the endpoint does not exist, or two earlier secrets are still valid
 */
export async function rotateSecret(
  db: Queryable,
  scope: Scope,
  { id, secret }: { id: string; secret: Buffer },
): Promise<WebhookEndpoint | null> {
  const values = [scope.projectId, scope.environment, id, secret];
  const [row] = await db.query<WebhookEndpoint>(ROTATE, values);
  return row ?? null;
}

// Makes one pending row due. The loop finds the endpoint through it and ends all its deliveries as failed.
const DELETE = `
with gone as (
  delete from webhook_endpoints where project_id = $1 and environment = $2 and id = $3 returning id
), one as (
  select webhook_queue.project_id, webhook_queue.endpoint_id, webhook_queue.event_id from webhook_queue
   where webhook_queue.endpoint_id = $3 and webhook_queue.holder is null and exists (select from gone)
   order by webhook_queue.due_at limit 1 for update skip locked
), found as (
  update webhook_queue set due_at = app_now() from one
   where webhook_queue.project_id = one.project_id and webhook_queue.event_id = one.event_id
     and webhook_queue.endpoint_id = one.endpoint_id
)
select id from gone`;

export async function deleteEndpoint(db: Queryable, scope: Scope, id: string): Promise<boolean> {
  const rows = await db.query(DELETE, [scope.projectId, scope.environment, id]);
  return rows.length > 0;
}
