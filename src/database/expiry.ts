/** Deletes expired rows in batches, so that no statement runs for long. The list is in retention/retention-store.ts. */
import type { Queryable } from './database.ts';

type DeleteBatch = (db: Queryable, limit: number) => Promise<number>;

/**
 * Returns a function that deletes one batch and returns its number of rows.
 * @param condition selects the rows, in SQL; an order may follow it
 */
export function batchDelete(table: string, condition: string): DeleteBatch {
  const text = `
delete from ${table} where ctid = any(array(
  select ctid from ${table} where ${condition} limit $1)) returning 1`;
  return async (db, limit) => (await db.query(text, [limit])).length;
}
