/**
 * Changes waiting mail for operators: retry, hold, release and removal.
 *
 * A change walks over the queue's key in steps, project by project, so that no statement is long. Rows that a worker
 * has leased are not changed, because an SMTP transaction cannot be undone. A retry asks those workers to compare
 * their claims with their memory (database/leased-queue.ts), and frees rows whose worker no longer exists. Mail on
 * hold is not claimed, but becomes due when it expires, so that it always ends. A paused domain does not put released
 * mail on hold again. No change makes scheduled mail due before its time.
 *
 * A drop that can be undone (drop-store.ts) marks its mail and puts it on hold; its undo restores the state before.
 */
import type { Environment } from '../../core/scope.ts';
import type { Address } from '../../mail/address.ts';
import type { Queryable } from '../../database/database.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';
import { IS_FREE } from '../queue/queue-store.ts';

export type QueueChange = 'retry' | 'hold' | 'release';

/** Fields that are null match everything. */
export type QueueSelector = {
  emailId: string | null;
  domain: string | null;
  provider: string | null;
  projectId: string | null;
  environment: Environment | null;
  organizationId: string | null;
  dropId: string | null;
  /** Matches mail that was accepted no later than this email. */
  lastEmailId: string | null;
};

export const WHOLE_QUEUE: QueueSelector = {
  emailId: null,
  domain: null,
  provider: null,
  projectId: null,
  environment: null,
  organizationId: null,
  dropId: null,
  lastEmailId: null,
};

export type QueueStep = {
  /** Matching recipients. A worker has claimed `busy` of them, and `changed` were changed. */
  found: number;
  busy: number;
  changed: number;
  /** Start of the next step, or null when this was the last one. */
  next: QueueCursor | null;
};

export type QueueCursor = { projectId: string; emailId: string; position: number };

const NO_ID = '00000000-0000-0000-0000-000000000000';
export const QUEUE_START: QueueCursor = { projectId: NO_ID, emailId: NO_ID, position: -1 };

const STEP_ROWS = 2_000;

/** At most `rows` rows after `from…` that match the selector. `ownId` follows: the drop, or the lease that claims. */
const PARAMETERS = namedParameters([
  'fromProjectId',
  'fromEmailId',
  'fromPosition',
  'rows',
  'projectId',
  'emailId',
  'lastEmailId',
  'domain',
  'provider',
  'environment',
  'organizationId',
  'dropId',
]);
const P = { ...PARAMETERS.sql, ownId: `$${Object.keys(PARAMETERS.sql).length + 1}` };

// Without a project, the email is searched by its key in each project.
const SEEN = `
seen as materialized (
  select queue.project_id, queue.email_id, queue.position, queue.environment, queue.destination,
         queue.provider, queue.holder,
         queue.held, queue.due_at, queue.drop_id
    from queue
   where (queue.project_id, queue.email_id, queue.position)
         > (${P.fromProjectId}::uuid, ${P.fromEmailId}::uuid, ${P.fromPosition}::smallint)
     and queue.project_id <= coalesce(${P.projectId}::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
     and (${P.emailId}::uuid is null
          or queue.email_id = ${P.emailId}
             and queue.project_id = any(array(
               select projects.id from projects
                where ${P.projectId}::uuid is null or projects.id = ${P.projectId})))
   order by queue.project_id, queue.email_id, queue.position
   limit ${P.rows}
),
found as materialized (
  select * from seen
   where (${P.lastEmailId}::uuid is null or email_id <= ${P.lastEmailId})
     and (${P.domain}::text is null or destination = ${P.domain})
     and (${P.provider}::text is null or provider = ${P.provider})
     and (${P.environment}::text is null or environment = ${P.environment})
     and (${P.organizationId}::uuid is null
          or project_id in (select projects.id from projects
                             where projects.organization_id = ${P.organizationId}))
     and (${P.dropId}::uuid is null or drop_id = ${P.dropId} and held)
)`;

const LAST_FIRST = 'project_id desc, email_id desc, position desc';

const PROGRESS = `
select (select count(*) from found)::int as found,
       (select count(*) from found where holder is not null)::int as busy,
       (select count(*) from changed)::int as changed, count(*)::int as seen,
       (array_agg(project_id order by ${LAST_FIRST}))[1] as "projectId",
       (array_agg(email_id order by ${LAST_FIRST}))[1] as "emailId",
       (array_agg(position order by ${LAST_FIRST}))[1] as position
  from seen`;

/** `mark` and `restore` belong to a drop that can be undone; `ownId` is its id. */
export type MarkChange = 'mark' | 'restore';

/** At most 50 s ago, because claims would not find older rows (DUE_BY_AGE in delivery/queue/queue-store.ts). */
const DUE_AS_BEFORE = `greatest(queue.due_before, app_now() - interval '50 seconds', emails.scheduled_at)`;

const CHANGES: Readonly<Record<QueueChange | MarkChange, ChangeSql>> = {
  retry: {
    set: 'holder = null, in_doubt = queue.in_doubt or queue.holder is not null, due_at = app_now()',
    where: `(queue.holder is null and not queue.held and queue.due_at > app_now()
               and coalesce(emails.scheduled_at <= app_now(), true)
             or queue.holder is not null and not exists (select from nodes where nodes.id = queue.holder))`,
  },
  hold: { set: 'held = true, due_at = emails.expires_at', where: `${IS_FREE} and not queue.held` },
  release: {
    set: `held = false, passes_pause = true, due_at = greatest(app_now(), emails.scheduled_at),
          drop_id = null, due_before = null`,
    where: `${IS_FREE} and queue.held`,
  },
  mark: {
    set: `held = true, due_at = emails.expires_at, drop_id = ${P.ownId}::uuid,
          due_before = case when queue.held then null else queue.due_at end`,
    where: `${IS_FREE} and queue.drop_id is null`,
  },
  restore: {
    set: `held = queue.due_before is null, drop_id = null, due_before = null,
          due_at = case when queue.due_before is null then queue.due_at else ${DUE_AS_BEFORE} end`,
    where: `${IS_FREE} and queue.drop_id = ${P.ownId}::uuid`,
  },
};

/** Makes the worker of each row compare its claims with its memory at its next heartbeat. */
const ASK_HOLDERS = `,
asked as (
  update nodes set checks_asked = checks_asked + 1
   where id = any(array(select distinct holder from found where holder is not null))
)`;

type ChangeSql = { set: string; where: string };

function changeStatement({ set, where }: ChangeSql, furtherStep = ''): string {
  return `with${SEEN},
changed as (
  update queue set ${set}
    from found
   cross join lateral (
      select emails.scheduled_at, emails.expires_at from emails
       where emails.project_id = found.project_id and emails.environment = found.environment
         and emails.id = found.email_id
       limit 1) emails
   where queue.project_id = found.project_id and queue.email_id = found.email_id
     and queue.position = found.position
     and ${where}
  returning 1
)${furtherStep}${PROGRESS}`;
}

const CHANGE_STEPS: Readonly<Record<QueueChange | MarkChange, string>> = {
  retry: changeStatement(CHANGES.retry, ASK_HOLDERS),
  hold: changeStatement(CHANGES.hold),
  release: changeStatement(CHANGES.release),
  mark: changeStatement(CHANGES.mark),
  restore: changeStatement(CHANGES.restore),
};

type StepRow = { found: number; busy: number; changed: number; seen: number } & QueueCursor;

type StepRequest = { selector: QueueSelector; from: QueueCursor };

export async function changeQueueStep(
  db: Queryable,
  change: QueueChange,
  { selector, from }: StepRequest,
): Promise<QueueStep> {
  const [row] = await db.query<StepRow>(CHANGE_STEPS[change], valuesOf(selector, from, STEP_ROWS));
  return stepOf(row!);
}

/** Marks the matching rows of the next step for a drop and puts them on hold, or restores marked rows. */
export async function markQueueStep(
  db: Queryable,
  change: MarkChange,
  { dropId, selector, from }: StepRequest & { dropId: string },
): Promise<QueueStep> {
  const values = [...valuesOf(selector, from, STEP_ROWS), dropId];
  const [row] = await db.query<StepRow>(CHANGE_STEPS[change], values);
  return stepOf(row!);
}

type ClaimedForDrop = {
  projectId: string;
  environment: Environment;
  emailId: string;
  position: number;
  claim: number;
  attempts: number;
  provider: string;
  destination: string;
  address: Address;
};

const CLAIM_STEP = `with${SEEN},
changed as (
  update queue set holder = ${P.ownId}::uuid, claim = queue.claim + 1
    from found
   where queue.project_id = found.project_id and queue.email_id = found.email_id
     and queue.position = found.position
     and ${IS_FREE}
  returning queue.*
), progress as (${PROGRESS}
)
select progress.*, claims.taken
  from progress
  left join lateral (
    select json_agg(json_build_object(
             'projectId', changed.project_id, 'environment', changed.environment, 'emailId', changed.email_id,
             'position', changed.position, 'claim', changed.claim, 'attempts', changed.attempts, 'provider',
             changed.provider,
             'destination', changed.destination, 'address', recipients.address)) as taken
      from changed
     cross join lateral (
        select recipients.address from recipients
         where recipients.project_id = changed.project_id and recipients.email_id = changed.email_id
           and recipients.position = changed.position
         limit 1) recipients) claims on true`;

const CLAIM_STEP_ROWS = 200;

/** Claims the matching rows of the next step for `leaseId`, whose worker then settles them. */
export async function claimStep(
  db: Queryable,
  leaseId: string,
  { selector, from }: StepRequest,
): Promise<{ step: QueueStep; claimed: ClaimedForDrop[] }> {
  const values = [...valuesOf(selector, from, CLAIM_STEP_ROWS), leaseId];
  const [row] = await db.query<StepRow & { taken: ClaimedForDrop[] | null }>(CLAIM_STEP, values);
  return { step: stepOf(row!, CLAIM_STEP_ROWS), claimed: row!.taken ?? [] };
}

function valuesOf(selector: QueueSelector, from: QueueCursor, rows: number): unknown[] {
  const start = startOf(selector.projectId, from);
  return PARAMETERS.valuesOf({
    ...selector,
    fromProjectId: start.projectId,
    fromEmailId: start.emailId,
    fromPosition: start.position,
    rows,
  });
}

/** Skips to the first row of the project, so that rows of others are not read. */
function startOf(projectId: string | null, from: QueueCursor): QueueCursor {
  return projectId !== null && from.projectId < projectId ? { ...QUEUE_START, projectId } : from;
}

function stepOf({ found, busy, changed, seen, ...last }: StepRow, rows = STEP_ROWS): QueueStep {
  const { projectId, emailId, position } = last;
  return { found, busy, changed, next: seen < rows ? null : { projectId, emailId, position } };
}
