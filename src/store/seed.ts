/**
 * Whether this is the first start: decided by the database, under a lock, so that nodes that start
 * together on an empty one make its first content once. What that is: src/service/first-start.ts.
 */
import type { Database, Queryable } from './postgres/database.ts';

/** Any number, the same everywhere, other than the one of migrations. */
const LOCK_KEY = 0x73656564; // "seed"

const HAS_KEYS = 'select exists (select from api_keys) as found';

/**
 * Does the work if no API key was ever made here; null if one was. The work has to make a key
 * through `tx`: it is committed last and says that the work is complete. Work that was cut off is
 * done again, and finds what it had made before.
 */
export async function onFirstStart<Result>(
  db: Database,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result | null> {
  return db.transaction(async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1)', [LOCK_KEY]);
    const [row] = await tx.query<{ found: boolean }>(HAS_KEYS);
    return row?.found === true ? null : work(tx);
  });
}
