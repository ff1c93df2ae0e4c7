/**
 * Addresses that get no more mail, per project and environment. Entries that a receiver's answer
 * makes are written by settle-statement.ts; here they are listed, added by hand and removed, each
 * change with its event in the same transaction. An entry that has expired does not exist.
 */
import type { Scope } from '../core/scope.ts';
import type { Database, Queryable } from './database.ts';
import { recordEvent } from './events.ts';

export type SuppressionReason = 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';

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

const COLUMNS = `address, reason, source_email_id as "sourceEmailId", created_at as "createdAt",
       expires_at as "expiresAt"`;

const LIST = `
select ${COLUMNS} from suppressions
 where project_id = $1 and environment = $2 and address_key > lower($3 collate "C")
   and (expires_at is null or expires_at > app_now())
 order by address_key
 limit $4`;

/**
 * By address, in alphabetical order.
 * @param page.after only what comes after this address; '' begins
 * @returns up to `limit + 1` rows: the last one says that there is more
 */
export function listSuppressions(
  db: Queryable,
  scope: Scope,
  { limit, after }: { limit: number; after: string },
): Promise<Suppression[]> {
  return db.query<Suppression>(LIST, [scope.projectId, scope.environment, after, limit + 1]);
}

const FIND = `
select ${COLUMNS} from suppressions
 where project_id = $1 and environment = $2 and address_key = lower($3 collate "C")
   and (expires_at is null or expires_at > app_now())`;

const ADD = `
insert into suppressions as s (project_id, environment, address_key, address, reason, created_at)
values ($1, $2, lower($3 collate "C"), $3, 'manual', app_now())
on conflict (project_id, environment, address_key) do update
   set address = excluded.address, reason = excluded.reason, created_at = excluded.created_at,
       source_email_id = null, expires_at = null
 where s.expires_at <= excluded.created_at
returning ${COLUMNS}`;

/**
 * Suppresses an address by hand. One that is suppressed already stays as it is.
 * @param address as mail/address.ts wrote it: its domain as A-labels
 */
export function addSuppression(
  db: Database,
  scope: Scope,
  address: string,
): Promise<{ suppression: Suppression; isNew: boolean }> {
  const values = [scope.projectId, scope.environment, address];
  return db.transaction(async (tx) => {
    const [added] = await tx.query<Suppression>(ADD, values);
    if (added) {
      await recordEvent(tx, { scope, type: 'suppression.added', data: presentSuppression(added) });
      return { suppression: added, isNew: true };
    }
    const [present] = await tx.query<Suppression>(FIND, values);
    if (!present) throw new Error('a suppression was neither added nor there');
    return { suppression: present, isNew: false };
  });
}

const REMOVE = `
delete from suppressions
 where project_id = $1 and environment = $2 and address_key = lower($3 collate "C")
   and (expires_at is null or expires_at > app_now())
returning ${COLUMNS}`;

/** Lets an address have mail again; null when it was not suppressed. */
export function removeSuppression(
  db: Database,
  scope: Scope,
  address: string,
): Promise<Suppression | null> {
  return db.transaction(async (tx) => {
    const values = [scope.projectId, scope.environment, address];
    const [removed] = await tx.query<Suppression>(REMOVE, values);
    if (!removed) return null;
    await recordEvent(tx, {
      scope,
      type: 'suppression.removed',
      data: presentSuppression(removed),
    });
    return removed;
  });
}

/** As JSON, on events and for programs. settle-statement.ts writes the same. */
export function presentSuppression(suppression: Suppression) {
  return {
    address: suppression.address,
    reason: suppression.reason,
    source_email_id: suppression.sourceEmailId,
    created_at: suppression.createdAt.toISOString(),
    expires_at: suppression.expiresAt?.toISOString() ?? null,
  };
}
