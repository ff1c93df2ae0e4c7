/**
 * Lists of emails, newest first, with filters. The cost of a page does not grow with what is
 * stored: the time in the id leads to the right place, recipients have an index, and whatever else
 * is asked for is looked for in at most 50 000 emails; the answer says where the look stopped.
 */
import { isFinal, STATUS_RANK, type Status } from '../core/statuses.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from './postgres/database.ts';
import {
  type EmailSummary,
  OPEN_STATUSES,
  SUMMARY_COLUMNS,
  type SummaryRow,
  withStatus,
} from './emails.ts';
import { type Page, type PageOf, pageOf } from './page.ts';
import { firstUuidOf } from './partitions.ts';

const SCAN_MAX = 50_000;

/** null: not asked for. */
export type EmailFilter = {
  status: Status | null;
  /** A recipient in any role, as addressKey gives it. */
  to: string | null;
  /** As addressKey gives it. */
  from: string | null;
  /** A part of the subject, in any case. */
  subject: string | null;
  tag: { name: string; value?: string } | null;
  /** Domain of the from address. */
  domain: string | null;
  /** Inclusive. */
  createdAfter: Date | null;
  /** Exclusive. */
  createdBefore: Date | null;
  /** Only what this key sent. */
  keyId: string | null;
};

export type EmailPage = PageOf<EmailSummary> & {
  /** The last email that was looked at, when the look ended before the list did. */
  scannedUntil: string | null;
};

export async function listEmails(
  db: Queryable,
  scope: Scope,
  { page, filter }: { page: Page; filter: EmailFilter },
): Promise<EmailPage> {
  const look = {
    from: filter.to === null ? 'emails' : 'recipients',
    order: page.before === null ? 'desc' : 'asc',
  } as const;
  const where = [
    scope.projectId,
    scope.environment,
    ...(await idRange(db, page, filter)),
    filter.to,
  ];
  const values = [...where, ...conditions(filter), page.limit + 1];
  const found = pageOf((await db.query<SummaryRow>(list(look), values)).map(withStatus), page);
  if (found.hasMore) return { ...found, scannedUntil: null };
  const [last] = await db.query<{ id: string }>(lastScanned(look), where);
  return { ...found, hasMore: last !== undefined, scannedUntil: last?.id ?? null };
}

type Look = { from: 'emails' | 'recipients'; order: 'desc' | 'asc' };

/**
 * The ids to look at, in order. $3 and $4: older and newer than these ids. $5: the recipient, whose
 * index has project and address as one number and ids as bytes, which sort alike; numbers may
 * coincide, so the address itself is compared as well.
 */
const SCAN = {
  emails: (order: Look['order']) => `
    select id from emails
     where project_id = $1 and environment = $2 and $5::text is null
       and ($3::uuid is null or id < $3) and ($4::uuid is null or id > $4)
     order by id ${order} limit ${SCAN_MAX}`,
  recipients: (order: Look['order']) => `
    select distinct on (place) email_id as id, uuid_send(email_id) as place from recipients
     where hashtextextended(project_id::text || lower(address collate "C"), 0)
           = hashtextextended($1::uuid::text || $5, 0)
       and project_id::text = $1::uuid::text and lower(address collate "C") = $5
       and ($3::uuid is null or (email_id < $3 and uuid_send(email_id) < uuid_send($3)))
       and ($4::uuid is null or (email_id > $4 and uuid_send(email_id) > uuid_send($4)))
       and $2::text is not null
     order by place ${order} limit ${SCAN_MAX}`,
};

/** What is looked at: of a recipient's ids each email is fetched, else they are read in one go. */
const SCANNED_EMAILS = {
  emails: (order: Look['order']) => SCAN.emails(order).replace('select id', 'select *'),
  recipients: (order: Look['order']) => `
    select scanned.place, found.* from (${SCAN.recipients(order)}) scanned
     cross join lateral (
        select * from emails
         where project_id = $1 and environment = $2 and id = scanned.id offset 0) found`,
};

const list = ({ from, order }: Look) => `
select ${SUMMARY_COLUMNS}
  from (${SCANNED_EMAILS[from](order)}) e${OPEN_STATUSES}
 where ($6::text is null or lower(e.from_address collate "C") = $6)
   and ($7::text is null or strpos(lower(e.subject), lower($7)) > 0)
   and ($8::jsonb is null or e.tags @> $8)
   and ($9::text is null or right(e.from_address, length($9) + 1) = '@' || $9)
   and ($10::uuid is null or e.key_id = $10)
   and ($11::timestamptz is null or e.created_at >= $11)
   and ($12::timestamptz is null or e.created_at < $12)
   and ($13::smallint is null or (e.open_count = 0 and e.worst = $13))
   and ($14::text is null or ($14 = any(open.statuses) and not open.statuses && $15::text[]))
 order by ${from === 'emails' ? 'e.id' : 'e.place'} ${order}
 limit $16`;

const lastScanned = ({ from, order }: Look) => `
select id from (${SCAN[from](order)}) scanned offset ${SCAN_MAX - 1}`;

/** An email with open recipients has the first of these that any of them has. */
const OPEN_IN_ORDER: readonly Status[] = ['sending', 'queued', 'deferred', 'scheduled'];

/** $6 to $15 */
function conditions(filter: EmailFilter): unknown[] {
  const { status } = filter;
  const ended = status !== null && isFinal(status);
  return [
    filter.from,
    filter.subject,
    filter.tag && JSON.stringify([filter.tag]),
    filter.domain,
    filter.keyId,
    filter.createdAfter,
    filter.createdBefore,
    ended ? STATUS_RANK[status] : null,
    ended ? null : status,
    status === null ? [] : OPEN_IN_ORDER.slice(0, Math.max(0, OPEN_IN_ORDER.indexOf(status))),
  ];
}

/**
 * Clocks differ: ids carry the worker's time, created_at the database's. What came in that time is
 * looked through before a page begins, so it is short.
 */
const CLOCK_SLACK_MS = 5 * 60_000;

/**
 * Between which ids to look: older than, newer than. Times lead to ids roughly (created_at is
 * checked besides); a test that moved the clock is followed by as much as it moved it.
 */
async function idRange(
  db: Queryable,
  page: Page,
  { createdAfter, createdBefore }: EmailFilter,
): Promise<[string | null, string | null]> {
  if (createdAfter === null && createdBefore === null) return [page.after, page.before];
  const [clock] = await db.query<{ ms: number }>(
    'select extract(epoch from skew)::float8 * 1000 as ms from clock',
  );
  const skewMs = clock?.ms ?? 0;
  const lowest = idAt(createdAfter, -CLOCK_SLACK_MS - Math.max(0, skewMs));
  const highest = idAt(createdBefore, CLOCK_SLACK_MS - Math.min(0, skewMs));
  return [least(page.after, highest), greatest(page.before, lowest)];
}

function idAt(time: Date | null, shiftMs: number): string | null {
  if (time === null) return null;
  const ms = Math.round(time.getTime() + shiftMs);
  return firstUuidOf(Math.min(Math.max(ms, 0), 2 ** 48 - 1));
}

function least(a: string | null, b: string | null): string | null {
  return a !== null && (b === null || a < b) ? a : b;
}

function greatest(a: string | null, b: string | null): string | null {
  return a !== null && (b === null || a > b) ? a : b;
}
