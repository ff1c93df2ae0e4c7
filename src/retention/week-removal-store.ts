/**
 * Removes weekly partitions (database/partitions.ts) that are past their retention.
 *
 * A week is removed once its newest email is as old as the retention. It stays while one of its emails has not ended or
 * one of its webhooks is pending. `drop` of an attached partition would wait for open readers and block the whole
 * table. So a partition is marked, detached `concurrently` and then dropped, each step in its own transaction. Any
 * machine completes an interrupted removal. A table without the mark is never dropped.
 */
import type { Retention } from '../core/retention.ts';
import { tryAdvisoryLock } from '../database/advisory-locks.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../database/database.ts';
import { firstUuidAt } from '../database/ids.ts';
import {
  firstDayOf,
  listPartitions,
  type Partition,
  type PartitionedTable,
  WEEK_MS,
  WEEKS_BEHIND,
} from '../database/partitions.ts';
import type { AbortOptions } from '../database/server/watched-session.ts';
import {
  countRemovedWeek,
  saveWaitingWeeks,
  readAllowance,
  maxWeeksToRemove,
} from './clock-store.ts';
import { HOUR_MS } from '../lib/units.ts';

type Removal = {
  removed: string[];
  /** Weeks that are due but were kept, each with the reason as a sentence. */
  kept: string[];
  /** First days of weeks that are due but wait, because so many are due at once (retention/clock-store.ts). */
  waiting: string[];
};

const MARK = 'letterhaus: past its retention, to be removed';
const LOCK_TIMEOUT_MS = 2_000;
/** Before a week is removed, all its emails are read to find one that has not ended. */
const STATEMENT_TIMEOUT_MS = 10 * 60_000;

/** Emails are removed first: from then on the week is invisible, even if the rest is interrupted. */
const METADATA: readonly PartitionedTable[] = ['emails', 'recipients', 'events', 'contents'];

/**
 * Removes the weeks that are past `retention` by the database's clock, at most a tenth of them in a day
 * (retention/clock-store.ts).
 * @returns null when another machine is removing
 * @throws when a reader holds a lock for more than 2 s; the next call completes the removal
 */
export async function removeOldPartitions(
  address: DatabaseAddress,
  retention: Retention,
  abortOptions: AbortOptions = {},
): Promise<Removal | null> {
  const client = await connectAsOwner(address, 'retention', abortOptions);
  const db = clientQueries(client);
  try {
    await client.query(`set lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await client.query(`set statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
    if (!(await tryAdvisoryLock(db, 'retention'))) return null;
    const finished = await finishRemovals(db);
    const removal = await removeDue(db, retention);
    await saveWaitingWeeks(db, removal.waiting);
    return { ...removal, removed: [...finished, ...removal.removed] };
  } finally {
    await client.end();
  }
}

const FIND_MARKED = `
select partition.relname as name, parent.relname as parent, coalesce(inhdetachpending, false) as pending
  from pg_class partition
  left join pg_inherits on pg_inherits.inhrelid = partition.oid
  left join pg_class parent on parent.oid = pg_inherits.inhparent
 where partition.relnamespace = current_schema()::regnamespace and partition.relkind = 'r'
   and obj_description(partition.oid, 'pg_class') = $1
   and (inhrelid is null or inhdetachpending)
 order by partition.relname`;

async function finishRemovals(db: Queryable): Promise<string[]> {
  type Row = { name: string; parent: string | null; pending: boolean };
  const marked = await db.query<Row>(FIND_MARKED, [MARK]);
  for (const { name, parent, pending } of marked) {
    if (pending) await db.query(`alter table ${parent} detach partition ${name} finalize`);
    await db.query(`drop table ${name}`);
  }
  return marked.map(({ name }) => name);
}

async function removeDue(db: Queryable, retention: Retention): Promise<Removal> {
  const nowMs = await databaseNowMs(db);
  const partitions = await listPartitions(db);
  const removal: Removal = { removed: [], kept: [], waiting: [] };
  const weeks = [...new Set(partitions.map((one) => one.week))].toSorted((a, b) => a - b);
  const allDue = weeks
    .map((week) => ({ week, due: dueOf(partitions, week, { retention, nowMs }) }))
    .filter(({ due }) => due.length > 0);
  if (allDue.length === 0) return removal;
  const allowance = await readAllowance(db);
  let allowed = maxWeeksToRemove(await countStored(db, partitions), allowance);
  for (const { week, due } of allDue) {
    const why = await whyKept(db, week, due);
    if (why !== null) {
      removal.kept.push(`${due.map(({ name }) => name).join(', ')}: ${why}`);
      continue;
    }
    // Empty weeks do not count: a node with a wrong clock creates such weeks.
    const counts = !wasBegun(due) && (await holdsData(db, due));
    if (counts && allowed < 1) {
      removal.waiting.push(firstDayOf(week));
      continue;
    }
    if (due.some(({ table }) => table !== 'contents')) await noteRemoval(db, week);
    for (const partition of due) {
      await remove(db, partition);
      removal.removed.push(partition.name);
    }
    if (!counts) continue;
    allowed -= 1;
    if (!allowance.isConfirmed) await countRemovedWeek(db);
  }
  return removal;
}

const NOTE_REMOVAL = `
update retention_clock set mail_removed_before = greatest(mail_removed_before, $1::timestamptz)`;

/** Notes the removal before it begins, for the daily reconciliation (reconciliation/reconciliation-store.ts). */
async function noteRemoval(db: Queryable, week: number): Promise<void> {
  await db.query(NOTE_REMOVAL, [new Date((week + 1) * WEEK_MS)]);
}

async function databaseNowMs(db: Queryable): Promise<number> {
  const [row] = await db.query<{ ms: number }>(
    'select extract(epoch from app_now())::float8 * 1000 as ms',
  );
  return row?.ms ?? 0;
}

function dueOf(
  partitions: readonly Partition[],
  week: number,
  { retention, nowMs }: { retention: Retention; nowMs: number },
): Partition[] {
  // The previous week may still get mail, and would be created again at once.
  if (week >= Math.floor(nowMs / WEEK_MS) - WEEKS_BEHIND) return [];
  const ageH = (nowMs - (week + 1) * WEEK_MS) / HOUR_MS;
  const order: PartitionedTable[] = [];
  if (ageH >= (retention.metadataH ?? Infinity)) order.push(...METADATA, 'webhook_deliveries');
  else if (ageH >= (retention.contentH ?? Infinity)) order.push('contents');
  return order.flatMap((table) =>
    partitions.filter((one) => one.week === week && one.table === table),
  );
}

const HAS_QUEUED = `select from queue where email_id >= $1 and email_id < $2 limit 1`;
const HAS_OPEN = `select from emails where id >= $1 and id < $2 and open_count > 0 limit 1`;
/** Finds webhook deliveries of this week, and later ones about an email of this week. */
const HAS_PENDING_WEBHOOKS = `
select from webhook_queue
  left join webhook_deliveries using (project_id, endpoint_id, event_id)
 where (webhook_queue.event_id >= $1 and webhook_queue.event_id < $2)
    or (webhook_deliveries.subject_id >= $1 and webhook_deliveries.subject_id < $2)
 limit 1`;

async function whyKept(
  db: Queryable,
  week: number,
  due: readonly Partition[],
): Promise<string | null> {
  const bounds = [firstUuidAt(week * WEEK_MS), firstUuidAt((week + 1) * WEEK_MS)];
  const finds = async (sql: string): Promise<boolean> => (await db.query(sql, bounds)).length > 0;
  if ((await finds(HAS_QUEUED)) || (await finds(HAS_OPEN))) return 'it has mail that has not ended';
  const isMetadata = due.some(({ table }) => table !== 'contents');
  return isMetadata && (await finds(HAS_PENDING_WEBHOOKS)) ? 'it has pending webhooks' : null;
}

function wasBegun(due: readonly Partition[]): boolean {
  const tables = due.map(({ table }) => table);
  return !tables.includes('emails') && tables.some((table) => table !== 'contents');
}

async function holdsData(db: Queryable, partitions: readonly Partition[]): Promise<boolean> {
  for (const { name } of partitions) {
    if ((await db.query(`select from ${name} limit 1`)).length > 0) return true;
  }
  return false;
}

async function countStored(db: Queryable, partitions: readonly Partition[]): Promise<number> {
  let count = 0;
  for (const ofWeek of Map.groupBy(partitions, ({ week }) => week).values()) {
    if (await holdsData(db, ofWeek)) count += 1;
  }
  return count;
}

async function remove(db: Queryable, { table, name }: Partition): Promise<void> {
  await db.query(`comment on table ${name} is '${MARK}'`);
  await db.query(`alter table ${table} detach partition ${name} concurrently`);
  await db.query(`drop table ${name}`);
}
