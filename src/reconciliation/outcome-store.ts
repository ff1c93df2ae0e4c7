/**
 * Counts the outcomes of a day a second time, from the stored events. The daily reconciliation compares this count
 * with the statistics (differences.ts).
 *
 * The index of the event stream (events/stream-store.ts) holds the events in the order of their transactions, which is
 * nearly the order of their times. A binary search finds the beginning of the day. From there each event is read
 * once, whenever its email was accepted. The day has been over for an hour, so none of its transactions still runs.
 */
import { EVENT_OF_STATUS } from '../core/events.ts';
import { type Outcomes, OUTCOMES } from './differences.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import type { ProjectDay } from './reconciliation-store.ts';
import { NO_ID } from '../retention/retention-store.ts';
import { DAY_MS } from '../lib/units.ts';

/** Times of successive transactions differ by far less. */
const EVENT_DISORDER_MS = 10 * 60_000;

/** A position in the order of the event stream. */
export type EventPosition = { epoch: number; xactId: string; subjectId: string; seq: number };

const ORDER = 'events.xact_era, events.xact_id, events.subject_id, events.seq';
/** The hash of the index; the place is a step of its own, like in events/stream-store.ts. */
const OF_SCOPE = `
hashtextextended(events.environment, uuid_hash_extended(events.project_id, 0))
       = hashtextextended($2::text, uuid_hash_extended($1::uuid, 0))`;
const PLACE = `
place as materialized (
  select $3::smallint as epoch, $4::xid8 as xact_id, $5::uuid as subject_id, $6::int as seq
)`;
const AFTER_PLACE = `
${OF_SCOPE}
     and (${ORDER})
         > ((select epoch from place), (select xact_id from place), (select subject_id from place),
            (select seq from place))`;

const FIRST_AFTER = `
with ${PLACE}
select events.xact_era as epoch, events.xact_id::text as "xactId", events.created_at as "createdAt"
  from events
 where ${AFTER_PLACE}
 order by ${ORDER} limit 1`;

const LAST_OF_EPOCH = `
select max(events.xact_id)::text as "xactId" from (
  select events.xact_id from events
   where ${OF_SCOPE} and events.xact_era <= $3::smallint
   order by events.xact_era desc, events.xact_id desc, events.subject_id desc, events.seq desc limit 1) events`;

type FoundEvent = { epoch: number; xactId: string; createdAt: Date };

const positionBefore = (epoch: number, xactId: bigint): EventPosition => ({
  epoch,
  xactId: String(xactId),
  subjectId: NO_ID,
  seq: 0,
});

async function findFirstAfter(
  db: Queryable,
  { projectId, environment }: Scope,
  { epoch, xactId, subjectId, seq }: EventPosition,
): Promise<FoundEvent | null> {
  const values = [projectId, environment, epoch, xactId, subjectId, seq];
  const [row] = await db.query<FoundEvent>(FIRST_AFTER, values);
  return row ?? null;
}

/**
 * Finds the first event of the day, or one shortly before.
 * @returns null when there are no later events
 */
export async function findDayStart(
  db: Queryable,
  scope: Scope,
  day: string,
): Promise<EventPosition | null> {
  const fromMs = Date.parse(day) - EVENT_DISORDER_MS;
  const isBefore = ({ createdAt }: FoundEvent): boolean => createdAt.getTime() < fromMs;
  let found = await findFirstAfter(db, scope, positionBefore(0, 0n));
  // An epoch may begin before the day and end within it, so each epoch is searched.
  while (found !== null) {
    const { epoch } = found;
    const place = await findDayStartInEpoch(db, scope, { epoch, first: found, isBefore });
    if (place !== null) return place;
    found = await findFirstAfter(db, scope, positionBefore(epoch + 1, 0n));
  }
  return null;
}

type Search = { epoch: number; first: FoundEvent; isBefore: (one: FoundEvent) => boolean };

/** Returns the first transaction of the epoch that is not before the day. */
async function findDayStartInEpoch(
  db: Queryable,
  scope: Scope,
  { epoch, first, isBefore }: Search,
): Promise<EventPosition | null> {
  if (!isBefore(first)) return positionBefore(epoch, BigInt(first.xactId));
  const { projectId, environment } = scope;
  const [last] = await db.query<{ xactId: string }>(LAST_OF_EPOCH, [projectId, environment, epoch]);
  let low = BigInt(first.xactId);
  let high = BigInt(last?.xactId ?? first.xactId) + 1n;
  const end = high;
  // `low` is before the day. Events from `high` on are not, if there are any.
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    const found = await findFirstAfter(db, scope, positionBefore(epoch, middle));
    if (found !== null && found.epoch === epoch && isBefore(found)) low = BigInt(found.xactId);
    else high = middle;
  }
  return high === end ? null : positionBefore(epoch, high);
}

export const OUTCOME_STEP_EVENTS = 1_000;

const SUMS = OUTCOMES.map(
  (status) =>
    `'${status}', coalesce(sum(recipients) filter (where type = '${EVENT_OF_STATUS[status]}'), 0)`,
).join();

// A cancel by request is one event for several recipients.
const COUNT = `
with ${PLACE},
scanned as materialized (
  select events.project_id, events.environment, events.xact_era, events.xact_id, events.subject_id,
         events.seq, events.type, events.created_at,
         case when events.position is not null then 1
              when events.type = 'email.canceled' then json_array_length(events.data -> 'recipients')
              else 0 end as recipients
    from events
   where ${AFTER_PLACE}
   order by ${ORDER}
   limit ${OUTCOME_STEP_EVENTS}
)
select (select count(*) from scanned)::int as passed, (select min(created_at) from scanned) as earliest,
       (select json_build_object('epoch', scanned.xact_era, 'xactId', scanned.xact_id::text, 'subjectId',
                                 scanned.subject_id, 'seq', scanned.seq)
          from scanned
         order by scanned.xact_era desc, scanned.xact_id desc, scanned.subject_id desc,
                  scanned.seq desc limit 1) as last,
       (select json_build_object(${SUMS}) from scanned
         where project_id = $1 and environment = $2 and created_at >= $7 and created_at < $8) as outcomes`;

/** @property next null when the day has ended */
export type OutcomeStep = { outcomes: Outcomes; next: EventPosition | null };

/** Counts the events of the day in the next step. */
export async function countOutcomes(
  db: Queryable,
  { projectId, environment, day }: Scope & { day: string },
  { epoch, xactId, subjectId, seq }: EventPosition,
): Promise<OutcomeStep> {
  const startMs = Date.parse(day);
  const endMs = startMs + DAY_MS;
  type Row = { passed: number; earliest: Date | null; last: EventPosition; outcomes: Outcomes };
  const [row] = await db.query<Row>(COUNT, [
    projectId,
    environment,
    epoch,
    xactId,
    subjectId,
    seq,
    new Date(startMs),
    new Date(endMs),
  ]);
  if (!row) throw new Error('a step over events returned nothing');
  const { passed, earliest, last, outcomes } = row;
  const isOver = earliest === null || earliest.getTime() > endMs + EVENT_DISORDER_MS;
  return { outcomes, next: isOver || passed < OUTCOME_STEP_EVENTS ? null : last };
}

const COLUMNS = OUTCOMES.map((status) => `coalesce(sum(${status}), 0)::int as ${status}`).join();
const OF_STATS = OUTCOMES.map(
  (status) => `coalesce(sum(stats.${status}), 0)::int as ${status}`,
).join();
const OF_DELTAS = OUTCOMES.map((status) =>
  status === 'suppressed'
    ? `coalesce(sum(case when stats_deltas.what = 'suppressed' then stats_deltas.recipients else 0 end
                    + stats_deltas.suppressed), 0)::int`
    : `coalesce(sum(stats_deltas.recipients) filter (where stats_deltas.what = '${status}'), 0)::int`,
).join();

const READ_COUNTED = `
select ${COLUMNS}
  from (select ${OF_STATS} from stats
         where stats.project_id = $1 and stats.environment in ('live', 'test') and stats.granularity = 'day'
           and stats.dimension = 'total' and stats.period = $2
         union all
        select ${OF_DELTAS} from stats_deltas
         where stats_deltas.project_id = $1 and stats_deltas.environment in ('live', 'test')
           and stats_deltas.at >= $2
           and stats_deltas.at < $2::timestamptz + interval '1 day') counts`;

export async function readCountedOutcomes(
  db: Queryable,
  { projectId, day }: ProjectDay,
): Promise<Outcomes> {
  const [row] = await db.query<Outcomes>(READ_COUNTED, [projectId, new Date(day)]);
  if (!row) throw new Error('the counters of a day returned nothing');
  return row;
}
