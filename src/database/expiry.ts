/**
 * Deletes expired rows in batches, so that no statement runs for long, and finds rows by their age. The list of what
 * expires is in retention/retention-store.ts.
 */
import type { Queryable } from './database.ts';
import { firstUuidAt } from './ids.ts';

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

const READ_TIME = `
select extract(epoch from app_now() - $1::int * interval '1 hour')::float8 * 1000 as ms`;

/** Returns the first id that is not older than this. */
export async function readIdBefore(db: Queryable, ageH: number): Promise<string> {
  const [row] = await db.query<{ ms: number }>(READ_TIME, [ageH]);
  return firstUuidAt(row?.ms ?? 0);
}
