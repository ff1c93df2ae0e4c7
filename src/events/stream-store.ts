/**
 * Reads the events of a project and environment as a stream: in commit order, without gaps, from any position.
 *
 * Ids are generated before their transactions commit. A reader that continues after the greatest id would miss events
 * that commit later with a smaller one. The order is therefore the number of the transaction (`xact_id`), and a page
 * ends below the oldest running transaction (`stream_horizon`). No event is added below that position any more. A
 * transaction that began after another one committed has a greater number, so a cause precedes its effect. Two
 * recipients of one email that two workers settle at the same moment may appear in either order. `number` is that of
 * the timeline.
 *
 * A cursor names the last event that was read. A database that was restored or failed over may lack transactions and
 * reuse their numbers, so a cursor is valid while its event exists (`invalidReason`).
 *
 * A page costs one index probe per partition plus its rows, whatever the number of stored events.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { EVENT_DATA, EVENT_EMAIL } from './event-store.ts';
import { NO_ID } from '../retention/retention-store.ts';
import { HOUR_MS } from '../lib/units.ts';

export type StreamPoint = {
  /** The order of the event at this position; of the beginning: zeros. */
  epoch: number;
  xactId: bigint;
  subjectId: string;
  seq: number;
  /** null: the beginning, before all events. */
  eventId: string | null;
  /** The transaction history of the position: a 64-bit hash of `database_history`. */
  history: string;
  /** Database time up to which a reader at this position has seen all events. */
  asOfMs: number;
};

export type StreamEvent = {
  id: string;
  type: EventType;
  createdAt: Date;
  number: number;
  data: Record<string, unknown>;
  point: StreamPoint;
};

export type StreamFilter = {
  types: readonly EventType[] | null;
  emailId: string | null;
  domain: string | null;
};

export type StreamPage = {
  events: StreamEvent[];
  /** Position to continue from, after events that the filter omitted. */
  next: StreamPoint;
  hasMore: boolean;
};

export const BEGINNING: StreamPoint = {
  epoch: 0,
  xactId: 0n,
  subjectId: NO_ID,
  seq: 0,
  eventId: null,
  history: '0',
  asOfMs: 0,
};

/** Limit on the events that one page searches with a filter. */
const SCAN_MAX = 2_000;

const ORDER = 'events.xact_era, events.xact_id, events.subject_id, events.seq';
const ORDER_DESC = ORDER.replaceAll(',', ' desc,') + ' desc';

/**
 * The index `events_by_commit` has one hash of project and environment. Hashes may collide, so both are compared as
 * well, but not in this condition: the planner would expect few rows and read a whole partition instead of the
 * index's first rows.
 */
const OF_SCOPE = `
hashtextextended(events.environment, uuid_hash_extended(events.project_id, 0))
       = hashtextextended($2::text, uuid_hash_extended($1::uuid, 0))`;
/** An email has few events, so the primary key finds them. */
const OF_EMAIL = `events.project_id = $1::uuid and events.environment = $2 and events.subject_id = $11::uuid`;

const BELOW_HORIZON = `
(events.xact_era, events.xact_id) < ((select xact_era from present), (select horizon from present))`;

/** The test event of a webhook is stored but is not part of the stream. */
const IS_WANTED = `
events.project_id = $1 and events.environment = $2 and events.type <> 'webhook.test'
  and ($9::text[] is null or events.type = any($9))
       and ($10::text is null or case
             when events.type like 'email.%'
               then right(rtrim(events.data ->> 'from', '>'), length($10) + 1) = '@' || $10
             when events.type like 'domain.%' then events.data ->> 'name' = $10
             when events.type = 'project.reputation_alert' then events.data ->> 'domain' = $10
             else false end)`;

const PRESENT = `
present as materialized (
  select installation.xact_era, stream_horizon() as horizon,
         hashtextextended(database_history(), 0)::text as history,
         extract(epoch from app_now())::float8 * 1000 as now_ms
    from installation
)`;

// The last searched row is returned even if the filter omits it, as the position to continue from. The start position
// is a separate step that hides its value from the planner: with statistics older than the newest events, the planner
// would expect no rows, read all, and sort them.
const pageSql = (ofReader: string) => `
with ${PRESENT},
place as materialized (
  select $3::smallint as epoch, $4::xid8 as xact_id, $5::uuid as subject_id, $6::int as seq
),
scanned as materialized (
  select events.project_id, events.environment, events.xact_era, events.xact_id, events.subject_id,
         events.seq, events.id, events.type,
         events.created_at, wanted.is_wanted,
         case when wanted.is_wanted then events.data end as data
    from events
   cross join lateral (select coalesce(${IS_WANTED}, false) as is_wanted) wanted
   where ${ofReader}
     and (${ORDER})
         > ((select epoch from place), (select xact_id from place), (select subject_id from place),
            (select seq from place))
     and ${BELOW_HORIZON}
   order by ${ORDER}
   limit $7
),
numbered as (
  select scanned.*, count(*) filter (where is_wanted) over passed as nth, row_number() over passed as row,
         count(*) over () as total
    from scanned
  window passed as (order by xact_era, xact_id, subject_id, seq rows unbounded preceding)
)
select present.history, present.now_ms as "nowMs", numbered.xact_era as epoch,
       numbered.xact_id::text as "xactId",
       numbered.subject_id as "subjectId", numbered.seq, numbered.id, numbered.type,
       numbered.created_at as "createdAt",
       case when numbered.nth <= $8::int then ${EVENT_DATA('numbered')} end as data,
       numbered.is_wanted as "isWanted", numbered.nth::int, numbered.total::int,
       exists (select from events
                where events.project_id = $1 and events.environment = $2 and events.subject_id = $5
                  and events.seq = $6
                  and events.xact_era = $3 and events.xact_id = $4 and events.id = $12::uuid) as "isKnown",
       (select least(retention_metadata_h, $13::int) from projects where id = $1) as "retentionH"
  from present
  left join numbered on (numbered.is_wanted and numbered.nth <= $8::int)
       or numbered.row = numbered.total${EVENT_EMAIL('numbered')}
 order by numbered.row`;

const READ = pageSql(`${OF_SCOPE} and $11::uuid is null`);
const READ_OF_EMAIL = pageSql(OF_EMAIL);

type Row = {
  history: string;
  nowMs: number;
  isKnown: boolean;
  /** The project's retention, or null for ever. */
  retentionH: number | null;
} & (ScannedRow | { [Column in keyof ScannedRow]: null });

type ScannedRow = {
  epoch: number;
  xactId: string;
  subjectId: string;
  seq: number;
  id: string;
  type: EventType;
  createdAt: Date;
  data: Record<string, unknown> | null;
  isWanted: boolean;
  /** Number of matching rows up to this one, and of all searched rows. */
  nth: number;
  total: number;
};

export type PageRequest = {
  after: StreamPoint;
  filter: StreamFilter;
  limit: number;
  retentionH: number | null;
};

/** Returns the events after a position, or a text: the reason why the stream cannot continue there. */
export async function readStream(
  db: Queryable,
  scope: Scope,
  request: PageRequest,
): Promise<StreamPage | string> {
  const { after, filter, limit } = request;
  const isFiltered = filter.types !== null || filter.domain !== null;
  const scanMax = isFiltered ? Math.max(SCAN_MAX, limit + 1) : limit + 1;
  const { text, name } =
    filter.emailId === null
      ? { text: READ, name: 'stream' }
      : { text: READ_OF_EMAIL, name: 'stream_of_email' };
  const rows = await db.query<Row>({ name, text }, [
    scope.projectId,
    scope.environment,
    after.epoch,
    String(after.xactId),
    after.subjectId,
    after.seq,
    scanMax,
    limit,
    filter.types,
    filter.domain,
    filter.emailId,
    after.eventId,
    request.retentionH,
  ]);
  const { history, nowMs, isKnown, retentionH } = rows[0]!;
  const present = { history, asOfMs: Math.round(nowMs) };
  const problem = isKnown ? null : invalidReason(after, present, retentionH);
  return problem ?? streamPageOf(rows, { after, limit, scanMax, present });
}

/** The database at the time of a read. */
type DatabaseState = Pick<StreamPoint, 'history' | 'asOfMs'>;

function streamPageOf(
  rows: readonly Row[],
  options: { after: StreamPoint; limit: number; scanMax: number; present: DatabaseState },
): StreamPage {
  const { after, limit, scanMax, present } = options;
  const scanned = rows.filter((row): row is Row & ScannedRow => row.id !== null);
  const events = scanned
    .filter(({ isWanted, nth }) => isWanted && nth <= limit)
    .map((row) => ({
      id: row.id,
      type: row.type,
      createdAt: row.createdAt,
      number: row.seq,
      data: row.data ?? {},
      point: pointOf(row, present),
    }));
  const last = scanned.at(-1);
  if (last === undefined) return { events, next: { ...after, ...present }, hasMore: false };
  // More rows match than fit, so the position is the last event that fits.
  if (last.nth > limit) return { events, next: events.at(-1)!.point, hasMore: true };
  const next = pointOf(last, present);
  return last.total === scanMax
    ? { events, next, hasMore: true }
    : { events, next: { ...next, asOfMs: present.asOfMs }, hasMore: false };
}

/** Takes `asOfMs` from the event's time, so that an event always has the same cursor. */
function pointOf(row: ScannedRow, { history }: DatabaseState): StreamPoint {
  const { epoch, xactId, subjectId, seq, id: eventId, createdAt } = row;
  return {
    epoch,
    xactId: BigInt(xactId),
    subjectId,
    seq,
    eventId,
    history,
    asOfMs: createdAt.getTime(),
  };
}

/** Retention works by weeks and by the clock of the process that made an id, so it is approximate. */
const RETENTION_SLACK_MS = 24 * HOUR_MS;

/**
 * Explains why a position is invalid when its event does not exist. Returns null when it is valid. Retention may have
 * removed the event, which is acceptable while later events are kept. Otherwise its commit was lost. A position whose
 * event exists is valid in any database, because the database has everything up to its transaction and numbers new ones
 * above it.
 */
function invalidReason(
  after: StreamPoint,
  { history, asOfMs }: DatabaseState,
  retentionH: number | null,
): string | null {
  if (after.eventId === null) return null;
  const keptSinceMs = retentionH === null ? -Infinity : asOfMs - retentionH * HOUR_MS;
  const mayBeRemoved = timeInId(after.subjectId) < keptSinceMs + RETENTION_SLACK_MS;
  if (history !== after.history || !mayBeRemoved) {
    return 'the database does not have its event, since it was restored or failed over';
  }
  if (after.asOfMs >= keptSinceMs) return null;
  return 'it is too old, and later events may have been removed after their retention';
}

/** Returns the time of a UUIDv7. */
function timeInId(id: string): number {
  return Number.parseInt(id.slice(0, 13).replace('-', ''), 16);
}

const LATEST = `
with ${PRESENT},
newest as (
  select events.* from events
   where ${OF_SCOPE} and ${BELOW_HORIZON}
   order by ${ORDER_DESC}
   limit 1
)
select present.history, present.now_ms as "nowMs", newest.xact_era as epoch, newest.xact_id::text as "xactId",
       newest.subject_id as "subjectId", newest.seq, newest.id, newest.created_at as "createdAt"
  from present left join newest on newest.project_id = $1 and newest.environment = $2`;

export async function latestPoint(db: Queryable, scope: Scope): Promise<StreamPoint> {
  const [row] = await db.query<Row>(LATEST, [scope.projectId, scope.environment]);
  const { history, nowMs } = row!;
  const present = { history, asOfMs: Math.round(nowMs) };
  if (row!.id === null) return { ...BEGINNING, ...present };
  return { ...pointOf(row as ScannedRow, present), ...present };
}

const NEWER = `
with ${PRESENT}
select input.ord::int
  from present
 cross join unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::uuid[], $6::int[],
                   $7::text[])
       with ordinality as input(project_id, environment, epoch, xact_id, subject_id, seq, history, ord)
  left join lateral (
    select true as is_newer from events
     where hashtextextended(events.environment, uuid_hash_extended(events.project_id, 0))
           = hashtextextended(input.environment, uuid_hash_extended(input.project_id, 0))
       and (${ORDER}) > (input.epoch, input.xact_id::xid8, input.subject_id, input.seq)
       and ${BELOW_HORIZON}
     order by ${ORDER}
     limit 1) events on true
 where events.is_newer or input.history <> present.history`;

/**
 * Returns the readers with new events, by one statement for all waiting readers. After a fail-over it returns all of
 * them, because events that they have read may be lost.
 */
export async function findNewer<Reader extends Scope & { at: StreamPoint }>(
  db: Queryable,
  readers: readonly Reader[],
): Promise<Reader[]> {
  const rows = await db.query<{ ord: number }>({ name: 'stream_newer', text: NEWER }, [
    readers.map(({ projectId }) => projectId),
    readers.map(({ environment }) => environment),
    readers.map(({ at }) => at.epoch),
    readers.map(({ at }) => String(at.xactId)),
    readers.map(({ at }) => at.subjectId),
    readers.map(({ at }) => at.seq),
    readers.map(({ at }) => at.history),
  ]);
  return rows.flatMap(({ ord }) => readers[ord - 1] ?? []);
}
