/**
 * The statements of the daily reconciliation (differences.ts): days to check, a walk over the mail of one day, and
 * the number of accepted emails.
 *
 * Mail that is accepted, sent or canceled during the check is not a difference. Each step of the walk is one
 * statement, which sees an email with its recipients, queue rows and events at one moment, and these change together.
 * Mail that the retention removes is not a difference either: the retention first stores what it will remove, and the
 * walk reads that last.
 *
 * A step reads a few hundred emails by index probes, with its own time limit, and leaves no lock.
 */
import {
  DAY_ENDS_AFTER_MS,
  type Difference,
  STATUS_COLUMNS,
  type Statuses,
  sizeOfDifference,
} from './differences.ts';
import { EVENT_OF_STATUS } from '../core/events.ts';
import { ENVIRONMENTS } from '../core/scope.ts';
import { FINAL_STATUSES, OPEN_STATUSES } from '../core/statuses.ts';
import { firstUuidAt } from '../database/ids.ts';
import type { Database, Queryable } from '../database/database.ts';
import { DAY_MS } from '../lib/units.ts';

/** A project's mail of a day. @property day in the format 2026-11-25 */
export type ProjectDay = { projectId: string; day: string };

/**
 * An id has the time of its node. A node accepts no mail when its clock differs by an hour or more
 * (service/readiness/clock-watch.ts).
 */
const CLOCK_SKEW_MAX_MS = 2 * 3_600_000;
/** After this time another process takes over a check that died. */
const CLAIM_INTERVAL = '10 minutes';
const ENDS_AFTER = `interval '${DAY_ENDS_AFTER_MS} milliseconds'`;

const quoteList = (values: readonly string[]): string => values.map((one) => `'${one}'`).join();
const ANY_ENVIRONMENT = `environment in (${quoteList(ENVIRONMENTS)})`;
const startOfDaySql = (day: string): string => `(${day})::timestamp at time zone 'UTC'`;
const firstIdSql = (time: string): string =>
  `(lpad(to_hex(floor(extract(epoch from ${time}) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`;

// Finds projects with mail or outcomes of the day: in the counts, in deltas that are not folded yet, or stored.
const SCHEDULE_NEXT_DAY = `
with next as (
  update reconciliation set through = through + 1
   where app_now() >= ${startOfDaySql('through + 2')} + ${ENDS_AFTER}
  returning through as day
),
listed as (
  insert into reconciled_days (project_id, day, next_check_at)
  select p.id, n.day, app_now()
    from next n
   cross join lateral (select ${startOfDaySql('n.day')} as starts, ${startOfDaySql('n.day + 1')} as ends) d
   cross join projects p
   where exists (select from stats s
                  where s.project_id = p.id and s.${ANY_ENVIRONMENT} and s.granularity = 'day'
                    and s.dimension = 'total' and s.period = d.starts)
      or exists (select from stats_deltas s
                  where s.project_id = p.id and s.${ANY_ENVIRONMENT}
                    and s.at >= d.starts and s.at < d.ends)
      or exists (select from emails e
                  where e.project_id = p.id and e.${ANY_ENVIRONMENT} and e.id >= ${firstIdSql('d.starts')}
                    and e.id < ${firstIdSql('d.ends')})
  on conflict (project_id, day) do update set next_check_at = excluded.next_check_at
)
select day::text from next`;

/** Makes the next day that is over due, for its projects. @returns the day; null: there is none */
export async function scheduleNextDay(db: Queryable): Promise<string | null> {
  const [row] = await db.query<{ day: string }>(SCHEDULE_NEXT_DAY);
  return row?.day ?? null;
}

const SCHEDULE_DAY = `
insert into reconciled_days (project_id, day, next_check_at) values ($1, $2::date, app_now())
on conflict (project_id, day) do update set next_check_at = app_now()`;

/** Makes a day due, even if it is not over or was checked. */
export async function scheduleDay(db: Queryable, { projectId, day }: ProjectDay): Promise<void> {
  await db.query(SCHEDULE_DAY, [projectId, day]);
}

// No other process takes the day until the claim ends.
const CLAIM_DAY = `
update reconciled_days c
   set next_check_at = app_now() + interval '${CLAIM_INTERVAL}'
  from (select d.project_id, d.day from reconciled_days d
         where d.next_check_at <= app_now() and ($1::uuid is null or d.project_id = $1)
         order by d.next_check_at, d.day limit 1
           for update skip locked) due
 where c.project_id = due.project_id and c.day = due.day
returning c.project_id as "projectId", c.day::text,
          app_now() >= ${startOfDaySql('c.day + 1')} + ${ENDS_AFTER} as "isOver",
          c.day >= (select first_day from reconciliation) as "isCounted"`;

/**
 * @property isOver no more mail of this day is accepted
 * @property isCounted the counters cover all mail of this day
 */
export type ClaimedDay = ProjectDay & { isOver: boolean; isCounted: boolean };

/** Claims a day that is due, for ten minutes. @param projectId null: any project */
export async function claimDay(
  db: Queryable,
  projectId: string | null = null,
): Promise<ClaimedDay | null> {
  const [row] = await db.query<ClaimedDay>(CLAIM_DAY, [projectId]);
  return row ?? null;
}

const RENEW_CLAIM = `
update reconciled_days set next_check_at = app_now() + $3::interval
 where project_id = $1 and day = $2::date`;

/** Renews the claim. @param isLeft the next run checks the day from its beginning instead */
export async function renewClaim(
  db: Queryable,
  { projectId, day }: ProjectDay,
  isLeft = false,
): Promise<void> {
  await db.query(RENEW_CLAIM, [projectId, day, isLeft ? '0' : CLAIM_INTERVAL]);
}

const STEP_EMAILS = 250;

/** Ids of emails, including emails of which only other rows are left; in order, by one index each. */
const candidateIdsSql = (table: string, id: string, also = ''): string => `
    (select distinct x.${id} as id from ${table} x
      where x.project_id = $1 and x.${id} > $2 and x.${id} < $3 ${also}
      order by x.${id} limit ${STEP_EMAILS})`;

const IS_OPEN = `r.status in (${quoteList(OPEN_STATUSES)})`;
const EVENT_OF = `case r.status ${[...FINAL_STATUSES, 'deferred' as const]
  .map((status) => `when '${status}' then '${EVENT_OF_STATUS[status]}'`)
  .join(' ')} end`;
const HAS_RECIPIENT = (of: string, id: string): string => `
exists (select from recipients r
         where r.project_id = $1 and r.email_id = ${of}.${id} and r.position = ${of}.position)`;

const ENDED = FINAL_STATUSES.map(
  (status) => `count(*) filter (where r.status = '${status}')::int as ${status}`,
).join();

// A cancel by request is one event for all its recipients, without a position.
const RECIPIENTS = `
select count(*)::int as recipients, count(*) filter (where ${IS_OPEN})::int as open,
       ${ENDED},
       coalesce(bool_or(${IS_OPEN} and not x.is_queued), false) as is_unqueued,
       coalesce(bool_or(not ${IS_OPEN} and x.is_queued), false) as is_queued_after_end,
       coalesce(bool_or(x.last_event is distinct from ${EVENT_OF}
                        and not (r.status = 'canceled' and x.last_event is distinct from 'email.canceled'
                                 and x.was_canceled_whole)), false) as is_unexplained
  from recipients r
 cross join lateral (
    select exists (select from queue q
                    where q.project_id = $1 and q.email_id = r.email_id and q.position = r.position)
             as is_queued,
           (select v.type from events v
             where v.project_id = $1 and v.subject_id = r.email_id and v.position = r.position
               and v.type not in ('email.opened', 'email.clicked')
             order by v.seq desc limit 1) as last_event,
           exists (select from events v
                    where v.project_id = $1 and v.subject_id = r.email_id and v.position is null
                      and v.type = 'email.canceled' limit 1) as was_canceled_whole) x
 where r.project_id = $1 and r.email_id = i.id`;

const STRAY_ROWS = `
select (select count(*) from queue q
         where q.project_id = $1 and q.email_id = i.id and not ${HAS_RECIPIENT('q', 'email_id')})
       + count(*) filter (where v.position is not null and not ${HAS_RECIPIENT('v', 'subject_id')})
         as strays,
       count(*)::int as events, coalesce(max(v.seq), 0) as last_seq
  from events v
 where v.project_id = $1 and v.subject_id = i.id`;

const PROBLEMS = {
  email_missing: 'created_at is null',
  recipient_missing: 'created_at is not null and (strays > 0 or recipients = 0)',
  not_queued: 'is_unqueued',
  queued_after_end: 'is_queued_after_end',
  open_count_differs: 'open_count <> open',
  event_missing: 'event_count <> events or last_seq <> events',
  status_unexplained: 'created_at is not null and is_unexplained',
} as const;
export type Problem = keyof typeof PROBLEMS;

const CANDIDATES = [
  ...ENVIRONMENTS.map((one) => candidateIdsSql('emails', 'id', `and x.environment = '${one}'`)),
  candidateIdsSql('recipients', 'email_id'),
  candidateIdsSql('events', 'subject_id', `and x.type like 'email.%'`),
  candidateIdsSql('queue', 'email_id'),
].join(' union ');
const SUMS = STATUS_COLUMNS.map((one) => `'${one}', coalesce(sum(${one}), 0)`).join();
const KINDS = Object.entries(PROBLEMS)
  .map(([kind, condition]) => `case when ${condition} then '${kind}' end`)
  .join();

const STEP = `
with ids as materialized (
  select x.id from (${CANDIDATES}) x order by x.id limit ${STEP_EMAILS}
),
looked as materialized (
  select i.id, e.created_at, e.open_count, e.event_count, r.*, s.*
    from ids i
    left join lateral (
      select e.created_at, e.open_count, e.event_count from emails e
       where e.project_id = $1 and e.${ANY_ENVIRONMENT} and e.id = i.id limit 1) e on true
   cross join lateral (${RECIPIENTS}) r
   cross join lateral (${STRAY_ROWS}) s
   where coalesce(e.created_at >= $4 and e.created_at < $5, i.id >= $6 and i.id < $7)
),
problems as (
  select id, array_remove(array[${KINDS}], null) as kinds from looked
)
select (select count(*) from ids)::int as passed, (select id from ids order by id desc limit 1) as last,
       (select json_build_object('emails', count(*), 'recipients', coalesce(sum(recipients), 0), ${SUMS})
          from looked where created_at is not null) as counts,
       (select coalesce(json_agg(json_build_object('id', p.id, 'kinds', p.kinds) order by p.id), '[]')
          from problems p where cardinality(p.kinds) > 0) as problems`;

/**
 * Forces index probes whatever the statistics: a plan that reads a whole partition would disturb delivery. `read
 * only` because the check must not change mail.
 */
const STEP_SETTINGS = `
set transaction read only;
set local statement_timeout = '15s';
set local work_mem = '4MB';
set local jit = off;
set local enable_seqscan = off;
set local enable_bitmapscan = off;
set local enable_hashjoin = off;
set local enable_mergejoin = off;
set local enable_hashagg = off`;

export type Counts = Record<keyof Statuses | 'emails' | 'recipients', number>;
export type DayStep = {
  counts: Counts;
  problems: { id: string; kinds: Problem[] }[];
  /** The id to continue from; null after the last step. */
  next: string | null;
};

export const firstIdOfDay = ({ day }: ProjectDay): string =>
  firstUuidAt(Date.parse(day) - CLOCK_SKEW_MAX_MS);

export function walkDayStep(
  db: Pick<Database, 'transaction'>,
  { projectId, day }: ProjectDay,
  after: string,
): Promise<DayStep> {
  const startMs = Date.parse(day);
  const endMs = startMs + DAY_MS;
  return db.transaction(async (tx) => {
    await tx.query(STEP_SETTINGS);
    const [row] = await tx.query<Omit<DayStep, 'next'> & { passed: number; last: string }>(STEP, [
      projectId,
      after,
      firstUuidAt(endMs + CLOCK_SKEW_MAX_MS),
      new Date(startMs),
      new Date(endMs),
      firstUuidAt(startMs),
      firstUuidAt(endMs),
    ]);
    if (!row) throw new Error('a step over a day returned nothing');
    const { counts, problems, passed, last } = row;
    return { counts, problems, next: passed < STEP_EMAILS ? null : last };
  });
}

const ACCEPTED = `
select coalesce(sum(emails), 0)::int as emails, coalesce(sum(recipients), 0)::int as recipients
  from (select s.emails, s.recipients from stats s
         where s.project_id = $1 and s.${ANY_ENVIRONMENT} and s.granularity = 'day' and s.dimension = 'total'
           and s.period = $2
         union all
        select d.emails, d.recipients from stats_deltas d
         where d.project_id = $1 and d.${ANY_ENVIRONMENT} and d.what = 'accepted' and d.at >= $2 and d.at < $3) x`;

export type Accepted = { emails: number; recipients: number };

export async function readAccepted(
  db: Queryable,
  { projectId, day }: ProjectDay,
): Promise<Accepted> {
  const startMs = Date.parse(day);
  const values = [projectId, new Date(startMs), new Date(startMs + DAY_MS)];
  const [row] = await db.query<Accepted>(ACCEPTED, values);
  return row ?? { emails: 0, recipients: 0 };
}

const REMOVED = `
select coalesce(x.before > $2, false) as "isRemoved", coalesce(x.before > $3, false) as "isEarlierRemoved"
  from projects p cross join retention_clock c
 cross join lateral (select greatest(p.mail_removed_before, c.mail_removed_before) as before) x
 where p.id = $1`;

/**
 * An email can change this long: a report is accepted for 45 days (inbound/report-store.ts), and an email is
 * scheduled at most 30 days ahead.
 */
const EMAIL_CHANGES_FOR_MS = 80 * DAY_MS;

/**
 * Returns whether the retention may have removed mail of the day, or earlier mail with outcomes on the day. Read it
 * after the walk.
 */
export async function readRemoved(
  db: Queryable,
  { projectId, day }: ProjectDay,
): Promise<{ isRemoved: boolean; isEarlierRemoved: boolean }> {
  const startMs = Date.parse(day) - CLOCK_SKEW_MAX_MS;
  const values = [projectId, new Date(startMs), new Date(startMs - EMAIL_CHANGES_FOR_MS)];
  const [row] = await db.query<{ isRemoved: boolean; isEarlierRemoved: boolean }>(REMOVED, values);
  return row ?? { isRemoved: true, isEarlierRemoved: true };
}

/** The size of the stored differences, to compare with the new ones. */
const WEIGHT = `
(select coalesce(sum(greatest((x ->> 'emails')::int, abs((x ->> 'counted')::int - (x ->> 'stored')::int))), 0)
   from jsonb_array_elements(d.differences) x)`;

// Checks days with open mail at growing intervals: a day with millions of emails is not counted daily because one
// email is scheduled for next month. An acknowledgement covers only as many differences as there were.
const SAVE = `
update reconciled_days d
   set checked_at = app_now(), emails = $3, recipients = $4, statuses = $5::jsonb, differences = $6::jsonb,
       acknowledged_at = case when $7::int between 1 and ${WEIGHT} then d.acknowledged_at end,
       next_check_at = case
         when app_now() < ${startOfDaySql('d.day + 1')} + ${ENDS_AFTER} then ${startOfDaySql('d.day + 1')} + ${ENDS_AFTER}
         when $6::jsonb <> '[]' then app_now() + interval '1 day'
         when ($5::jsonb ->> 'open')::int > 0
           then app_now() + greatest(interval '1 day', app_now() - ${startOfDaySql('d.day + 1')}) end
 where d.project_id = $1 and d.day = $2::date`;

export async function saveDay(
  db: Queryable,
  of: ProjectDay,
  { counts, differences }: { counts: Counts; differences: readonly Difference[] },
): Promise<void> {
  const { emails, recipients, ...statuses } = counts;
  const weight = differences.reduce((sum, one) => sum + sizeOfDifference(one), 0);
  await db.query(SAVE, [
    of.projectId,
    of.day,
    emails,
    recipients,
    JSON.stringify(statuses),
    JSON.stringify(differences),
    weight,
  ]);
}

const SAVE_REMOVED = `
update reconciled_days set next_check_at = null, differences = '[]', acknowledged_at = null
 where project_id = $1 and day = $2::date`;

/** Ends the checks of a day. Its earlier counts stay. */
export async function saveRemoved(db: Queryable, { projectId, day }: ProjectDay): Promise<void> {
  await db.query(SAVE_REMOVED, [projectId, day]);
}
