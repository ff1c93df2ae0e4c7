/**
 * The PostgreSQL that tests run on: the one of DATABASE_URL, else an embedded engine held by
 * engine-keeper.ts. One engine serves a whole run (test/runner/run.ts passes its address to the test
 * processes); a test file that is run alone starts its own.
 */
import { fileURLToPath } from 'node:url';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { type Kept, keptElsewhere, startKeeper } from './keeper.ts';

/** The engine of this run, as JSON; set by test/runner/run.ts, inherited by test processes. */
export const SHARED_ENGINE = 'TEST_ENGINE';

/** A package.json whose node_modules has another engine than that of the service; set for engine-keeper.ts. */
export const ENGINE_PACKAGE = 'TEST_ENGINE_PACKAGE';

const KEEPER = fileURLToPath(new URL('engine-keeper.ts', import.meta.url));

/** What engine-keeper.ts prints. */
export type KeptEngine = {
  /** A database to connect to for making others, as a user who may. */
  address: DatabaseAddress;
  /** A migrated database to copy; null on a server that is not ours. */
  template: string | null;
};

let present: Promise<KeptEngine> | null = null;

/** The server for this process's databases, started if there is none yet. */
export function testEngine(): Promise<KeptEngine> {
  present ??= findEngine();
  return present;
}

/** The server that is there, else a new one. */
export async function findEngine(): Promise<Kept<KeptEngine>> {
  const { DATABASE_URL: url, [SHARED_ENGINE]: shared } = process.env;
  if (url) return keptElsewhere({ address: { connectionString: url }, template: null });
  if (shared) return keptElsewhere(JSON.parse(shared) as KeptEngine);
  return startEngine();
}

/**
 * Starts an engine that lives as long as this process, or until it is stopped.
 * @param from a package.json whose node_modules has another engine than that of the service
 */
export function startEngine(from?: string): Promise<Kept<KeptEngine>> {
  return startKeeper<KeptEngine>(KEEPER, from === undefined ? {} : { [ENGINE_PACKAGE]: from });
}
