/**
 * Stores the newest report of each node, and which process runs the doctor now.
 *
 * Guarantees: a node has one run at a time, also with two processes. A process that dies in a run, or that is frozen
 * for RUN_MAX, loses the run and can no longer write. The next poll begins another run.
 */
import type { Queryable } from '../database/database.ts';
import { batchDelete } from '../database/expiry.ts';
import type { DoctorReport, ReportedFinding } from './reports/report.ts';

/** A run ends within a minute or two. */
const RUN_MAX = `interval '10 minutes'`;
/** An operator who asks sooner than this gets the report that there is. */
export const RUN_AGAIN_AFTER_S = 60;

const IS_RUNNING = `
(doctor_reports.begun_at is not null
 and (doctor_reports.finished_at is null or doctor_reports.finished_at < doctor_reports.begun_at)
  and doctor_reports.begun_at > app_now() - ${RUN_MAX})`;
// Without a verified domain no live mail is sent, and nobody waits for the report.
const IS_LIVE = `
exists (select from domains
         where domains.environment = 'live' and domains.deleted_at is null
           and domains.verified_at is not null)`;

type Node = { instance: string; host: string };

const REGISTER = `
insert into doctor_reports (instance, host) values ($1, $2)
on conflict (instance) do update set host = excluded.host`;

export async function registerNode(db: Queryable, { instance, host }: Node): Promise<void> {
  await db.query(REGISTER, [instance, host]);
}

const CLAIM = `
update doctor_reports
   set run_id = gen_random_uuid(), begun_at = app_now(), checks_ended = 0, requested_at = null
 where doctor_reports.instance = $1 and not ${IS_RUNNING}
   and (doctor_reports.requested_at is not null
        or $2::float8 is not null and ${IS_LIVE}
           and (doctor_reports.begun_at is null
                or doctor_reports.begun_at <= app_now() - $2::float8 * interval '1 millisecond'
                or doctor_reports.finished_at is null or doctor_reports.finished_at < doctor_reports.begun_at))
returning run_id as "runId", ${IS_LIVE} as "isLive"`;

/** @property isLive the installation has a verified domain, so live mail may be sent */
export type ClaimedRun = { runId: string; isLive: boolean };

/**
 * Begins a run that an operator asked for, that is due, or that ended before its time.
 * @param everyMs in a live installation, time from one run to the next, or null when none is due
 */
export async function claimRun(
  db: Queryable,
  instance: string,
  everyMs: number | null,
): Promise<ClaimedRun | null> {
  const [run] = await db.query<ClaimedRun>(CLAIM, [instance, everyMs]);
  return run ?? null;
}

export async function saveProgress(
  db: Queryable,
  runId: string,
  checksEnded: number,
): Promise<void> {
  const text = 'update doctor_reports set checks_ended = $2 where run_id = $1';
  await db.query(text, [runId, checksEnded]);
}

const SAVE = `
update doctor_reports
   set finished_at = app_now(), red = $2, yellow = $3, unknown = $4, green = $5, findings = $6::json
 where run_id = $1
returning 1`;

/** @returns false when another run has begun meanwhile, which stores its own report */
export async function saveReport(
  db: Queryable,
  runId: string,
  { checks, findings }: DoctorReport,
): Promise<boolean> {
  const { red, yellow, unknown, green } = checks;
  const counts = [red, yellow, unknown, green];
  return (await db.query(SAVE, [runId, ...counts, JSON.stringify(findings)])).length > 0;
}

export type NodeReport = {
  instance: string;
  host: string;
  /** An operator has asked for the run, and it has not begun. */
  isRequested: boolean;
  isRunning: boolean;
  checksEnded: number;
  /** null: no run has ended. Then the counts are 0 and there are no findings. */
  finishedAt: Date | null;
  ageS: number | null;
  red: number;
  yellow: number;
  unknown: number;
  green: number;
  findings: ReportedFinding[];
};

const COLUMNS = `
doctor_reports.instance, doctor_reports.host, doctor_reports.requested_at is not null as "isRequested",
${IS_RUNNING} as "isRunning",
       doctor_reports.checks_ended as "checksEnded", doctor_reports.finished_at as "finishedAt",
       extract(epoch from app_now() - doctor_reports.finished_at)::float8 as "ageS",
       doctor_reports.red, doctor_reports.yellow, doctor_reports.unknown, doctor_reports.green,
       doctor_reports.findings`;

const FIND = `select ${COLUMNS} from doctor_reports where doctor_reports.instance = $1`;

export async function findReport(db: Queryable, instance: string): Promise<NodeReport | null> {
  const [row] = await db.query<NodeReport>(FIND, [instance]);
  return row ?? null;
}

const IS_ALIVE = `exists (select from nodes where nodes.instance = doctor_reports.instance)`;

const LIST = `
select ${COLUMNS} from doctor_reports where ${IS_ALIVE} order by doctor_reports.host,
       doctor_reports.instance limit $1`;

/** Lists the reports of the nodes that run. */
export function listReports(db: Queryable, limit: number): Promise<NodeReport[]> {
  return db.query<NodeReport>(LIST, [limit]);
}

const REQUEST = `
update doctor_reports set requested_at = app_now()
 where doctor_reports.requested_at is null and not ${IS_RUNNING} and ${IS_ALIVE}
   and (doctor_reports.finished_at is null
        or doctor_reports.finished_at <= app_now() - $1::float8 * interval '1 second')
returning 1`;

/** Asks each running node for a run, except those that run it or have just done so. @returns their number */
export async function requestRuns(db: Queryable): Promise<number> {
  return (await db.query(REQUEST, [RUN_AGAIN_AFTER_S])).length;
}

const COUNTS = `
select coalesce(sum(red), 0)::int as red, coalesce(sum(yellow), 0)::int as yellow,
       coalesce(sum(unknown), 0)::int as unknown, coalesce(sum(green), 0)::int as green,
       min(finished_at) as "oldestAt"
  from doctor_reports where doctor_reports.finished_at is not null and ${IS_ALIVE}`;

/** @property oldestAt end of the run that is the longest ago, or null when no node has a report */
export type ReportCounts = DoctorReport['checks'] & { oldestAt: Date | null };

/** Adds up the reports of the nodes that run. */
export async function countReported(db: Queryable): Promise<ReportCounts> {
  const [row] = await db.query<ReportCounts>(COUNTS);
  return row!;
}

/** Deletes reports of nodes that are gone for a week. */
export const deleteOldReports = batchDelete(
  'doctor_reports',
  `not ${IS_ALIVE} and coalesce(doctor_reports.begun_at, '-infinity') < app_now() - interval '7 days'`,
);
