/**
 * The PostgreSQL that tests run on: the one of DATABASE_URL, else an embedded engine held by
 * engine-keeper.ts. One engine serves a whole run (test/runner/run.ts passes its address to the test
 * processes); a test file that is run alone starts its own.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { DatabaseAddress } from '../../src/store/postgres/database.ts';

/** The engine of this run, as JSON; set by test/runner/run.ts, inherited by test processes. */
export const SHARED_ENGINE = 'TEST_ENGINE';

const KEEPER = fileURLToPath(new URL('engine-keeper.ts', import.meta.url));

/** What engine-keeper.ts prints. */
export type KeptEngine = {
  /** A database to connect to for making others, as a user who may. */
  address: DatabaseAddress;
  /** A migrated database to copy; null on a server that is not ours. */
  template: string | null;
};

export type TestEngine = KeptEngine & {
  /** Stops the engine and waits until its files are gone. Ending the process does the same. */
  stop(): Promise<void>;
};

let present: Promise<TestEngine> | null = null;

/** The server for this process's databases, started if there is none yet. */
export function testEngine(): Promise<TestEngine> {
  present ??= findEngine();
  return present;
}

async function findEngine(): Promise<TestEngine> {
  const { DATABASE_URL: url, [SHARED_ENGINE]: shared } = process.env;
  const kept = (engine: KeptEngine) => ({ ...engine, stop: async () => {} });
  if (url) return kept({ address: { connectionString: url }, template: null });
  if (shared) return kept(JSON.parse(shared) as KeptEngine);
  return startEngine();
}

/** Starts an engine that lives as long as this process, or until it is stopped. */
export async function startEngine(): Promise<TestEngine> {
  const keeper = spawn(process.execPath, [KEEPER], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const exit = once(keeper, 'exit');
  const lines = createInterface(keeper.stdout);
  const [line] = (await Promise.race([once(lines, 'line'), exit.then(() => [''])])) as [string];
  if (line === '') throw new Error('the test engine did not start; see its message above');
  // From here on nothing of the keeper holds this process: its end is the keeper's signal.
  lines.close();
  keeper.stdout.destroy();
  keeper.unref();
  return {
    ...(JSON.parse(line) as KeptEngine),
    async stop() {
      keeper.ref();
      keeper.stdin.end();
      await exit;
    },
  };
}
