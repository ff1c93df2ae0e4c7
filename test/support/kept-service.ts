/**
 * The service that test files share: where it is, and who starts it. Its own part of it a file gets
 * from shared-service.ts. Held by service-keeper.ts: one for a whole run (test/runner/run.ts passes
 * its address to the test processes), or one for a test file that is run alone.
 */
import { fileURLToPath } from 'node:url';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { type Kept, keptElsewhere, startKeeper } from './keeper.ts';
import type { Env } from './letterhaus.ts';

/** The service of this run, as JSON; set by test/runner/run.ts, inherited by test processes. */
export const SHARED_SERVICE = 'TEST_SERVICE';

const KEEPER = fileURLToPath(new URL('service-keeper.ts', import.meta.url));

/** What service-keeper.ts prints. */
export type KeptService = {
  url: string;
  /** Its database, as the owner. */
  address: DatabaseAddress;
  /** For the command line on the same data. */
  env: Env;
  /** Its stderr so far. */
  logFile: string;
};

/**
 * The service that is there, else a new one that lives as long as this process, or until it is stopped.
 * @param env for its keeper: which database server it uses
 */
export async function findService(env: Record<string, string> = {}): Promise<Kept<KeptService>> {
  const { [SHARED_SERVICE]: shared } = process.env;
  if (shared) return keptElsewhere(JSON.parse(shared) as KeptService);
  return startKeeper<KeptService>(KEEPER, env);
}
