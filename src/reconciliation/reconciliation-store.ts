/**
 * The statements of the daily reconciliation (differences.ts): days to check, a walk over the mail of one day, and
 * the number of accepted emails.
 *
 * Mail that is accepted, sent or canceled during the check is not a difference. Each step of the walk is one
 * statement, which sees an email with its recipients, queue rows and events at one moment, and these change together.
 * Mail that the retention removes is not a difference either: the retention first stores its plan, and the walk reads
 * the plan last.
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
import { DAY_MS, HOUR_MS } from '../lib/units.ts';

/** A project's mail of a day. @property day in the format 2026-11-25 */
export type ProjectDay = { projectId: string; day: string };

/**
 * An id has the time of its node. A node accepts no mail when its clock differs by an hour or more
 * (service/readiness/clock-watch.ts).
 */
const CLOCK_SKEW_MAX_MS = 2 * HOUR_MS;
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
  select projects.id, next.day, app_now()
    from next
   cross join lateral (
      select ${startOfDaySql('next.day')} as starts, ${startOfDaySql('next.day + 1')} as ends) day
   cross join projects
   where exists (select from stats counted
                  where counted.project_id = projects.id and counted.${ANY_ENVIRONMENT}
                    and counted.granularity = 'day'
                    and counted.dimension = 'total' and counted.period = day.starts)
      or exists (select from stats_deltas counted
                  where counted.project_id = projects.id and counted.${ANY_ENVIRONMENT}
                    and counted.at >= day.starts and counted.at < day.ends)
      or exists (select from emails
                  where emails.project_id = projects.id and emails.${ANY_ENVIRONMENT}
                    and emails.id >= ${firstIdSql('day.starts')}
                    and emails.id < ${firstIdSql('day.ends')})
  on conflict (project_id, day) do update set next_check_at = excluded.next_check_at
)
select day::text from next`;

/** Makes the next day that is over due, for its projects. @returns the day, or null when there is none */
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
update reconciled_days claimed_day
   set next_check_at = app_now() + interval '${CLAIM_INTERVAL}'
  from (select reconciled_days.project_id, reconciled_days.day from reconciled_days
         where reconciled_days.next_check_at <= app_now()
           and ($1::uuid is null or reconciled_days.project_id = $1)
         order by reconciled_days.next_check_at, reconciled_days.day limit 1
           for update skip locked) due
 where claimed_day.project_id = due.project_id and claimed_day.day = due.day
returning claimed_day.project_id as "projectId", claimed_day.day::text,
          app_now() >= ${startOfDaySql('claimed_day.day + 1')} + ${ENDS_AFTER} as "isOver",
          claimed_day.day >= (select first_day from reconciliation) as "isCounted"`;

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
    (select distinct candidate.${id} as id from ${table} candidate
      where candidate.project_id = $1 and candidate.${id} > $2 and candidate.${id} < $3 ${also}
      order by candidate.${id} limit ${STEP_EMAILS})`;

const IS_OPEN = `recipients.status in (${quoteList(OPEN_STATUSES)})`;
const EVENT_OF = `case recipients.status ${[...FINAL_STATUSES, 'deferred' as const]
  .map((status) => `when '${status}' then '${EVENT_OF_STATUS[status]}'`)
  .join(' ')} end`;
const HAS_RECIPIENT = (of: string, id: string): string => `
exists (select from recipients
         where recipients.project_id = $1 and recipients.email_id = ${of}.${id}
           and recipients.position = ${of}.position)`;

const ENDED = FINAL_STATUSES.map(
  (status) => `count(*) filter (where recipients.status = '${status}')::int as ${status}`,
).join();

// A cancel by request is one event for all its recipients, without a position.
const RECIPIENTS = `
select count(*)::int as recipients, count(*) filter (where ${IS_OPEN})::int as open,
       ${ENDED},
       coalesce(bool_or(${IS_OPEN} and not earlier.is_queued), false) as is_unqueued,
       coalesce(bool_or(not ${IS_OPEN} and earlier.is_queued), false) as is_queued_after_end,
       coalesce(bool_or(earlier.last_event is distinct from ${EVENT_OF}
                        and not (recipients.status = 'canceled'
                                 and earlier.last_event is distinct from 'email.canceled'
                                 and earlier.was_canceled_whole)), false) as is_unexplained
  from recipients
 cross join lateral (
    select exists (select from queue
                    where queue.project_id = $1 and queue.email_id = recipients.email_id
                      and queue.position = recipients.position)
             as is_queued,
           (select events.type from events
             where events.project_id = $1 and events.subject_id = recipients.email_id
               and events.position = recipients.position
               and events.type not in ('email.opened', 'email.clicked')
             order by events.seq desc limit 1) as last_event,
           exists (select from events
                    where events.project_id = $1 and events.subject_id = recipients.email_id
                      and events.position is null
                      and events.type = 'email.canceled' limit 1) as was_canceled_whole) earlier
 where recipients.project_id = $1 and recipients.email_id = ids.id`;

const STRAY_ROWS = `
select (select count(*) from queue
         where queue.project_id = $1 and queue.email_id = ids.id
           and not ${HAS_RECIPIENT('queue', 'email_id')})
       + count(*) filter (where events.position is not null and not ${HAS_RECIPIENT('events', 'subject_id')})
         as strays,
       count(*)::int as events, coalesce(max(events.seq), 0) as last_seq
  from events
 where events.project_id = $1 and events.subject_id = ids.id`;

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
  ...ENVIRONMENTS.map((one) =>
    candidateIdsSql('emails', 'id', `and candidate.environment = '${one}'`),
  ),
  candidateIdsSql('recipients', 'email_id'),
  candidateIdsSql('events', 'subject_id', `and candidate.type like 'email.%'`),
  candidateIdsSql('queue', 'email_id'),
].join(' union ');
const SUMS = STATUS_COLUMNS.map((one) => `'${one}', coalesce(sum(${one}), 0)`).join();
const KINDS = Object.entries(PROBLEMS)
  .map(([kind, condition]) => `case when ${condition} then '${kind}' end`)
  .join();

const STEP = `
with ids as materialized (
  select candidate.id from (${CANDIDATES}) candidate order by candidate.id limit ${STEP_EMAILS}
),
looked as materialized (
  select ids.id, emails.created_at, emails.open_count, emails.event_count, recipients.*, strays.*
    from ids
    left join lateral (
      select emails.created_at, emails.open_count, emails.event_count from emails
       where emails.project_id = $1 and emails.${ANY_ENVIRONMENT}
         and emails.id = ids.id limit 1) emails on true
   cross join lateral (${RECIPIENTS}) recipients
   cross join lateral (${STRAY_ROWS}) strays
   where coalesce(emails.created_at >= $4 and emails.created_at < $5, ids.id >= $6 and ids.id < $7)
),
problems as (
  select id, array_remove(array[${KINDS}], null) as kinds from looked
)
select (select count(*) from ids)::int as passed, (select id from ids order by id desc limit 1) as last,
       (select json_build_object('emails', count(*), 'recipients', coalesce(sum(recipients), 0), ${SUMS})
          from looked where created_at is not null) as counts,
       (select coalesce(json_agg(json_build_object('id', problems.id, 'kinds', problems.kinds) order by problems.id),
                        '[]')
          from problems where cardinality(problems.kinds) > 0) as problems`;

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
  from (select stats.emails, stats.recipients from stats
         where stats.project_id = $1 and stats.${ANY_ENVIRONMENT} and stats.granularity = 'day'
           and stats.dimension = 'total'
           and stats.period = $2
         union all
        select stats_deltas.emails, stats_deltas.recipients from stats_deltas
         where stats_deltas.project_id = $1 and stats_deltas.${ANY_ENVIRONMENT}
           and stats_deltas.what = 'accepted'
           and stats_deltas.at >= $2 and stats_deltas.at < $3) counts`;

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
select coalesce(removal.before > $2, false) as "isRemoved",
       coalesce(removal.before > $3, false) as "isEarlierRemoved"
  from projects cross join retention_clock
 cross join lateral (select greatest(projects.mail_removed_before, retention_clock.mail_removed_before)
                     as before) removal
 where projects.id = $1`;

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
(select coalesce(sum(greatest((difference ->> 'emails')::int,
                              abs((difference ->> 'counted')::int - (difference ->> 'stored')::int))), 0)
   from jsonb_array_elements(reconciled_days.differences) difference)`;

// Checks days with open mail at growing intervals: a day with millions of emails is not counted daily because one
// email is scheduled for next month. An acknowledgement covers only as many differences as there were.
const SAVE = `
update reconciled_days
   set checked_at = app_now(), emails = $3, recipients = $4, statuses = $5::jsonb, differences = $6::jsonb,
       acknowledged_at = case when $7::int between 1 and ${WEIGHT} then reconciled_days.acknowledged_at end,
       next_check_at = case
         when app_now() < ${startOfDaySql('reconciled_days.day + 1')} + ${ENDS_AFTER}
           then ${startOfDaySql('reconciled_days.day + 1')} + ${ENDS_AFTER}
         when $6::jsonb <> '[]' then app_now() + interval '1 day'
         when ($5::jsonb ->> 'open')::int > 0
           then app_now() + greatest(interval '1 day', app_now() - ${startOfDaySql('reconciled_days.day + 1')}) end
 where reconciled_days.project_id = $1 and reconciled_days.day = $2::date`;

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
