/**
 * Deletes expired data in small batches: emails of projects with a shorter retention than the installation's, oldest
 * first (week-removal-store.ts removes whole weeks); rows with their own expiry; and the oldest entries of long
 * webhook logs.
 *
 * Guarantee: no data of an email is deleted before the email and its webhooks have ended. Every batch is its own
 * transaction and reads the current state, so it may be interrupted at any point and run on several machines at once.
 */
import type { Retention } from '../core/retention.ts';
import type { Queryable } from '../database/database.ts';
import { batchDelete, readIdBefore } from '../database/expiry.ts';
import { purgeAuthWindows } from '../accounts/limits/limit-store.ts';
import { deleteEndedKeys } from '../accounts/keys/key-store.ts';
import { deleteOldHistory } from '../suppressions/history-store.ts';
import { deleteOldNotices } from '../notices/notice-store.ts';
import { deleteOldOperatorMail } from '../operator/operator-mail-store.ts';
import { deleteOldQuotaFailures } from '../suppressions/suppression-store.ts';
import { deleteOldReputation } from '../reputation/reputation-store.ts';
import { deleteOldApiRequests } from '../requests/request-store.ts';
import { deleteOldRequests } from '../compat/resend/wire/request-log-store.ts';
import { deleteOldAuditEvents } from '../accounts/audit/audit-store.ts';
import { deleteExpiredInvitations } from '../accounts/members/invitation-store.ts';
import { deleteExpiredSessions } from '../accounts/sessions/session-store.ts';
import { deleteExpiredLinks } from '../accounts/sign-in/link-store.ts';
import { deleteOldStats } from '../stats/stats-store.ts';
import { deleteOldTlsResults } from '../delivery/route/transport-security-store.ts';
import { deleteOldReplays } from '../webhooks/replay-store.ts';
import { deleteOldDmarcReports } from '../domains/dmarc/dmarc-store.ts';
import { deleteOldReports } from '../doctor/report-store.ts';
import { deleteExpiredChallenges } from '../accounts/progress/challenge-store.ts';

export type ProjectRetention = Retention & { projectId: string };

const FIND_RETENTION = `
select retention_content_h as "contentH", retention_metadata_h as "metadataH"
  from projects where id = $1`;

/** Returns the project's own settings, each null when the installation's setting applies. */
export async function findRetention(db: Queryable, projectId: string): Promise<Retention> {
  const [row] = await db.query<Retention>(FIND_RETENTION, [projectId]);
  return row ?? { contentH: null, metadataH: null };
}

const SET_RETENTION = `
update projects set retention_content_h = $2, retention_metadata_h = $3 where id = $1`;

export async function setRetention(
  db: Queryable,
  { projectId, contentH, metadataH }: ProjectRetention,
): Promise<void> {
  await db.query(SET_RETENTION, [projectId, contentH, metadataH]);
}

const FIND_TO_TRIM = `
select id as "projectId", least(retention_content_h, $1::int) as "contentH",
       least(retention_metadata_h, $2::int) as "metadataH"
  from projects
 where retention_content_h < coalesce($1, 2147483647)
    or retention_metadata_h < coalesce($2, 2147483647)
    or least($1, $2) < $3::int
 order by id`;

/** For a shorter retention whole weeks (week-removal-store.ts) are too coarse, so every project is trimmed. */
export const SHORT_RETENTION_H = 14 * 24;

/** Returns the projects with a shorter retention than the installation, each with its effective retention. */
export function listProjectsToTrim(db: Queryable, longest: Retention): Promise<ProjectRetention[]> {
  return db.query<ProjectRetention>(FIND_TO_TRIM, [
    longest.contentH,
    longest.metadataH,
    SHORT_RETENTION_H,
  ]);
}

/** One batch: up to BATCH objects were checked, and the ended ones were deleted. */
export type TrimmedBatch = {
  table: 'contents' | 'emails' | 'events' | 'deliveries';
  removed: number;
};

const BATCH = 500;

/** Deletes a project's data past its retention. The caller pauses between batches. */
export async function* trimProject(
  db: Queryable,
  { projectId, contentH, metadataH }: ProjectRetention,
): AsyncGenerator<TrimmedBatch> {
  if (contentH !== null) {
    const before = await readIdBefore(db, contentH);
    yield* trimInSteps('contents', (after) =>
      runTrim(db, TRIM_CONTENTS, [projectId, after, before]),
    );
  }
  if (metadataH === null) return;
  await db.query(NOTE_REMOVAL, [projectId, metadataH]);
  const before = await readIdBefore(db, metadataH);
  for (const environment of ['live', 'test']) {
    yield* trimInSteps('emails', (after) =>
      runTrim(db, TRIM_EMAILS, [projectId, after, before, environment]),
    );
  }
  yield* trimInSteps('events', (after) => runTrim(db, TRIM_EVENTS, [projectId, after, before]));
  for (let endpoint = await findNextEndpoint(db, projectId, NO_ID); endpoint !== null;) {
    const id = endpoint;
    yield* trimInSteps('deliveries', (after) =>
      runTrim(db, TRIM_DELIVERIES, [projectId, after, before, id]),
    );
    endpoint = await findNextEndpoint(db, projectId, id);
  }
}

// Stored before the removal, for the daily reconciliation (reconciliation/reconciliation-store.ts). Whole hours make
// writes rare.
const NOTE_REMOVAL = `
update projects set mail_removed_before = noted.before
  from (select date_trunc('hour', app_now() - ($2::int - 1) * interval '1 hour') as before) noted
 where projects.id = $1 and coalesce(projects.mail_removed_before < noted.before, true)`;

export const NO_ID = '00000000-0000-0000-0000-000000000000';

type Batch = { checked: number; removed: number; last: string | null };

/** Steps through the old ids. Skips objects that cannot be deleted yet; the next run tries them again. */
async function* trimInSteps(
  what: TrimmedBatch['table'],
  step: (after: string) => Promise<Batch>,
): AsyncGenerator<TrimmedBatch> {
  for (let after: string | null = NO_ID; after !== null;) {
    const { checked, removed, last }: Batch = await step(after);
    if (checked > 0) yield { table: what, removed };
    after = checked === BATCH ? last : null;
  }
}

async function runTrim(db: Queryable, sql: string, values: readonly unknown[]): Promise<Batch> {
  const [row] = await db.query<Omit<Batch, 'checked'> & { looked: number }>(sql, values);
  return { checked: row?.looked ?? 0, removed: row?.removed ?? 0, last: row?.last ?? null };
}

// The statements have these parameters: $1 is the project, $2 and $3 are the range of ids. They skip rows that
// another transaction has locked; the next run deletes them. Look-ups are scalar with a limit: one index probe per
// id. A join would read all emails of the project.
const RESULT = `
select (select count(*) from old)::int as looked, (select count(*) from gone)::int as removed,
       (select id from old order by id desc limit 1) as last`;

const TRIM_CONTENTS = `
with old as materialized (
  select contents.email_id as id from contents
   where contents.project_id = $1 and contents.email_id > $2 and contents.email_id < $3
   order by contents.email_id limit ${BATCH}
),
ended as materialized (
  select old.id from old
   where (select queue.email_id from queue
           where queue.project_id = $1 and queue.email_id = old.id limit 1) is null
     and (select emails.id from emails
           where emails.project_id = $1 and emails.environment in ('live', 'test') and emails.id = old.id
             and emails.open_count > 0 limit 1) is null
),
gone as (
  delete from contents
   where project_id = $1 and email_id = any(array(select id from ended)) returning 1
)${RESULT}`;

const TRIM_EMAILS = `
with old as materialized (
  select emails.id, emails.open_count from emails
   where emails.project_id = $1 and emails.environment = $4 and emails.id > $2 and emails.id < $3
   order by emails.id limit ${BATCH}
),
ended as materialized (
  select old.id from old
   where old.open_count = 0
     and (select queued.email_id from queue queued
           where queued.project_id = $1 and queued.email_id = old.id limit 1) is null
     and (select events.id from events
           cross join lateral (
              select from webhook_queue queued
               where queued.project_id = $1 and queued.event_id = events.id limit 1) queued
           where events.project_id = $1 and events.subject_id = old.id limit 1) is null
),
locked as materialized (
  select emails.id from emails
   where emails.project_id = $1 and emails.environment = $4 and emails.id = any(array(select id from ended))
     for update skip locked
),
contents_gone as (
  delete from contents where project_id = $1 and email_id = any(array(select id from locked))
),
recipients_gone as (
  delete from recipients where project_id = $1 and email_id = any(array(select id from locked))
),
events_gone as (
  delete from events where project_id = $1 and subject_id = any(array(select id from locked))
),
gone as (
  delete from emails
   where project_id = $1 and environment = $4 and id = any(array(select id from locked)) returning 1
)${RESULT}`;

// Events of domains and suppressions. An event of an email is kept as long as its email.
const TRIM_EVENTS = `
with old as materialized (
  select distinct on (events.subject_id) events.subject_id as id, events.id as event_id from events
   where events.project_id = $1 and events.subject_id > $2 and events.subject_id < $3
   order by events.subject_id limit ${BATCH}
),
ended as materialized (
  select old.id from old
   where (select webhook_queue.event_id from webhook_queue
           where webhook_queue.project_id = $1 and webhook_queue.event_id = old.event_id limit 1) is null
     and (select emails.id from emails
           where emails.project_id = $1 and emails.environment in ('live', 'test')
             and emails.id = old.id limit 1)
         is null
),
gone as (
  delete from events
   where project_id = $1 and subject_id = any(array(select id from ended)) returning 1
)${RESULT}`;

const TRIM_DELIVERIES = `
with old as materialized (
  select webhook_deliveries.event_id as id from webhook_deliveries
   where webhook_deliveries.project_id = $1 and webhook_deliveries.endpoint_id = $4
     and webhook_deliveries.event_id > $2 and webhook_deliveries.event_id < $3
   order by webhook_deliveries.event_id limit ${BATCH}
),
ended as materialized (
  select old.id from old
   where (select webhook_queue.event_id from webhook_queue
           where webhook_queue.project_id = $1 and webhook_queue.event_id = old.id
             and webhook_queue.endpoint_id = $4 limit 1) is null
),
gone as (
  delete from webhook_deliveries
   where project_id = $1 and endpoint_id = $4 and event_id = any(array(select id from ended))
  returning 1
)${RESULT}`;

// Finds endpoints through their deliveries, so deleted endpoints are included.
const NEXT_ENDPOINT = `
select endpoint_id as id from webhook_deliveries
 where project_id = $1 and endpoint_id > $2 order by endpoint_id limit 1`;

async function findNextEndpoint(
  db: Queryable,
  projectId: string,
  after: string,
): Promise<string | null> {
  const [row] = await db.query<{ id: string }>(NEXT_ENDPOINT, [projectId, after]);
  return row?.id ?? null;
}

/** Limit per endpoint: older deliveries that have ended are deleted, whatever the retention. */
const WEBHOOK_LOG_MAX = 1_000_000;
/** Logs per batch: counting a long one takes about half a second. */
const LOGS_BATCH = 10;

// `oldestKept` is null for a log that is short enough.
const FIND_LOGS = `
select endpoint.project_id as "projectId", endpoint.id as "endpointId",
       (select webhook_deliveries.event_id from webhook_deliveries
         where webhook_deliveries.project_id = endpoint.project_id
           and webhook_deliveries.endpoint_id = endpoint.id
         order by webhook_deliveries.event_id desc offset $3 - 1 limit 1) as "oldestKept"
  from (select project_id, id from webhook_endpoints
         where (project_id, id) > ($1, $2) order by project_id, id limit ${LOGS_BATCH}) endpoint
 order by 1, 2`;

type WebhookLog = { projectId: string; endpointId: string; oldestKept: string | null };

/** Shortens the logs of webhook endpoints to their newest deliveries, in batches like trimProject. */
export async function* trimLogs(
  db: Queryable,
  deliveriesMax = WEBHOOK_LOG_MAX,
): AsyncGenerator<TrimmedBatch> {
  let last: Pick<WebhookLog, 'projectId' | 'endpointId'> | undefined = {
    projectId: NO_ID,
    endpointId: NO_ID,
  };
  while (last !== undefined) {
    const logs: WebhookLog[] = await db.query<WebhookLog>(FIND_LOGS, [
      last.projectId,
      last.endpointId,
      deliveriesMax,
    ]);
    for (const { projectId, endpointId, oldestKept } of logs) {
      if (oldestKept === null) continue;
      yield* trimInSteps('deliveries', (after) =>
        runTrim(db, TRIM_DELIVERIES, [projectId, after, oldestKept, endpointId]),
      );
    }
    last = logs.length < LOGS_BATCH ? undefined : logs.at(-1);
  }
}

const EXPIRED_BATCH = 5_000;

const deleteExpiredIdempotencyKeys = batchDelete('idempotency', 'expires_at <= app_now()');

/** Each room exports the function that deletes its own expired rows. */
const EXPIRING = [
  deleteExpiredIdempotencyKeys,
  deleteOldTlsResults,
  deleteOldReputation,
  deleteOldQuotaFailures,
  deleteOldHistory,
  deleteEndedKeys,
  deleteOldOperatorMail,
  deleteOldNotices,
  deleteOldReplays,
  deleteOldReports,
  deleteOldDmarcReports,
  deleteOldRequests,
  deleteOldApiRequests,
  deleteOldStats,
  deleteExpiredSessions,
  deleteExpiredLinks,
  deleteOldAuditEvents,
  deleteExpiredInvitations,
  deleteExpiredChallenges,
];

export async function deleteExpired(db: Queryable): Promise<void> {
  await purgeAuthWindows(db);
  for (const deleteBatchOf of EXPIRING)
    while ((await deleteBatchOf(db, EXPIRED_BATCH)) >= EXPIRED_BATCH);
}
