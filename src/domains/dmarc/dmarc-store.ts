/** Stores aggregate reports about DMARC, and sums those of a domain. */
import type { Queryable } from '../../database/database.ts';
import { batchDelete } from '../../database/expiry.ts';
import type { DmarcReport, DmarcSource } from '../../mail/reports/dmarc-report.ts';

/** Anybody can send reports. A large domain gets some dozens a day. */
const PER_DOMAIN_AND_DAY_MAX = 1_000;

const INSERT = `
insert into dmarc_reports (domain, organization, report_id, received_at, begins_at, ends_at, policy, sources)
select $1, $2, $3, app_now(), $4, $5, $6, $7::json
 where (select count(*) from dmarc_reports
         where domain = $1 and ends_at > $5::timestamptz - interval '1 day'
           and ends_at <= $5::timestamptz) < ${PER_DOMAIN_AND_DAY_MAX}
on conflict do nothing`;

/** A repeated report is stored once. */
export async function storeDmarcReport(db: Queryable, report: DmarcReport): Promise<void> {
  const { domain, organization, reportId, beginsAt, endsAt, policy, sources } = report;
  await db.query(INSERT, [
    domain,
    organization,
    reportId,
    beginsAt,
    endsAt,
    policy,
    JSON.stringify(sources),
  ]);
}

export type DmarcTotals = {
  reports: number;
  organizations: number;
  /** Days of the period that a report covers. */
  days: number;
  /** Null without reports. */
  firstAt: Date | null;
  lastAt: Date | null;
  now: Date;
  /** Most failed messages first. */
  sources: readonly DmarcSource[];
};

/** Addresses that are shown. */
const SOURCES_MAX = 50;

const SUM = `
with report as (
  select organization, begins_at, ends_at, sources from dmarc_reports
   where domain = $1 and policy = $2 and ends_at > app_now() - $3::int * interval '1 day'
), source as (
  select item.ip, sum(item.passed)::float8 as passed, sum(item.failed)::float8 as failed
    from report, json_to_recordset(report.sources) as item(ip text, passed bigint, failed bigint)
   group by item.ip
)
select count(*)::int as reports, count(distinct organization)::int as organizations,
       count(distinct date_trunc('day', ends_at, 'UTC'))::int as days,
       min(begins_at) as "firstAt", max(ends_at) as "lastAt",
       app_now() as now,
       (select coalesce(json_agg(most), '[]')
          from (select * from source order by failed desc, passed desc, ip limit ${SOURCES_MAX}) most)
         as sources
  from report`;

/** Sums the reports of the last days that were written under this policy. */
export async function sumDmarcReports(
  db: Queryable,
  { domain, policy, days }: { domain: string; policy: string; days: number },
): Promise<DmarcTotals> {
  const [row] = await db.query<DmarcTotals>(SUM, [domain, policy, days]);
  return row!;
}

/** Three times the period that a proposal needs. */
export const deleteOldDmarcReports = batchDelete(
  'dmarc_reports',
  `received_at < app_now() - interval '45 days'`,
);
