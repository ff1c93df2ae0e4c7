/**
 * The database for one command: the one of DATABASE_URL, else the running service's, else the
 * engine of the data directory, started for this command and stopped after it. Brought to the
 * present schema first, as `posthorn start` does.
 */
import { type Config, readConfig } from '../config/config.ts';
import { Database, DatabaseUnavailable, type DatabaseAddress } from '../store/postgres/database.ts';
import { isUnsuitable } from '../store/postgres/connect.ts';
import { EngineProblem } from '../store/postgres/embedded/problem.ts';
import { connectRunning } from '../store/postgres/embedded/engine.ts';
import { migrate, type MigrationResult } from '../store/postgres/migrate.ts';
import { MigrationRefused } from '../store/postgres/schema-version.ts';
import { usageFailure, type Failure, type Outcome } from './command.ts';
import type { Cli } from './context.ts';

export type Store = { db: Database; config: Config; migrated: MigrationResult };

/** Opens the database, does the work, closes it. What keeps it shut is told as a failure. */
export async function withStore(
  cli: Cli,
  work: (store: Store) => Promise<Outcome>,
): Promise<Outcome> {
  const read = readConfig(cli.env);
  if (!read.ok) return usageFailure(read.problems.join('\n'));
  const { config } = read;
  try {
    if (config.databaseUrl !== null) {
      return await withDatabase({ connectionString: config.databaseUrl }, { cli, config, work });
    }
    await using engine = await connectRunning({
      dataDir: config.dataDir,
      world: cli.world,
      log: (line) => cli.err(`${line}\n`),
    });
    return await withDatabase(engine.connection(), { cli, config, work });
  } catch (error) {
    return whyNotOpen(error);
  }
}

async function withDatabase(
  address: DatabaseAddress,
  { cli, config, work }: { cli: Cli; config: Config; work: (store: Store) => Promise<Outcome> },
): Promise<Outcome> {
  const migrated = await migrate(address, {
    nowMs: cli.world.now(),
    acceptAnyDurability: config.acceptDatabaseDurability,
    log: (sentence) => cli.err(`${sentence}\n`),
  });
  const db = new Database(address, { role: migrated.role, name: 'command' });
  try {
    return await work({ db, config, migrated });
  } finally {
    await db.close();
  }
}

function whyNotOpen(error: unknown): Failure {
  const isOperators = error instanceof EngineProblem || error instanceof MigrationRefused;
  if (isOperators || isUnsuitable(error)) {
    return usageFailure(error.message);
  }
  if (error instanceof DatabaseUnavailable) {
    const message = `${error.message}; check that it runs and that DATABASE_URL is right.`;
    return { failed: message, code: 'service_unavailable', exitCode: 1 };
  }
  throw error;
}
