/**
 * Commands that work on the database, with or without a running service. They use the configuration of the service and
 * migrate the schema as `letterhaus start` does.
 */
import packageFile from '../../package.json' with { type: 'json' };
import { type Cli, type Failure, type CommandResult, usageFailure } from './command.ts';
import { type Config, readConfig } from '../config/config.ts';
import { isServerUnsuitable } from '../database/server/connect.ts';
import { Database, type DatabaseAddress, DatabaseUnavailable } from '../database/database.ts';
import { findNewDatabaseProblem, readKnownDatabase } from '../database/server/database-note.ts';
import { connectRunning, type EngineOptions } from '../database/embedded/engine.ts';
import { EngineProblem } from '../database/embedded/problem.ts';
import { type BackUpBeforeMigration, migrate, type MigrationResult } from '../migration/migrate.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { readSecretKey, SecretKeyProblem } from '../secrets/secret-key-file.ts';
import { EMBEDDED_NAME, settingForDatabase } from '../database/server/move-marks.ts';

export type Store = { db: Database; config: Config; migrated: MigrationResult };
type Work = (store: Store) => Promise<CommandResult>;

/**
 * Opens the database, runs `work`, and closes the database. Fails when the database cannot be opened. The database is
 * that of DATABASE_URL, else of the running service, else the engine of the data directory, which runs for the duration
 * of this command.
 */
export function withStore(cli: Cli, work: Work): Promise<CommandResult> {
  return withAddress(cli, ({ address, config }) => withDatabase(address, { cli, config, work }));
}

/** Opens the database like `withStore`, but refuses a data directory that has none, instead of creating it there. */
export function withExistingStore(cli: Cli, work: Work): Promise<CommandResult> {
  return withAddress(cli, ({ address, config }) => withDatabase(address, { cli, config, work }), {
    mustExist: true,
  });
}

export type ConfiguredDatabase = {
  /** The address for the owner of the database. */
  address: DatabaseAddress;
  config: Config;
  /** The database belongs to a running service; this command did not start it. */
  isInService: boolean;
};

/**
 * Opens the database like `withStore`, but does not migrate it.
 * @param options.mayBeOld accepts the embedded database of a data directory that uses another one
 */
export async function withAddress(
  cli: Cli,
  work: (database: ConfiguredDatabase) => Promise<CommandResult>,
  options: Pick<EngineOptions, 'mayReplaceLost'> & { mayBeOld?: boolean; mustExist?: boolean } = {},
): Promise<CommandResult> {
  const read = readConfig(cli.env);
  if (!read.ok) return usageFailure(read.problems.join('\n'));
  const { config } = read;
  try {
    if (config.databaseUrl !== null) {
      const address = { connectionString: config.databaseUrl };
      return await work({ address, config, isInService: false });
    }
    const { mayReplaceLost = false, mayBeOld = mayReplaceLost } = options;
    const databaseName = readKnownDatabase(config.dataDir);
    if (options.mustExist && findNewDatabaseProblem(config.dataDir) === null)
      return noDatabaseYet(config);
    if (!mayBeOld && databaseName !== null && databaseName !== EMBEDDED_NAME) {
      return usageFailure(
        `The database of ${config.dataDir} is not the embedded one, but ${databaseName}: ${settingForDatabase(databaseName)}.`,
      );
    }
    await using engine = await connectRunning({
      dataDir: config.dataDir,
      world: cli.world,
      log: (line) => cli.err(`${line}\n`),
      mayReplaceLost,
    });
    return await work({ address: engine.address(), config, isInService: engine.isShared });
  } catch (error) {
    return failureToOpen(error);
  }
}

function noDatabaseYet({ dataDir }: Config): Failure {
  return usageFailure(
    `The data directory ${dataDir} has no database. Set LETTERHAUS_DATA_DIR to the data directory of the service, ` +
      'or start the service once.',
  );
}

async function withDatabase(
  address: DatabaseAddress,
  { cli, config, work }: { cli: Cli; config: Config; work: Work },
): Promise<CommandResult> {
  const migrated = await migrate(address, {
    nowMs: cli.world.now(),
    acceptAnyDurability: config.acceptDatabaseDurability,
    newDatabaseProblem: findNewDatabaseProblem(config.dataDir),
    backUp: backUpFor(address, { cli, config }),
    log: (sentence) => cli.err(`${sentence}\n`),
  });
  const db = new Database(address, { role: migrated.role, name: 'command' });
  try {
    return await work({ db, config, migrated });
  } finally {
    await db.close();
  }
}

/** Returns undefined when the operator wants no backup. */
function backUpFor(
  address: DatabaseAddress,
  { cli: { err, world }, config }: { cli: Cli; config: Config },
): BackUpBeforeMigration | undefined {
  if (config.migrateWithoutBackup) return undefined;
  return async (need) => {
    // Loaded only by the few commands that have something to migrate.
    const { backupBeforeMigration } = await import('../backup/before-migration.ts');
    const { dataDir, secretKey, backup } = config;
    const backUp = backupBeforeMigration({
      address,
      dataDir,
      secretKey: () => secretKey ?? readSecretKey(dataDir),
      backup,
      version: packageFile.version,
      world,
      log: (sentence) => err(`${sentence}\n`),
    });
    await backUp(need);
  };
}

function failureToOpen(error: unknown): Failure {
  const isForOperator =
    error instanceof EngineProblem ||
    error instanceof RefusedDatabase ||
    error instanceof SecretKeyProblem;
  if (isForOperator || isServerUnsuitable(error)) {
    return usageFailure(error.message);
  }
  if (error instanceof DatabaseUnavailable) {
    const message = `${error.message}; check that it runs and that DATABASE_URL is right.`;
    return { failed: message, code: 'service_unavailable', exitCode: 1 };
  }
  throw error;
}
