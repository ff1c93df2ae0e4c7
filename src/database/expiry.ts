/** Deletes expired rows in batches, so that no statement runs for long. The list is in retention/retention-store.ts. */
import type { Queryable } from './database.ts';

type Forget = (db: Queryable, limit: number) => Promise<number>;

/** @param which the condition that selects the rows, in SQL; an order may follow it */
export function forgetting(table: string, which: string): Forget {
  const text = `
delete from ${table} where ctid = any(array(
  select ctid from ${table} where ${which} limit $1)) returning 1`;
  return async (db, limit) => (await db.query(text, [limit])).length;
}
