/**
 * Drops of waiting mail that can be undone for a minute.
 *
 * A drop is a row. Its mail is marked with its id and held at once, step by step; when its time has come and
 * all is marked, what is still marked is removed (delivery/queue-control/drop.ts). To undo it restores what was
 * before the mark. The row is deleted last, so whoever goes on after a crash begins where it ended: a mark, a
 * restoration and a removal of the same mail may be repeated. A step of marking and an undo lock the row, so
 * that nothing is marked after the undo.
 *
 * Only what is marked is dropped: not what was accepted since, and not what an operator has released since.
 */
import type { Environment } from '../../core/scope.ts';
import type { Database, Queryable } from '../../database/database.ts';
import {
  markQueueStep,
  QUEUE_START,
  type QueuePlace,
  type QueueSelector,
  type QueueStep,
  WHOLE_QUEUE,
} from './change-store.ts';

/** From the request on. */
export const UNDO_S = 60;

export type QueueDrop = {
  id: string;
  organizationId: string;
  /** null: all of the organization. */
  projectId: string | null;
  /** null: both. */
  environment: Environment | null;
  emailId: string | null;
  domain: string | null;
  provider: string | null;
  lastEmailId: string;
  /** Recipients so far: that match, of these those that a worker holds, and those that are marked. */
  found: number;
  busy: number;
  marked: number;
  createdAt: Date;
  dropsAt: Date;
  undoneAt: Date | null;
  /** Its time has come. */
  isDue: boolean;
  /** Where the next step begins to mark; null: all is marked. */
  next: QueuePlace | null;
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

/** A place without its project is one of older code (migration 34): all is marked once more. */
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

// The newest email of its projects in the queue bounds the drop; ids would do so only as far as clocks
// agree.
const CREATE = `
insert into queue_drops (id, organization_id, project_id, environment, email_id, destination, provider,
                         last_email_id, next_project_id, next_email_id, next_position, created_at,
                         drops_at)
select $1, $2::uuid, $3::uuid, $4, $5, $6, $7,
       coalesce((select newest.email_id
                   from projects p
                  cross join lateral (
                     select q.email_id from queue q where q.project_id = p.id
                      order by q.email_id desc limit 1) newest
                  where p.organization_id = $2 and ($3::uuid is null or p.id = $3)
                  order by newest.email_id desc limit 1), $9::uuid),
       $8, $9, $10, t.now, t.now + interval '${UNDO_S} seconds'
  from (select app_now() as now) t
returning ${COLUMNS}`;

/** Nothing is marked yet. */
export async function createDrop(db: Queryable, drop: NewDrop): Promise<QueueDrop> {
  const { id, organizationId, projectId, environment, emailId, domain, provider } = drop;
  const what = [id, organizationId, projectId, environment, emailId, domain, provider];
  const from = [QUEUE_START.projectId, QUEUE_START.emailId, QUEUE_START.position];
  const [row] = await db.query<Row>(CREATE, [...what, ...from]);
  return dropOf(row!);
}

const LOCK = `select ${COLUMNS} from queue_drops where id = $1 for update`;

const NOTE_STEP = `
update queue_drops set next_project_id = $2, next_email_id = $3, next_position = $4,
       found = found + $5, busy = busy + $6, marked = marked + $7
 where id = $1
returning ${COLUMNS}`;

/** Marks a part of the mail. @returns the drop as it is then; null: it was undone or carried out */
export function markDropStep(
  db: Pick<Database, 'transaction'>,
  id: string,
): Promise<QueueDrop | null> {
  return db.transaction(async (tx) => {
    const [row] = await tx.query<Row>(LOCK, [id]);
    if (!row || row.undoneAt !== null) return null;
    const drop = dropOf(row);
    if (drop.next === null) return drop;
    const part = { dropId: id, selector: selectorOf(drop), from: drop.next };
    const { next, found, busy, changed } = await markQueueStep(tx, 'mark', part);
    const place = [next?.projectId ?? null, next?.emailId ?? null, next?.position ?? null];
    const [noted] = await tx.query<Row>(NOTE_STEP, [id, ...place, found, busy, changed]);
    return dropOf(noted!);
  });
}

function selectorOf(drop: QueueDrop): QueueSelector {
  const { emailId, domain, provider, projectId, environment, organizationId, lastEmailId } = drop;
  const what = { emailId, domain, provider, lastEmailId };
  return { ...WHOLE_QUEUE, ...what, projectId, environment, organizationId };
}

/** The mail that is dropped at the end. */
export function markedBy({ id, lastEmailId, projectId, emailId }: QueueDrop): QueueSelector {
  return { ...WHOLE_QUEUE, dropId: id, lastEmailId, projectId, emailId };
}

/** The caller's. */
export type DropOwner = { organizationId: string; projectId: string | null };

const UNDO = `
update queue_drops
   set undone_at = case when drops_at > app_now() then coalesce(undone_at, app_now()) else undone_at end
 where id = $1 and organization_id = $2 and ($3::uuid is null or project_id = $3)
   and ($4::text is null or environment = $4)
returning ${COLUMNS}`;

/**
 * From now on nothing more is marked or dropped; `restoreStep` restores what is marked. With a project and an
 * environment only drops of these.
 * @returns null: there is no such drop, or it was carried out; without `undoneAt`: it is too late
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

export function restoreStep(db: Queryable, drop: QueueDrop, from: QueuePlace): Promise<QueueStep> {
  return markQueueStep(db, 'restore', { dropId: drop.id, selector: markedBy(drop), from });
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
 * Those that can still be undone, newest first; with a project and an environment only theirs, and for a member
 * those of the whole organization.
 */
export async function listDrops(
  db: Queryable,
  owner: DropOwner & { environment: Environment | null; isMember: boolean },
): Promise<QueueDrop[]> {
  const { organizationId, projectId, environment, isMember } = owner;
  const values = [organizationId, projectId, environment, isMember];
  return (await db.query<Row>(LIST, values)).map(dropOf);
}

const TO_DO = `
select ${COLUMNS} from queue_drops
 where undone_at is not null or next_email_id is not null or drops_at <= app_now()
 order by id
 limit 100`;

/** What maintenance goes on with: undone ones, and those that are not all marked or whose time has come. */
export async function dropsToDo(db: Queryable): Promise<QueueDrop[]> {
  return (await db.query<Row>(TO_DO)).map(dropOf);
}
