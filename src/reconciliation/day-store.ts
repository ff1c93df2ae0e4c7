/**
 * Reads and acknowledges the results of the daily reconciliation (reconciliation-store.ts), for the operator and
 * for the condition that reports them.
 */
import type { Difference, Statuses } from './differences.ts';
import type { Queryable } from '../database/database.ts';
import { batchDelete } from '../database/expiry.ts';

export type ReconciledDay = {
  projectId: string;
  projectName: string;
  day: string;
  /** null: not checked yet, or the retention removed its mail before the first check. */
  checkedAt: Date | null;
  isWaiting: boolean;
  emails: number;
  recipients: number;
  statuses: Partial<Statuses>;
  differences: Difference[];
  acknowledgedAt: Date | null;
};

const COLUMNS = `
reconciled_days.project_id as "projectId", projects.name as "projectName", reconciled_days.day::text,
       reconciled_days.checked_at as "checkedAt",
       reconciled_days.next_check_at is not null as "isWaiting", reconciled_days.emails,
       reconciled_days.recipients, reconciled_days.statuses, reconciled_days.differences,
       reconciled_days.acknowledged_at as "acknowledgedAt"`;

const LIST = `
select ${COLUMNS} from reconciled_days join projects on projects.id = reconciled_days.project_id
 where reconciled_days.day >= $1::date and reconciled_days.day <= $2::date
   and ($3::uuid is null or reconciled_days.project_id = $3)
 order by reconciled_days.day desc, projects.name, reconciled_days.project_id
 limit $4`;

/** Lists days, newest first. @param range.projectId null: all projects */
export function listReconciledDays(
  db: Queryable,
  range: { from: string; to: string; projectId: string | null },
  limit: number,
): Promise<ReconciledDay[]> {
  return db.query<ReconciledDay>(LIST, [range.from, range.to, range.projectId, limit]);
}

const LIST_DIFFERENCES = `
select ${COLUMNS} from reconciled_days join projects on projects.id = reconciled_days.project_id
 where reconciled_days.differences <> '[]' and reconciled_days.acknowledged_at is null
   and ($2::uuid is null or reconciled_days.project_id = $2)
 order by reconciled_days.day desc, projects.name, reconciled_days.project_id
 limit $1`;

/** Lists days with differences that no operator has acknowledged, newest first. @param projectId null: all projects */
export function listDifferences(
  db: Queryable,
  limit: number,
  projectId: string | null = null,
): Promise<ReconciledDay[]> {
  return db.query<ReconciledDay>(LIST_DIFFERENCES, [limit, projectId]);
}

const ACKNOWLEDGE = `
update reconciled_days set acknowledged_at = app_now()
 where day = $1::date and ($2::uuid is null or project_id = $2) and differences <> '[]'
   and acknowledged_at is null
returning project_id as "projectId"`;

/** @returns the projects whose differences of the day are now acknowledged */
export async function acknowledgeDay(
  db: Queryable,
  { day, projectId }: { day: string; projectId: string | null },
): Promise<string[]> {
  const rows = await db.query<{ projectId: string }>(ACKNOWLEDGE, [day, projectId]);
  return rows.map((row) => row.projectId);
}

const SUMMARY_DAYS = 30;

const SUMMARY = `
select reconciliation.first_day::text as "firstDay", reconciliation.through::text,
       reconciliation.finished_at as "finishedAt",
       (app_now() at time zone 'UTC')::date::text as today,
       greatest(reconciliation.first_day, reconciliation.through - ${SUMMARY_DAYS - 1})::text as from,
       (select count(*) from reconciled_days
         where reconciled_days.differences <> '[]'
           and reconciled_days.acknowledged_at is null)::int as differing,
       (select count(*) from reconciled_days
         where reconciled_days.next_check_at <= app_now() or reconciled_days.checked_at is null
           and reconciled_days.next_check_at is not null)::int
         as waiting,
       (select count(*) from reconciled_days
         where reconciled_days.checked_at is null and reconciled_days.next_check_at is null
           and reconciled_days.day >= greatest(reconciliation.first_day,
                                               reconciliation.through - ${SUMMARY_DAYS - 1}))::int as removed
  from reconciliation`;

/** A summary. Each day counts once per project. */
export type ReconciliationSummary = {
  /** The first day that the counters cover, and the last day that is over. */
  firstDay: string;
  through: string;
  today: string;
  from: string;
  /** When the last run had checked everything that was due, or null when none has. */
  finishedAt: Date | null;
  differing: number;
  waiting: number;
  /** Days of the summary whose mail the retention removed before the check. */
  removed: number;
};

export async function readReconciliation(db: Queryable): Promise<ReconciliationSummary> {
  const [row] = await db.query<ReconciliationSummary>(SUMMARY);
  if (!row) throw new Error('the state of the reconciliation is missing');
  return row;
}

const NOTE_FINISHED = `
update reconciliation set finished_at = app_now()
 where finished_at is null or finished_at < app_now() - interval '10 minutes' or $1`;

/** Stores that everything due was checked. @param hasChecked whether something was checked since the last call */
export async function saveFinished(db: Queryable, hasChecked: boolean): Promise<void> {
  await db.query(NOTE_FINISHED, [hasChecked]);
}

/** Kept as long as the counters of days (stats/counts.ts). */
export const deleteOldReconciledDays = batchDelete(
  'reconciled_days',
  "day < (app_now() - interval '400 days')::date",
);
