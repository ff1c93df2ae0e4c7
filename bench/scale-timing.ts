/** A database that notes how long each statement takes, from the query to its rows. */
import type { Database, Queryable, Statement } from '../src/store/database.ts';

/** Milliseconds, by statement: its name, or what it is used for. */
export type Timings = Map<string, number[]>;

/** @param what names statements that have no name */
export function timingDatabase(db: Database, what: string, timings: Timings): Database {
  const timed = (queries: Queryable): Queryable => ({
    async query(statement, values) {
      const startedMs = performance.now();
      const rows = await queries.query(statement, values);
      note(timings, nameOf(statement, what), performance.now() - startedMs);
      return rows as never[];
    },
  });
  const parts = ['accepting', 'settling', 'beating', 'telling'] as const;
  return {
    ...Object.fromEntries(parts.map((part) => [part, timed(db[part])])),
    ...timed({ query: (statement, values) => db.query(statement, values) }),
    transaction: <Result>(work: (tx: Queryable) => Promise<Result>) =>
      db.transaction((tx) => work(timed(tx))),
  } as unknown as Database;
}

function nameOf(statement: Statement | string, what: string): string {
  return typeof statement === 'string' || statement.name === undefined ? what : statement.name;
}

function note(timings: Timings, name: string, ms: number): void {
  const known = timings.get(name);
  if (known) known.push(ms);
  else timings.set(name, [ms]);
}
