/**
 * Measures the cost of an exercise by statement: milliseconds from the query to its rows, or database pages that it
 * touched. Statements without a name count under the name of the exercise.
 */
import type { Database, Queryable } from '../src/database/database.ts';
import type { ExplainingDatabase } from '../test/support/explaining.ts';
import type { Exercise, Stage } from '../test/support/statements.ts';

/** Cost by statement. A statement that runs several times counts with the sum. */
export type Costs = Map<string, number>;

export async function timeExercise(exercise: Exercise, stage: Stage): Promise<Costs> {
  const costs: Costs = new Map();
  const note = (name: string | undefined, ms: number): void =>
    add(costs, name ?? exercise.what, ms);
  await exercise.run({ ...stage, db: timingDatabase(stage.db, note) });
  return costs;
}

/** Counts the pages from all sources: PostgreSQL's memory, the operating system's memory and the disk. */
export async function countPages(
  exercise: Exercise,
  stage: Stage,
  explaining: ExplainingDatabase,
): Promise<Costs> {
  const costs: Costs = new Map();
  const before = explaining.readings.length;
  await exercise.run({ ...stage, db: explaining.db });
  for (const { name, pagesInAll } of explaining.readings.slice(before)) {
    add(costs, name ?? exercise.what, pagesInAll);
  }
  return costs;
}

function add(costs: Costs, name: string, cost: number): void {
  costs.set(name, (costs.get(name) ?? 0) + cost);
}

function timingDatabase(
  db: Database,
  note: (name: string | undefined, ms: number) => void,
): Database {
  const timed = (queries: Queryable): Queryable => ({
    async query(statement, values) {
      const startedMs = performance.now();
      const rows = await queries.query(statement, values);
      const name = typeof statement === 'string' ? undefined : statement.name;
      note(name, performance.now() - startedMs);
      return rows as never[];
    },
  });
  const parts = ['accepting', 'settling', 'heartbeat', 'webhooks'] as const;
  return {
    ...Object.fromEntries(parts.map((part) => [part, timed(db[part])])),
    ...timed({ query: (statement, values) => db.query(statement, values) }),
    transaction: <Result>(work: (tx: Queryable) => Promise<Result>) =>
      db.transaction((tx) => work(timed(tx))),
  } as unknown as Database;
}
