/**
 * An installation on hold: after a restore it accepts mail, but sends no mail and no webhooks until an operator
 * releases it.
 *
 * The lost machine continued after the snapshot. It may have sent to recipients that were due at the restore, so they
 * are marked `in_doubt`. It cannot have sent to recipients that are due later or were accepted since. A release may
 * keep the mail in doubt on hold in the queue, where an operator releases or drops it. Workers read the state at their
 * start, and send when they are notified (backup/running/hold-watch.ts).
 */
import type { Environment } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import type { SnapshotFacts } from './snapshot.ts';

/** The migration that added the hold. Older code would send. */
const SCHEMA_WITH_HOLD = 48;

const RELEASE_CLAIMS = `
update queue
   set in_doubt = in_doubt or holder is not null or due_at <= app_now(), holder = null,
       last_instance = null
 where holder is not null or due_at <= app_now()`;

const RELEASE_WEBHOOKS = `update webhook_queue set holder = null where holder is not null`;

/** Another database system counts its transactions independently (events/order-store.ts). */
const SET_ON_HOLD = `
update installation
   set on_hold_since = app_now(), backup_taken_at = $1::timestamptz, xact_era = xact_era + 1,
       system_id = nullif(split_part(database_history(), '/', 1), ''),
       schema_required = greatest(schema_required, ${SCHEMA_WITH_HOLD})
returning xact_era as epoch`;

/** Takes over the rows of a lost installation, in the transaction of the restore. */
export async function putOnHold(
  db: Queryable,
  { takenAt }: Pick<SnapshotFacts, 'takenAt'>,
): Promise<void> {
  await db.query(RELEASE_CLAIMS);
  await db.query(RELEASE_WEBHOOKS);
  const [row] = await db.query<{ epoch: number }>(SET_ON_HOLD, [takenAt]);
  await db.query(`alter table events alter column xact_era set default ${row!.epoch}`);
}

/**
 * Does the same for a database that was recovered to a point in time. It also deletes the rows of running machines,
 * which a backup does not contain.
 */
export async function putRecoveredOnHold(db: Queryable, takenAt: string): Promise<void> {
  await db.query('begin');
  await putOnHold(db, { takenAt });
  for (const table of ['mail_hosts', 'providers', 'nodes']) await db.query(`delete from ${table}`);
  await db.query('commit');
}

const COUNT_MAIL = `
select (select count(*)::int from emails) as emails, (select count(*)::int from queue) as open`;

export async function countMail(db: Queryable): Promise<{ emails: number; open: number }> {
  const [row] = await db.query<{ emails: number; open: number }>(COUNT_MAIL);
  return row!;
}

/** Returns the start of the hold; null when the installation is not on hold. */
export async function readHold(db: Queryable): Promise<Hold | null> {
  const [row] = await db.query<Hold | { since: null }>(
    `select on_hold_since as since, backup_taken_at as "backupTakenAt" from installation`,
  );
  return row === undefined || row.since === null ? null : row;
}

export type Hold = { since: Date; backupTakenAt: Date | null };

export type MailOnHold = {
  projectId: string;
  project: string;
  environment: Environment;
  /** Recipients that the lost machine may have sent to. */
  inDoubt: number;
  /** Recipients that it cannot have sent to: due later, or accepted since the restore. */
  unsent: number;
  /** Recipients put on hold by an operator or a paused domain. A release does not send these. */
  onHold: number;
};

const COUNT_ON_HOLD = `
select queue.project_id as "projectId", projects.name as project, queue.environment,
       (count(*) filter (where queue.in_doubt and not queue.held))::int as "inDoubt",
       (count(*) filter (where not queue.in_doubt and not queue.held))::int as unsent,
       (count(*) filter (where queue.held))::int as "onHold"
  from queue join projects on projects.id = queue.project_id
 group by 1, 2, 3
 order by projects.name, queue.environment`;

export function countMailOnHold(db: Queryable): Promise<MailOnHold[]> {
  return db.query<MailOnHold>(COUNT_ON_HOLD);
}

export async function countWebhooksOnHold(db: Queryable): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    'select count(*)::int as count from webhook_queue',
  );
  return row?.count ?? 0;
}

export type MailInDoubt = { emailId: string; to: string; dueAt: Date; attempts: number };

const LIST_IN_DOUBT = `
select queue.email_id as "emailId", recipients.address as to, queue.due_at as "dueAt", queue.attempts
  from queue
  join recipients on recipients.project_id = queue.project_id and recipients.email_id = queue.email_id
                   and recipients.position = queue.position
 where queue.in_doubt and not queue.held
 order by queue.email_id, queue.position
 limit $1`;

export function listMailInDoubt(db: Queryable, limit: number): Promise<MailInDoubt[]> {
  return db.query<MailInDoubt>(LIST_IN_DOUBT, [limit]);
}

const KEEP_IN_DOUBT = `
update queue
   set held = true, due_at = emails.expires_at
  from emails
 where queue.in_doubt and not queue.held and queue.holder is null
   and emails.project_id = queue.project_id and emails.environment = queue.environment
   and emails.id = queue.email_id`;

/**
 * Ends the hold, in the transaction of the caller. Nodes notice within seconds.
 * @returns false when it had ended before
 */
export async function endHold(
  tx: Queryable,
  { exceptInDoubt }: { exceptInDoubt: boolean },
): Promise<boolean> {
  const [installation] = await tx.query<{ since: Date | null }>(
    'select on_hold_since as since from installation for update',
  );
  if (installation?.since == null) return false;
  // A queue of a million recipients takes longer than the default limit.
  await tx.query(`set local statement_timeout = '10min'`);
  if (exceptInDoubt) await tx.query(KEEP_IN_DOUBT);
  await tx.query('update installation set on_hold_since = null');
  return true;
}
