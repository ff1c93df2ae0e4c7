/**
 * The mark of a restore that has begun: a table. The restore creates it first, and its commit drops it. So a database
 * with the mark is unusable, whatever interrupted the restore.
 */
import type { Queryable } from '../database.ts';
import { RefusedDatabase } from './refused-database.ts';

export const RESTORE_TABLE = 'letterhaus_restore';

export async function hasRestoreMark(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ isThere: boolean }>(
    `select to_regclass('${RESTORE_TABLE}') is not null as "isThere"`,
  );
  return row?.isThere === true;
}

/** @throws RefusedDatabase while the mark is there */
export async function refuseUnfinishedRestore(db: Queryable): Promise<void> {
  if (!(await hasRestoreMark(db))) return;
  throw new RefusedDatabase(
    'A restore into this database is running or was interrupted, so it cannot be used: repeat `letterhaus restore FILE`, or start with an empty database.',
  );
}
