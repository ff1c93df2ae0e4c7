/**
 * Suppressed addresses per project and environment. settle/settle-full-path.ts adds the entries that a reply causes.
 * This file writes single entries and files, each with its event and history entry (history-store.ts) in one statement.
 * An expired entry counts as absent. Its expiry adds no history entry, because the first entry states the time. Entries
 * of simulator addresses hold back nothing (held-back-store.ts).
 *
 * Full mailboxes are counted here: when five emails within a week failed permanently with `quota`, the address is
 * suppressed as a hard bounce for two weeks. An email counts once, whether it bounced with this reply or expired with
 * it as its last reply.
 */
import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import { entityTagOf, type IsExpected } from '../core/entity-tag.ts';
import { CHANGED_SINCE, type Refusal } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { Database, Queryable } from '../database/database.ts';
import { recordEvent, FAN_OUT_OF_NEW_EVENTS } from '../events/event-store.ts';
import { isSimulated } from './held-back-store.ts';
import type { SuppressionsMaximum } from '../accounts/limits/maximum-store.ts';
import type { PageResult } from '../database/page.ts';
import { addressKey } from '../mail/address.ts';
import { uuidText } from '../mail/links/uuid.ts';
import { newId } from '../database/ids.ts';
import { batchDelete } from '../database/expiry.ts';

export const SUPPRESSION_REASONS = ['hard_bounce', 'complaint', 'unsubscribe', 'manual'] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

export type Suppression = {
  /** As added; compared by its addressKey. */
  address: string;
  reason: SuppressionReason;
  /** Email whose reply or report caused the entry; null when a person added it. */
  sourceEmailId: string | null;
  createdAt: Date;
  expiresAt: Date | null;
  /** True for an address of the simulator: the entry is listed but holds back no mail. */
  isSimulated: boolean;
};

export type NewSuppression = Pick<Suppression, 'address' | 'reason' | 'expiresAt'> & {
  sourceEmailId: string | null;
  by: ChangedBy;
};

export const SUPPRESSION_COLUMNS = `address, reason, source_email_id as "sourceEmailId",
       created_at as "createdAt", expires_at as "expiresAt", ${isSimulated('')} as "isSimulated"`;

/**
 * Keeps an existing entry `suppression`, unless it has expired, or it expires and the new one does not. A recipient who
 * unsubscribes while suppressed for a week must not get mail after that week.
 */
export const UNLESS_OUTLASTED = `
  on conflict (project_id, environment, address_key) do update
     set address = excluded.address, reason = excluded.reason,
         source_email_id = excluded.source_email_id, created_at = excluded.created_at,
         expires_at = excluded.expires_at
   where suppression.expires_at <= app_now()
      or (suppression.expires_at is not null and excluded.expires_at is null)`;

/**
 * `delivery` is a reply or report of a mail server; `recipient` is the unsubscribe page. With `api`, `import` and
 * `command_line`, somebody changed the list.
 */
export type ChangedBy = 'delivery' | 'recipient' | 'api' | 'import' | 'command_line';

/**
 * SQL of a step that adds rows of `suppressions` to the history. It needs a step `clock` with the time.
 * @param change.from the step that returns the added or removed rows
 * @param change.by SQL: a parameter or a literal
 */
export const recordHistorySql = (change: {
  action: 'added' | 'removed';
  from: string;
  by: string;
}) => `
remembered as (
  insert into suppression_history (project_id, environment, address_key, at, action, reason,
                                   source_email_id, by)
  select changed.project_id, changed.environment, changed.address_key, clock.now, '${change.action}',
         changed.reason, changed.source_email_id, ${change.by}
    from ${change.from} changed, clock
)`;

const FIND_ENTRY = `
select ${SUPPRESSION_COLUMNS} from suppressions
 where project_id = $1 and environment = $2 and address_key = $3
   and (expires_at is null or expires_at > app_now())`;

export async function findSuppression(
  db: Queryable,
  scope: Scope,
  address: string,
  lock: '' | 'for update' = '',
): Promise<Suppression | null> {
  const [found] = await db.query<Suppression>(`${FIND_ENTRY} ${lock}`, [
    scope.projectId,
    scope.environment,
    addressKey(address),
  ]);
  return found ?? null;
}

const ADD = `
with clock as materialized (select app_now() as now),
added as (
  insert into suppressions as suppression (project_id, environment, address_key, address, reason,
                                 source_email_id, created_at, expires_at)
  select $1, $2, $8, $3, $4, $5::uuid, clock.now, $6::timestamptz from clock
  ${UNLESS_OUTLASTED}
  returning suppression.*
),
${recordHistorySql({ action: 'added', from: 'added', by: '$7' })}
select ${SUPPRESSION_COLUMNS} from added`;

/**
 * Suppresses an address. An existing entry does not change, unless it expires and this one does not.
 * @param entry.address as normalised by mail/address.ts: its domain in A-labels
 * @param maximum absent when the number of entries is not limited
 * @throws MaximumReached
 */
export function addSuppression(
  db: Database,
  scope: Scope,
  entry: NewSuppression,
  maximum?: SuppressionsMaximum,
): Promise<{ suppression: Suppression; isNew: boolean }> {
  return db.transaction(async (tx) => {
    const added = await addSuppressionIn(tx, scope, entry);
    if (added.isNew) await maximum?.check(tx, scope, 1);
    return added;
  });
}

/** Suppresses a recipient who unsubscribed, by a link or by mail. The project's maximum does not apply. */
export function addUnsubscribed(
  db: Pick<Database, 'transaction'>,
  { projectId, environment }: Scope,
  { address, emailId }: { address: string; emailId: string },
): Promise<{ suppression: Suppression; isNew: boolean }> {
  const entry = { address, sourceEmailId: emailId, expiresAt: null };
  return db.transaction((tx) =>
    addSuppressionIn(
      tx,
      { projectId, environment },
      { ...entry, reason: 'unsubscribe', by: 'recipient' },
    ),
  );
}

export async function addSuppressionIn(
  tx: Queryable,
  scope: Scope,
  entry: NewSuppression,
): Promise<{ suppression: Suppression; isNew: boolean }> {
  const { address, reason, sourceEmailId, expiresAt, by } = entry;
  const [added] = await tx.query<Suppression>(ADD, [
    scope.projectId,
    scope.environment,
    address,
    reason,
    sourceEmailId,
    expiresAt,
    by,
    addressKey(address),
  ]);
  if (added) {
    await recordEvent(tx, { scope, type: 'suppression.added', data: suppressionToWire(added) });
    return { suppression: added, isNew: true };
  }
  const existing = await findSuppression(tx, scope, address);
  if (!existing) throw new Error('a suppression was neither added nor found');
  return { suppression: existing, isNew: false };
}

/** Changes whenever the entry is replaced by another, such as a complaint after a bounce. */
export function tagOfSuppression(entry: Suppression): string {
  const { address, reason, sourceEmailId, createdAt, expiresAt } = entry;
  return entityTagOf({ address, reason, sourceEmailId, createdAt, expiresAt });
}

const REMOVE = `
with clock as materialized (select app_now() as now),
removed as (
  delete from suppressions
   where project_id = $1 and environment = $2 and address_key = $3
     and (expires_at is null or expires_at > app_now()) and reason = any($4::text[])
     and ($6::int is null or $6 > (
           select count(*) from suppression_history
            where suppression_history.project_id = $1 and suppression_history.environment = $2
              and suppression_history.address_key = $3
              and suppression_history.at > app_now() - interval '1 day'
              and suppression_history.action = 'removed'
              and suppression_history.by = $5))
  returning *
),
${recordHistorySql({ action: 'removed', from: 'removed', by: '$5' })}
select ${SUPPRESSION_COLUMNS} from removed`;

type Removal = {
  address: string;
  by: ChangedBy;
  reasons?: readonly SuppressionReason[];
  perDayMax?: number;
};

/**
 * Removes a suppression. Returns null when the address was not suppressed.
 * @param entry.reasons removes only an entry with one of these reasons
 * @param entry.perDayMax limit on the removals of this address by `by` in 24 hours. A removal sees all earlier
 * removals of the entry, so the limit holds under concurrency
 */
export function removeSuppression(
  db: Database,
  scope: Scope,
  entry: Removal,
): Promise<Suppression | null> {
  return db.transaction((tx) => remove(tx, scope, entry));
}

/** Removes a suppression unless another entry has replaced the one that the caller has read. */
export function removeExpectedSuppression(
  db: Database,
  scope: Scope,
  { isExpected, ...entry }: Removal & { isExpected: IsExpected },
): Promise<Suppression | Refusal | null> {
  return db.transaction(async (tx) => {
    const present = await findSuppression(tx, scope, entry.address, 'for update');
    // One that is added from now on is not what the caller has read.
    if (present === null) return null;
    if (!isExpected(tagOfSuppression(present))) return CHANGED_SINCE;
    return remove(tx, scope, entry);
  });
}

async function remove(tx: Queryable, scope: Scope, entry: Removal): Promise<Suppression | null> {
  const { address, by, reasons = SUPPRESSION_REASONS, perDayMax = null } = entry;
  const [removed] = await tx.query<Suppression>(REMOVE, [
    scope.projectId,
    scope.environment,
    addressKey(address),
    reasons,
    by,
    perDayMax,
  ]);
  if (!removed) return null;
  await recordEvent(tx, { scope, type: 'suppression.removed', data: suppressionToWire(removed) });
  return removed;
}

/**
 * Only suppressions_by_id can serve these conditions. For simpler ones, the plan for an empty table takes another
 * index.
 */
const FIND_BY_ID = `
select ${SUPPRESSION_COLUMNS} from suppressions
 where md5(address_key) || project_id::text || environment = $3 || $1::uuid::text || $2
   and project_id::text = $1::uuid::text and environment || '' = $2
   and (expires_at is null or expires_at > app_now())
 limit 1`;

export async function findSuppressionById(
  db: Queryable,
  { projectId, environment }: Scope,
  id: string,
): Promise<Suppression | null> {
  const values = [projectId, environment, id.replaceAll('-', '')];
  return (await db.query<Suppression>(FIND_BY_ID, values))[0] ?? null;
}

/** Returns an id for clients that need one. It depends only on the addressKey. */
export function suppressionId(address: string): string {
  return uuidText(hash('md5', addressKey(address), 'buffer'));
}

/** Returns the JSON of events and API responses. Statements that write many rows produce the same. */
export function suppressionToWire(suppression: Suppression) {
  return {
    address: suppression.address,
    reason: suppression.reason,
    source_email_id: suppression.sourceEmailId,
    created_at: suppression.createdAt.toISOString(),
    expires_at: suppression.expiresAt?.toISOString() ?? null,
    simulated: suppression.isSimulated,
  };
}

/** The result of suppressionToWire in SQL, for a row `s`. */
export const SUPPRESSION_JSON = `
         json_build_object('address', suppression.address, 'reason', suppression.reason,
                           'source_email_id', suppression.source_email_id,
                           'created_at', wire_time(suppression.created_at),
                           'expires_at', wire_time(suppression.expires_at),
                           'simulated', ${isSimulated('suppression.')})`;

export type SuppressionPage = {
  limit: number;
  /** Only addresses after this one. Not together with `before`. */
  after: string | null;
  /** Only addresses before this one: the page that ends directly before it. */
  before: string | null;
};

export type SuppressionFilter = {
  /** Beginning of the address, compared like whole addresses. */
  prefix: string | null;
  reason: SuppressionReason | null;
};

/** Sorts after every other character. */
const LAST_CHARACTER = `chr(1114111)`;

const pageConditionSql = (key: string) => `
   and (expires_at is null or expires_at > app_now())
   and ${key} > $3 and ${key} < $4 and ${key} >= $5 and ${key} < $5 || ${LAST_CHARACTER}`;

const KEY_OF_REASON = "(address_key || '')";

const PAGE_OF_ALL = pageConditionSql('address_key');
const PAGE_OF_REASON = pageConditionSql(KEY_OF_REASON);

const OF_ALL = `
select ${SUPPRESSION_COLUMNS} from suppressions
 where project_id = $1 and environment = $2${PAGE_OF_ALL}`;

const OF_REASON = `
select ${SUPPRESSION_COLUMNS} from suppressions
 where hashtextextended(project_id::text || environment || reason, 0)
       = hashtextextended($1::uuid::text || $2 || $7, 0)
   and project_id = $1 and environment = $2 and reason = $7${PAGE_OF_REASON}`;

const BEYOND = '\u{10ffff}';

export async function listSuppressions(
  db: Queryable,
  scope: Scope,
  { page, filter }: { page: SuppressionPage; filter: SuppressionFilter },
): Promise<PageResult<Suppression>> {
  const { limit, after, before } = page;
  const { prefix, reason } = filter;
  const direction = before === null ? 'asc' : 'desc';
  const statement =
    reason === null
      ? `${OF_ALL} order by address_key ${direction} limit $6`
      : `${OF_REASON} order by ${KEY_OF_REASON} ${direction} limit $6`;
  const found = await db.query<Suppression>(statement, [
    scope.projectId,
    scope.environment,
    addressKey(after ?? ''),
    before === null ? BEYOND : addressKey(before),
    addressKey(prefix ?? ''),
    limit + 1,
    ...(reason === null ? [] : [reason]),
  ]);
  const rows = found.slice(0, limit);
  return { rows: before === null ? rows : rows.toReversed(), hasMore: found.length > limit };
}

export type ImportedSuppression = Pick<Suppression, 'address' | 'reason' | 'expiresAt'> & {
  /** Null, or a time in the future, counts as now. */
  createdAt: Date | null;
};

export type ImportedBatch = {
  added: number;
  expired: readonly number[];
};

// Sorted by key, so that concurrent imports of a file cannot deadlock.
const IMPORT = `
with clock as materialized (select app_now() as now),
input as materialized (
  select distinct on (input.address_key collate "C") input.*
    from json_to_recordset($3::json) as input(
      ord int, address_key text, address text, reason text, created_at timestamptz,
      expires_at timestamptz, event_id uuid)
   order by input.address_key collate "C", input.ord
),
added as (
  insert into suppressions as suppression (project_id, environment, address_key, address, reason,
                                 created_at, expires_at)
  select $1::uuid, $2, input.address_key, input.address, input.reason,
         least(coalesce(input.created_at, clock.now), clock.now), input.expires_at
    from clock, input
   where input.expires_at is null or input.expires_at > clock.now
   order by input.address_key collate "C"
  ${UNLESS_OUTLASTED}
  returning suppression.*
),
${recordHistorySql({ action: 'added', from: 'added', by: `'import'` })},
new_events as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select suppression.project_id, suppression.environment, input.event_id, 1, input.event_id,
         'suppression.added', clock.now,
         ${SUPPRESSION_JSON}
    from clock, added suppression join input on input.address_key collate "C" = suppression.address_key
  returning project_id, environment, subject_id, seq, id, type
),
${FAN_OUT_OF_NEW_EVENTS}
select (select count(*) from added)::int as added,
       (select count(*) from queued_webhooks)::int as "queuedWebhooks",
       (select coalesce(array_agg(input.ord), '{}') from input, clock where input.expires_at <= clock.now)
         as expired`;

/** Adds the missing addresses. A repeated address counts once. */
export async function importSuppressions(
  db: Queryable,
  scope: Scope,
  entries: readonly ImportedSuppression[],
): Promise<ImportedBatch> {
  const rows = entries.map((entry, index) => ({
    ord: index,
    address_key: addressKey(entry.address),
    address: entry.address,
    reason: entry.reason,
    created_at: entry.createdAt,
    expires_at: entry.expiresAt,
    event_id: newId(),
  }));
  const [result] = await db.query<ImportedBatch>(IMPORT, [
    scope.projectId,
    scope.environment,
    JSON.stringify(rows),
  ]);
  if (!result) throw new Error('an import returned no result for its batch');
  return result;
}

/** Emails to one address that must fail within QUOTA_DAYS. */
export const QUOTA_FAILURES = 5;
export const QUOTA_DAYS = 7;
const SUPPRESSED_DAYS = 14;

// Serialised, because two concurrent counts would each miss the other's failure.
const LOCK_ADDRESS = `
select pg_advisory_xact_lock(hashtextextended($1::uuid::text || $2 || $3, 0))`;

const RECORD_FAILURE = `
insert into quota_failures (project_id, environment, address_key, email_id, failed_at)
values ($1, $2, $3, $4, app_now())
on conflict do nothing
returning app_now() + interval '${SUPPRESSED_DAYS} days' as until`;

const COUNT_FAILURES = `
select count(*)::int as failures from quota_failures
 where project_id = $1 and environment = $2 and address_key = $3
   and failed_at > app_now() - interval '${QUOTA_DAYS} days'`;

/**
 * Records that an email failed permanently because of a full mailbox, after its outcome is settled. Idempotent per
 * email.
 * @returns whether the address was suppressed because of it
 */
export function noteQuotaFailure(
  db: Pick<Database, 'transaction'>,
  failure: Scope & { emailId: string; address: string },
): Promise<boolean> {
  const { address, emailId } = failure;
  const scope = { projectId: failure.projectId, environment: failure.environment };
  const key = [scope.projectId, scope.environment, addressKey(address)];
  return db.transaction(async (tx) => {
    await tx.query(LOCK_ADDRESS, key);
    const [recorded] = await tx.query<{ until: Date }>(RECORD_FAILURE, [...key, emailId]);
    if (!recorded) return false;
    const [count] = await tx.query<{ failures: number }>(COUNT_FAILURES, key);
    if (!count || count.failures < QUOTA_FAILURES) return false;
    const { isNew } = await addSuppressionIn(tx, scope, {
      address,
      reason: 'hard_bounce',
      sourceEmailId: emailId,
      expiresAt: recorded.until,
      by: 'delivery',
    });
    return isNew;
  });
}

/** Notes a full mailbox after its outcome was settled. Never rejects: nobody can repeat it, so an error is logged. */
export async function countFullMailbox(
  { db, log }: { db: Pick<Database, 'transaction'>; log: Pick<Logger, 'warn'> },
  failure: Scope & { emailId: string; address: string },
): Promise<void> {
  await noteQuotaFailure(db, failure).catch((error: unknown) => {
    log.warn(
      { email_id: failure.emailId, err: error },
      'this worker could not count a full mailbox; suppressing the address takes one more failure',
    );
  });
}

export const deleteOldQuotaFailures = batchDelete(
  'quota_failures',
  `failed_at <= app_now() - interval '${QUOTA_DAYS} days' order by failed_at`,
);
