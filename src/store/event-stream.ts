/**
 * The events of a project and environment as a stream: in the order of their transactions, gapless,
 * from any position on.
 *
 * An event's id is made before its transaction commits, so ids do not become visible in order: a reader
 * that goes on after the greatest id it has seen loses what commits later with a smaller one. Here the
 * order is the number of the transaction (`xact_id`), and a page ends below the oldest transaction that
 * still runs (`stream_horizon`). Below that line nothing is added any more. A transaction that began
 * after another one had committed has the greater number, so whatever an event is a consequence of
 * comes before it. Two recipients of one email that are settled by two workers at the same moment may
 * come in either order; `number` is that of the timeline.
 *
 * A cursor names the last event that was passed. A database that was restored or failed over may lack
 * transactions, and gives their numbers to others: a cursor holds as long as its event is there
 * (`whyInvalid`).
 *
 * A page costs one probe of an index in each partition and its rows, however much is stored.
 */
import type { EventType } from '../core/events.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from './postgres/database.ts';
import { NO_ID } from './retention.ts';

/** Up to where a reader has come. */
export type StreamPoint = {
  /** The place: that of an event, or before all. */
  era: number;
  xactId: bigint;
  subjectId: string;
  seq: number;
  /** The event at this place; null: the beginning, before all events. */
  eventId: string | null;
  /** Which history of transactions the place is of: a hash of `database_history`, 64 bits. */
  history: string;
  /** Database time up to which a reader at this place has missed nothing. */
  asOfMs: number;
};

export type StreamEvent = {
  id: string;
  type: EventType;
  createdAt: Date;
  /** 1, 2, 3, … within its email. */
  number: number;
  data: Record<string, unknown>;
  /** The reader has come to here with this event. */
  point: StreamPoint;
};

export type StreamFilter = {
  /** null: all. */
  types: readonly EventType[] | null;
  /** Only those about this email. */
  emailId: string | null;
  /** Only those about this sending domain and its mail. */
  domain: string | null;
};

export type StreamPage = {
  /** In order. */
  events: StreamEvent[];
  /** Where to go on; events that the filter left out are behind it. */
  next: StreamPoint;
  /** Whether there may be more at this moment. */
  hasMore: boolean;
};

export const BEGINNING: StreamPoint = {
  era: 0,
  xactId: 0n,
  subjectId: NO_ID,
  seq: 0,
  eventId: null,
  history: '0',
  asOfMs: 0,
};

/** A reader with a filter passes so many events at most in one page. */
const SCAN_MAX = 2_000;

const ORDER = 'e.xact_era, e.xact_id, e.subject_id, e.seq';
const ORDER_DESC = ORDER.replaceAll(',', ' desc,') + ' desc';

/**
 * What the index `events_by_commit` has in place of project and environment. Numbers may coincide, so
 * both are compared as well, but not in the condition: whoever plans it would expect few rows there, and
 * read a whole partition instead of the first rows of the index.
 */
const OF_SCOPE = `
hashtextextended(e.environment, uuid_hash_extended(e.project_id, 0))
       = hashtextextended($2::text, uuid_hash_extended($1::uuid, 0))`;
/** By the primary key: an email has a handful of events. */
const OF_EMAIL = `e.project_id = $1::uuid and e.environment = $2 and e.subject_id = $11::uuid`;

const BELOW_HORIZON = `
(e.xact_era, e.xact_id) < ((select xact_era from present), (select horizon from present))`;

/** A test of a webhook is recorded as an event, and is none. */
const IS_WANTED = `
e.project_id = $1 and e.environment = $2 and e.type <> 'webhook.test' and ($9::text[] is null or e.type = any($9))
       and ($10::text is null or case
             when e.type like 'email.%'
               then right(rtrim(e.data ->> 'from', '>'), length($10) + 1) = '@' || $10
             when e.type like 'domain.%' then e.data ->> 'name' = $10
             when e.type = 'project.reputation_alert' then e.data ->> 'domain' = $10
             else false end)`;

const PRESENT = `
present as materialized (
  select i.xact_era, stream_horizon() as horizon,
         hashtextextended(database_history(), 0)::text as history,
         extract(epoch from app_now())::float8 * 1000 as now_ms
    from installation i
)`;

// The last row that was looked at comes back whether or not it is wanted: it is where to go on.
// Where to begin stands in a step of its own, so that whoever plans it does not know it: by statistics
// that are older than the newest events it would expect nothing there, read all, and sort it.
const readPage = (of: string) => `
with ${PRESENT},
place as materialized (
  select $3::smallint as era, $4::xid8 as xact_id, $5::uuid as subject_id, $6::int as seq
),
scanned as materialized (
  select e.xact_era, e.xact_id, e.subject_id, e.seq, e.id, e.type, e.created_at, w.is_wanted,
         case when w.is_wanted then e.data end as data
    from events e
   cross join lateral (select coalesce(${IS_WANTED}, false) as is_wanted) w
   where ${of}
     and (${ORDER})
         > ((select era from place), (select xact_id from place), (select subject_id from place),
            (select seq from place))
     and ${BELOW_HORIZON}
   order by ${ORDER}
   limit $7
),
numbered as (
  select s.*, count(*) filter (where is_wanted) over passed as nth, row_number() over passed as row,
         count(*) over () as total
    from scanned s
  window passed as (order by xact_era, xact_id, subject_id, seq rows unbounded preceding)
)
select p.history, p.now_ms as "nowMs", n.xact_era as era, n.xact_id::text as "xactId",
       n.subject_id as "subjectId", n.seq, n.id, n.type, n.created_at as "createdAt", n.data,
       n.is_wanted as "isWanted", n.nth::int, n.total::int,
       exists (select from events e
                where e.project_id = $1 and e.environment = $2 and e.subject_id = $5 and e.seq = $6
                  and e.xact_era = $3 and e.xact_id = $4 and e.id = $12::uuid) as "isKnown",
       (select least(retention_metadata_h, $13::int) from projects where id = $1) as "retentionH"
  from present p
  left join numbered n on (n.is_wanted and n.nth <= $8::int) or n.row = n.total
 order by n.row`;

const READ = readPage(`${OF_SCOPE} and $11::uuid is null`);
const READ_OF_EMAIL = readPage(OF_EMAIL);

type Row = {
  history: string;
  nowMs: number;
  /** Whether the event of the cursor is there. */
  isKnown: boolean;
  /** Of the project; null: for ever. */
  retentionH: number | null;
} & (ScannedRow | { [Column in keyof ScannedRow]: null });

type ScannedRow = {
  era: number;
  xactId: string;
  subjectId: string;
  seq: number;
  id: string;
  type: EventType;
  createdAt: Date;
  data: Record<string, unknown> | null;
  isWanted: boolean;
  /** How many were wanted up to here, and how many were looked at in all. */
  nth: number;
  total: number;
};

export type PageRequest = {
  after: StreamPoint;
  filter: StreamFilter;
  limit: number;
  /** Of the installation; null: for ever. */
  retentionH: number | null;
};

/** The events after a point; a text: why the stream cannot go on from there. */
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
    after.era,
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
  const problem = isKnown ? null : whyInvalid(after, present, retentionH);
  return problem ?? pageOf(rows, { after, limit, scanMax, present });
}

type Present = Pick<StreamPoint, 'history' | 'asOfMs'>;

function pageOf(
  rows: readonly Row[],
  options: { after: StreamPoint; limit: number; scanMax: number; present: Present },
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
  // More were wanted than fit: the last of those that fit is the place, not the last looked at.
  if (last.nth > limit) return { events, next: events.at(-1)!.point, hasMore: true };
  const next = pointOf(last, present);
  return last.total === scanMax
    ? { events, next, hasMore: true }
    : { events, next: { ...next, asOfMs: present.asOfMs }, hasMore: false };
}

/** Of the event's time, so that an event always has the same cursor. */
function pointOf(row: ScannedRow, { history }: Present): StreamPoint {
  const { era, xactId, subjectId, seq, id: eventId, createdAt } = row;
  return {
    era,
    xactId: BigInt(xactId),
    subjectId,
    seq,
    eventId,
    history,
    asOfMs: createdAt.getTime(),
  };
}

const HOUR_MS = 3600_000;
/** Retention is coarse: by weeks, by the clock of the process that made an id. */
const RETENTION_SLACK_MS = 24 * HOUR_MS;

/**
 * A point whose event is there holds, in whatever database: that has everything up to the event's
 * transaction, and numbers new ones above it. Where the event is gone, it was either past its
 * retention, which is fine as long as the reader is not, or its commit was lost.
 */
function whyInvalid(
  after: StreamPoint,
  { history, asOfMs }: Present,
  retentionH: number | null,
): string | null {
  if (after.eventId === null) return null;
  const keptSinceMs = retentionH === null ? -Infinity : asOfMs - retentionH * HOUR_MS;
  const mayBeRemoved = timeInId(after.subjectId) < keptSinceMs + RETENTION_SLACK_MS;
  if (history !== after.history || !mayBeRemoved) {
    return 'the database does not have its event: it was restored or failed over without it';
  }
  if (after.asOfMs >= keptSinceMs) return null;
  return 'it was given too long ago, and later events may be past their retention';
}

/** The milliseconds at the beginning of a UUIDv7. */
function timeInId(id: string): number {
  return Number.parseInt(id.slice(0, 13).replace('-', ''), 16);
}

const LATEST = `
with ${PRESENT},
newest as (
  select e.* from events e
   where ${OF_SCOPE} and ${BELOW_HORIZON}
   order by ${ORDER_DESC}
   limit 1
)
select p.history, p.now_ms as "nowMs", n.xact_era as era, n.xact_id::text as "xactId",
       n.subject_id as "subjectId", n.seq, n.id, n.created_at as "createdAt"
  from present p left join newest n on n.project_id = $1 and n.environment = $2`;

/** The point after which only later events come. */
export async function latestPoint(db: Queryable, scope: Scope): Promise<StreamPoint> {
  const [row] = await db.query<Row>(LATEST, [scope.projectId, scope.environment]);
  const { history, nowMs } = row!;
  const present = { history, asOfMs: Math.round(nowMs) };
  if (row!.id === null) return { ...BEGINNING, ...present };
  return { ...pointOf(row as ScannedRow, present), ...present };
}

const NEWER = `
with ${PRESENT}
select i.ord::int
  from present p
 cross join unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::uuid[], $6::int[],
                   $7::text[])
       with ordinality as i(project_id, environment, era, xact_id, subject_id, seq, history, ord)
  left join lateral (
    select true as is_newer from events e
     where hashtextextended(e.environment, uuid_hash_extended(e.project_id, 0))
           = hashtextextended(i.environment, uuid_hash_extended(i.project_id, 0))
       and (${ORDER}) > (i.era, i.xact_id::xid8, i.subject_id, i.seq)
       and ${BELOW_HORIZON}
     order by ${ORDER}
     limit 1) e on true
 where e.is_newer or i.history <> p.history`;

/**
 * Which of these readers have something to read: one statement for all that wait. After a fail-over all
 * of them: what a reader has passed may be lost, and new events have come before it.
 */
export async function findNewer<Reader extends Scope & { at: StreamPoint }>(
  db: Queryable,
  readers: readonly Reader[],
): Promise<Reader[]> {
  const rows = await db.query<{ ord: number }>({ name: 'stream_newer', text: NEWER }, [
    readers.map(({ projectId }) => projectId),
    readers.map(({ environment }) => environment),
    readers.map(({ at }) => at.era),
    readers.map(({ at }) => String(at.xactId)),
    readers.map(({ at }) => at.subjectId),
    readers.map(({ at }) => at.seq),
    readers.map(({ at }) => at.history),
  ]);
  return rows.flatMap(({ ord }) => readers[ord - 1] ?? []);
}
