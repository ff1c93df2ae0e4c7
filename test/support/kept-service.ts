/**
 * The service that test files share: its address, and who starts it. shared-service.ts gives each test file its own
 * part. service-keeper.ts runs it: once for a whole run (test/runner/run.ts passes its address to test processes),
 * or once for a test file that runs alone.
 */
import { fileURLToPath } from 'node:url';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { type Kept, keptElsewhere, startKeeper } from './keeper.ts';
import type { Env } from './letterhaus.ts';

/** The variable with the service of this run, as JSON. test/runner/run.ts sets it; test processes inherit it. */
export const SHARED_SERVICE = 'TEST_SERVICE';

const KEEPER = fileURLToPath(new URL('service-keeper.ts', import.meta.url));

export type KeptService = {
  url: string;
  /** Its database, as the owner. */
  address: DatabaseAddress;
  /** Environment of the command line on the same data. */
  env: Env;
  logFile: string;
};

/**
 * Returns the running service, else starts one that runs until this process ends or `stop` is called.
 * @param env environment of its keeper, which selects the database server
 */
export async function findService(env: Record<string, string> = {}): Promise<Kept<KeptService>> {
  const { [SHARED_SERVICE]: shared } = process.env;
  if (shared) return keptElsewhere(JSON.parse(shared) as KeptService);
  return startKeeper<KeptService>(KEEPER, env);
}
