/** Makes the context of the checks for a command, and opens the database if there is one. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Cli, isFailure } from '../cli/command.ts';
import { withAddress } from '../cli/store.ts';
import type { Config } from '../config/config.ts';
import { withCheckContext, withCheckedDatabase } from '../service/machine/doctor-context.ts';
import type { CheckContext, DatabaseAccess } from './check-context.ts';

type ContextOptions = Pick<CheckContext, 'config' | 'configProblems' | 'domain' | 'isFresh'>;

/** Runs `work` once, with the database open if that is possible. */
export function withContext<Result extends object>(
  cli: Cli,
  options: ContextOptions,
  work: (context: CheckContext) => Promise<Result>,
): Promise<Result> {
  const { world } = cli;
  return withAccess(cli, options.config, (database) =>
    withCheckContext({ ...options, database, world }, work),
  );
}

async function withAccess<Result extends object>(
  cli: Cli,
  { databaseUrl, dataDir }: Config,
  work: (database: DatabaseAccess) => Promise<Result>,
): Promise<Result> {
  if (databaseUrl === null && !existsSync(join(dataDir, 'lock'))) {
    const reason = `There is no installation in ${dataDir} yet: \`letterhaus start\` creates it.`;
    return work({ kind: 'absent', reason });
  }
  const results: Result[] = [];
  const outcome = await withAddress(cli, ({ address }) =>
    withCheckedDatabase(address, async (database) => {
      results.push(await work(database));
      return { data: null, text: '' };
    }),
  );
  const [result] = results;
  if (result !== undefined) return result;
  const reason = isFailure(outcome) ? outcome.failed : 'it ended the session.';
  return work({ kind: 'unreachable', reason });
}
