/**
 * Addresses that get no more mail, per project and environment. Entries that a receiver's answer
 * makes are written by settle.ts, whole files by suppression-import.ts; here single ones
 * are found, added and removed, each change with its event and its line in the history in one
 * statement. An entry that has expired does not exist.
 */
import type { Scope } from '../core/scope.ts';
import type { Database, Queryable } from './postgres/database.ts';
import { recordEvent } from './events.ts';
import { type ChangedBy, remember } from './suppression-history.ts';

export const SUPPRESSION_REASONS = ['hard_bounce', 'complaint', 'unsubscribe', 'manual'] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

export type Suppression = {
  /** As it was written when it was added; compared without regard to upper and lower case. */
  address: string;
  reason: SuppressionReason;
  /** The email that was answered so; null when it was added by hand. */
  sourceEmailId: string | null;
  createdAt: Date;
  /** null: never. */
  expiresAt: Date | null;
};

export type NewSuppression = Pick<Suppression, 'address' | 'reason' | 'expiresAt'> & {
  /** null: added without one. */
  sourceEmailId: string | null;
  by: ChangedBy;
};

/** The columns of a suppression as a row of it. */
export const SUPPRESSION_COLUMNS = `address, reason, source_email_id as "sourceEmailId",
       created_at as "createdAt", expires_at as "expiresAt"`;

/**
 * What happens to an entry `s` that is there already: it stays, unless it has expired or would end
 * one day and the new one never does. Whoever unsubscribes from an address that bounced for a week
 * must not get mail again after it.
 */
export const UNLESS_OUTLASTED = `
  on conflict (project_id, environment, address_key) do update
     set address = excluded.address, reason = excluded.reason,
         source_email_id = excluded.source_email_id, created_at = excluded.created_at,
         expires_at = excluded.expires_at
   where s.expires_at <= app_now() or (s.expires_at is not null and excluded.expires_at is null)`;

const FIND = `
select ${SUPPRESSION_COLUMNS} from suppressions
 where project_id = $1 and environment = $2 and address_key = lower($3 collate "C")
   and (expires_at is null or expires_at > app_now())`;

/** The entry of an address; null when it is not suppressed. */
export async function findSuppression(
  db: Queryable,
  scope: Scope,
  address: string,
): Promise<Suppression | null> {
  const [found] = await db.query<Suppression>(FIND, [scope.projectId, scope.environment, address]);
  return found ?? null;
}

const ADD = `
with t as materialized (select app_now() as now),
added as (
  insert into suppressions as s (project_id, environment, address_key, address, reason,
                                 source_email_id, created_at, expires_at)
  select $1, $2, lower($3 collate "C"), $3, $4, $5::uuid, t.now, $6::timestamptz from t
  ${UNLESS_OUTLASTED}
  returning s.*
),
${remember({ action: 'added', from: 'added', by: '$7' })}
select ${SUPPRESSION_COLUMNS} from added`;

/**
 * Suppresses an address. One that is suppressed already stays as it is, unless its entry would end
 * and this one never does.
 * @param entry.address as mail/address.ts wrote it: its domain as A-labels
 */
export function addSuppression(
  db: Database,
  scope: Scope,
  entry: NewSuppression,
): Promise<{ suppression: Suppression; isNew: boolean }> {
  return db.transaction((tx) => addSuppressionIn(tx, scope, entry));
}

/** addSuppression as part of a transaction. */
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
  ]);
  if (added) {
    await recordEvent(tx, { scope, type: 'suppression.added', data: presentSuppression(added) });
    return { suppression: added, isNew: true };
  }
  const present = await findSuppression(tx, scope, address);
  if (!present) throw new Error('a suppression was neither added nor there');
  return { suppression: present, isNew: false };
}

const REMOVE = `
with t as materialized (select app_now() as now),
removed as (
  delete from suppressions
   where project_id = $1 and environment = $2 and address_key = lower($3 collate "C")
     and (expires_at is null or expires_at > app_now()) and reason = any($4::text[])
     and ($6::int is null or $6 > (
           select count(*) from suppression_history h
            where h.project_id = $1 and h.environment = $2 and h.address_key = lower($3 collate "C")
              and h.at > app_now() - interval '1 day' and h.action = 'removed' and h.by = $5))
  returning *
),
${remember({ action: 'removed', from: 'removed', by: '$5' })}
select ${SUPPRESSION_COLUMNS} from removed`;

/**
 * Lets an address have mail again; null when it was not suppressed.
 * @param entry.reasons only an entry with one of these is removed
 * @param entry.perDayMax only if `by` has removed the address fewer times in the last 24 hours. Who removes
 *   an entry sees all removals of earlier ones, so this holds however many ask at once
 */
export function removeSuppression(
  db: Database,
  scope: Scope,
  entry: {
    address: string;
    by: ChangedBy;
    reasons?: readonly SuppressionReason[];
    perDayMax?: number;
  },
): Promise<Suppression | null> {
  const { address, by, reasons = SUPPRESSION_REASONS, perDayMax = null } = entry;
  return db.transaction(async (tx) => {
    const [removed] = await tx.query<Suppression>(REMOVE, [
      scope.projectId,
      scope.environment,
      address,
      reasons,
      by,
      perDayMax,
    ]);
    if (!removed) return null;
    await recordEvent(tx, {
      scope,
      type: 'suppression.removed',
      data: presentSuppression(removed),
    });
    return removed;
  });
}

/** As JSON, on events and for programs. The statements that write many at once write the same. */
export function presentSuppression(suppression: Suppression) {
  return {
    address: suppression.address,
    reason: suppression.reason,
    source_email_id: suppression.sourceEmailId,
    created_at: suppression.createdAt.toISOString(),
    expires_at: suppression.expiresAt?.toISOString() ?? null,
  };
}

/** presentSuppression in SQL, of a row `s`. */
export const SUPPRESSION_JSON = `
         json_build_object('address', s.address, 'reason', s.reason,
                           'source_email_id', s.source_email_id,
                           'created_at', wire_time(s.created_at),
                           'expires_at', wire_time(s.expires_at))`;
