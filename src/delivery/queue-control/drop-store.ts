/**
 * Stores drops of waiting mail, which can be undone for a minute.
 *
 * A drop is a row. Steps mark its mail with its id and put the mail on hold. After its time, when all is marked, the
 * mail that still has the mark is removed (delivery/queue-control/drop.ts). An undo restores the state before the
 * mark. Each step may be repeated, and the row is deleted last, so after a crash another process continues. Steps and
 * undo lock the row, so nothing is marked after the undo.
 *
 * Only marked mail is dropped: neither mail that was accepted later, nor mail that an operator has released.
 */
import type { Environment } from '../../core/scope.ts';
import type { Database, Queryable } from '../../database/database.ts';
import {
  markQueueStep,
  QUEUE_START,
  type QueueCursor,
  type QueueSelector,
  type QueueStep,
  WHOLE_QUEUE,
} from './change-store.ts';

export const UNDO_S = 60;

export type QueueDrop = {
  id: string;
  organizationId: string;
  /** null: all projects of the organization. */
  projectId: string | null;
  environment: Environment | null;
  emailId: string | null;
  domain: string | null;
  provider: string | null;
  lastEmailId: string;
  /** Recipients so far: matching ones, how many of them a worker has leased, and marked ones. */
  found: number;
  busy: number;
  marked: number;
  createdAt: Date;
  dropsAt: Date;
  undoneAt: Date | null;
  isDue: boolean;
  /** Start of the next step, or null when all is marked. */
  next: QueueCursor | null;
};

type Row = Omit<QueueDrop, 'next'> & {
  nextProjectId: string | null;
  nextEmailId: string | null;
  nextPosition: number | null;
};

const COLUMNS = `
  id, organization_id as "organizationId", project_id as "projectId", environment,
  email_id as "emailId", destination as domain, provider, last_email_id as "lastEmailId",
  found, busy, marked, created_at as "createdAt", drops_at as "dropsAt", undone_at as "undoneAt",
  drops_at <= app_now() as "isDue",
  next_project_id as "nextProjectId", next_email_id as "nextEmailId", next_position as "nextPosition"`;

/** Reads a row. A cursor without a project was stored by an older version (migration 34), so marking starts again. */
function dropOf({ nextProjectId, nextEmailId, nextPosition, ...drop }: Row): QueueDrop {
  if (nextEmailId === null || nextPosition === null) return { ...drop, next: null };
  if (nextProjectId === null) return { ...drop, next: QUEUE_START };
  const next = { projectId: nextProjectId, emailId: nextEmailId, position: nextPosition };
  return { ...drop, next };
}

export type NewDrop = Pick<
  QueueDrop,
  'id' | 'organizationId' | 'projectId' | 'environment' | 'emailId' | 'domain' | 'provider'
>;

// The newest queued email of its projects bounds the drop. An id made here would exclude newer mail only if all
// clocks agree.
const CREATE = `
insert into queue_drops (id, organization_id, project_id, environment, email_id, destination, provider,
                         last_email_id, next_project_id, next_email_id, next_position, created_at,
                         drops_at)
select $1, $2::uuid, $3::uuid, $4, $5, $6, $7,
       coalesce((select newest.email_id
                   from projects
                  cross join lateral (
                     select queue.email_id from queue where queue.project_id = projects.id
                      order by queue.email_id desc limit 1) newest
                  where projects.organization_id = $2 and ($3::uuid is null or projects.id = $3)
                  order by newest.email_id desc limit 1), $9::uuid),
       $8, $9, $10, clock.now, clock.now + interval '${UNDO_S} seconds'
  from (select app_now() as now) clock
returning ${COLUMNS}`;

export async function createDrop(db: Queryable, drop: NewDrop): Promise<QueueDrop> {
  const { id, organizationId, projectId, environment, emailId, domain, provider } = drop;
  const selection = [id, organizationId, projectId, environment, emailId, domain, provider];
  const from = [QUEUE_START.projectId, QUEUE_START.emailId, QUEUE_START.position];
  const [row] = await db.query<Row>(CREATE, [...selection, ...from]);
  return dropOf(row!);
}

const LOCK = `select ${COLUMNS} from queue_drops where id = $1 for update`;

const SAVE_PROGRESS = `
update queue_drops set next_project_id = $2, next_email_id = $3, next_position = $4,
       found = found + $5, busy = busy + $6, marked = marked + $7
 where id = $1
returning ${COLUMNS}`;

/**
 * Marks one step of the mail.
 * @returns the drop after the step, or null when it was undone or carried out
 */
export function markDropStep(
  db: Pick<Database, 'transaction'>,
  id: string,
): Promise<QueueDrop | null> {
  return db.transaction(async (tx) => {
    const [row] = await tx.query<Row>(LOCK, [id]);
    if (!row || row.undoneAt !== null) return null;
    const drop = dropOf(row);
    if (drop.next === null) return drop;
    const step = { dropId: id, selector: selectorOf(drop), from: drop.next };
    const { next, found, busy, changed } = await markQueueStep(tx, 'mark', step);
    const cursor = [next?.projectId ?? null, next?.emailId ?? null, next?.position ?? null];
    const [saved] = await tx.query<Row>(SAVE_PROGRESS, [id, ...cursor, found, busy, changed]);
    return dropOf(saved!);
  });
}

function selectorOf(drop: QueueDrop): QueueSelector {
  const { emailId, domain, provider, projectId, environment, organizationId, lastEmailId } = drop;
  const selection = { emailId, domain, provider, lastEmailId };
  return { ...WHOLE_QUEUE, ...selection, projectId, environment, organizationId };
}

export function selectorOfMarked({
  id,
  lastEmailId,
  projectId,
  emailId,
}: QueueDrop): QueueSelector {
  return { ...WHOLE_QUEUE, dropId: id, lastEmailId, projectId, emailId };
}

export type DropOwner = { organizationId: string; projectId: string | null };

const UNDO = `
update queue_drops
   set undone_at = case when drops_at > app_now() then coalesce(undone_at, app_now()) else undone_at end
 where id = $1 and organization_id = $2 and ($3::uuid is null or project_id = $3)
   and ($4::text is null or environment = $4)
returning ${COLUMNS}`;

/**
 * Marks a drop as undone, so that nothing more is marked or dropped; `restoreStep` restores the marked mail. With a
 * project and an environment, only their own drops can be undone.
 * @returns null: the drop does not exist or was carried out; without `undoneAt`: its time is over
 */
export async function undoDrop(
  db: Queryable,
  id: string,
  owner: DropOwner & { environment: Environment | null },
): Promise<QueueDrop | null> {
  const values = [id, owner.organizationId, owner.projectId, owner.environment];
  const [row] = await db.query<Row>(UNDO, values);
  return row ? dropOf(row) : null;
}

export function restoreDropStep(
  db: Queryable,
  drop: QueueDrop,
  from: QueueCursor,
): Promise<QueueStep> {
  return markQueueStep(db, 'restore', { dropId: drop.id, selector: selectorOfMarked(drop), from });
}

export async function deleteDrop(db: Queryable, id: string): Promise<void> {
  await db.query('delete from queue_drops where id = $1', [id]);
}

const LIST = `
select ${COLUMNS} from queue_drops
 where organization_id = $1 and undone_at is null
   and ($2::uuid is null or project_id = $2 and environment = $3 or $4 and project_id is null)
 order by id desc
 limit 20`;

/**
 * Returns the drops that can still be undone, newest first. With a project and an environment these are only their
 * own; a member also gets those of the whole organization.
 */
export async function listUndoableDrops(
  db: Queryable,
  owner: DropOwner & { environment: Environment | null; isMember: boolean },
): Promise<QueueDrop[]> {
  const { organizationId, projectId, environment, isMember } = owner;
  const values = [organizationId, projectId, environment, isMember];
  return (await db.query<Row>(LIST, values)).map(dropOf);
}

const UNFINISHED = `
select ${COLUMNS} from queue_drops
 where undone_at is not null or next_email_id is not null or drops_at <= app_now()
 order by id
 limit 100`;

/** Returns the drops that maintenance continues: undone ones, partly marked ones, and those whose time is over. */
export async function listUnfinishedDrops(db: Queryable): Promise<QueueDrop[]> {
  return (await db.query<Row>(UNFINISHED)).map(dropOf);
}
