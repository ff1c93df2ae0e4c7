/**
 * The PostgreSQL of the tests: the server of DATABASE_URL, else an embedded engine that engine-keeper.ts runs. One
 * engine serves a whole run, and test/runner/run.ts passes its address to test processes. A test file that runs
 * alone starts its own.
 */
import { fileURLToPath } from 'node:url';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { type Kept, keptElsewhere, startKeeper } from './keeper.ts';

/** The variable with the engine of this run, as JSON. test/runner/run.ts sets it; test processes inherit it. */
export const SHARED_ENGINE = 'TEST_ENGINE';

/** The variable for engine-keeper.ts with a package.json whose node_modules has another engine. */
export const ENGINE_PACKAGE = 'TEST_ENGINE_PACKAGE';

const KEEPER = fileURLToPath(new URL('engine-keeper.ts', import.meta.url));

export type KeptEngine = {
  /** A database for creating others, with a user who may do so. */
  address: DatabaseAddress;
  /** A migrated database to copy; null on a server that is not ours. */
  template: string | null;
};

let present: Promise<KeptEngine> | null = null;

/** Returns the server for this process's databases; starts it if needed. */
export function testEngine(): Promise<KeptEngine> {
  present ??= findEngine();
  return present;
}

/** Returns the running server, else starts one. */
export async function findEngine(): Promise<Kept<KeptEngine>> {
  const { DATABASE_URL: url, [SHARED_ENGINE]: shared } = process.env;
  if (url) return keptElsewhere({ address: { connectionString: url }, template: null });
  if (shared) return keptElsewhere(JSON.parse(shared) as KeptEngine);
  return startEngine();
}

/**
 * Starts an engine that runs until this process ends or `stop` is called.
 * @param from a package.json whose node_modules has another engine than the service
 */
export function startEngine(from?: string): Promise<Kept<KeptEngine>> {
  return startKeeper<KeptEngine>(KEEPER, from === undefined ? {} : { [ENGINE_PACKAGE]: from });
}
