/**
 * Guards the removal of old data (week-removal-store.ts, retention-store.ts) against a wrong clock and a wrong
 * setting.
 *
 * - If the database clock has moved by more than a day since the last run, nothing is removed until it has been
 *   steady for a day. A clock that is a year ahead for some minutes therefore removes nothing. A service that was
 *   stopped for a week removes one day later.
 * - In a day at most a tenth of the stored weeks is removed, and at least one. Normally one week becomes due each
 *   week.
 *
 * `letterhaus retention confirm` lifts both limits for an hour.
 */
import type { Queryable } from '../database/database.ts';

/** The last clock jump within a day, which pauses the removal. */
export type RemovalPause = { since: Date; until: Date; movedS: number };

const PAUSE_JSON = `case when held_since is null then null else json_build_object(
  'since', held_since, 'until', held_since + interval '1 day', 'movedS', moved_s) end as pause`;

const NOTE_RUN = `
update retention_clock
   set held_since = case when abs(extract(epoch from app_now() - ran_at)) > 86400 then app_now()
                         when app_now() - held_since >= interval '1 day' then null
                         else held_since end,
       moved_s = case when abs(extract(epoch from app_now() - ran_at)) > 86400
                      then extract(epoch from app_now() - ran_at) else moved_s end,
       ran_at = app_now()
returning ${PAUSE_JSON}`;

type PauseRow = { pause: { since: string; until: string; movedS: number } | null };

/** Called before each removal. @returns why nothing may be removed, or null */
export async function beginRun(db: Queryable): Promise<RemovalPause | null> {
  const [row] = await db.query<PauseRow>(NOTE_RUN);
  return parsePause(row);
}

function parsePause(row: PauseRow | undefined): RemovalPause | null {
  if (!row?.pause) return null;
  const { since, until, movedS } = row.pause;
  return { since: new Date(since), until: new Date(until), movedS };
}

const CONFIRM = `
update retention_clock
   set ran_at = app_now(), held_since = null, confirmed_until = app_now() + interval '1 hour'`;

/** Lets the runs of the next hour remove everything that is due. */
export async function confirmRemoval(db: Queryable): Promise<void> {
  await db.query(CONFIRM);
}

export type Allowance = { isConfirmed: boolean; spent: number };

const IS_SAME_DAY = `coalesce(spent_since between app_now() - interval '1 day' and app_now(), false)`;

const READ_ALLOWANCE = `
select coalesce(confirmed_until > app_now(), false) as "isConfirmed",
       case when ${IS_SAME_DAY} then spent else 0 end as spent
  from retention_clock`;

export async function readAllowance(db: Queryable): Promise<Allowance> {
  const [row] = await db.query<Allowance>(READ_ALLOWANCE);
  return row ?? { isConfirmed: false, spent: 0 };
}

/** Returns the number of weeks with data that may still be removed today. */
export function maxWeeksToRemove(storedWeeks: number, { isConfirmed, spent }: Allowance): number {
  if (isConfirmed) return Infinity;
  return Math.max(0, Math.max(1, Math.floor(storedWeeks / 10)) - spent);
}

const NOTE_SPENT = `
update retention_clock
   set spent = case when ${IS_SAME_DAY} then spent + 1 else 1 end,
       spent_since = case when ${IS_SAME_DAY} then spent_since else app_now() end`;

export async function countRemovedWeek(db: Queryable): Promise<void> {
  await db.query(NOTE_SPENT);
}

/** @param waiting the first days of weeks */
export async function saveWaitingWeeks(db: Queryable, waiting: readonly string[]): Promise<void> {
  await db.query('update retention_clock set waiting = $1 where waiting <> $1', [waiting]);
}

export type RetentionState = { ranAt: Date | null; pause: RemovalPause | null; waiting: string[] };

const READ_STATE = `select ran_at as "ranAt", waiting, ${PAUSE_JSON} from retention_clock`;

export async function readRetentionState(db: Queryable): Promise<RetentionState> {
  type Row = { ranAt: Date | null; waiting: string[] } & PauseRow;
  const [row] = await db.query<Row>(READ_STATE);
  return { ranAt: row?.ranAt ?? null, waiting: row?.waiting ?? [], pause: parsePause(row) };
}
