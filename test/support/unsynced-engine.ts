/** A new PostgreSQL server that may lose commits (fsync off), which the embedded engine cannot be. */
import { join } from 'node:path';
import type pg from 'pg';
import { DEFAULT_SEARCH, findEngine, installEngine } from '../../src/database/embedded/binaries.ts';
import { socketAddress } from '../../src/database/embedded/postmaster.ts';
import { ensureCluster, writeConfig } from '../../src/database/embedded/cluster.ts';
import {
  CLOSED_PARENT_HOME,
  prepareDataDir,
  prepareLayout,
} from '../../src/database/embedded/layout.ts';
import {
  commandLine,
  launchServer,
  stopPostmaster,
} from '../../src/database/embedded/postmaster.ts';

const SIZING = { connections: 50, memoryBytes: 1024 ** 3, diskBytes: 25 * 1024 ** 3 };

export type ForgetfulEngine = AsyncDisposable & {
  address(database: string): pg.ClientConfig;
};

/** @param off settings to turn off: `fsync`, `full_page_writes` */
export async function startForgetfulEngine(
  folder: string,
  off: readonly string[],
): Promise<ForgetfulEngine> {
  const log = (): void => {};
  const clock = { monotonicMs: () => performance.now() };
  const layout = prepareLayout(prepareDataDir(folder), CLOSED_PARENT_HOME, log);
  const source = findEngine(DEFAULT_SEARCH, null);
  const binDir = await installEngine(source, layout.databaseDir);
  await ensureCluster(layout, binDir);
  const line = commandLine(layout, source.version, writeConfig(layout.databaseDir, SIZING));
  const launched = await launchServer({
    ...line,
    layout,
    program: join(binDir, 'postgres'),
    args: [...line.args, ...off.flatMap((name) => ['-c', `${name}=off`])],
    log,
    clock,
    stalePidWaitMs: 0,
    signal: new AbortController().signal,
  });
  if ('failed' in launched) throw new Error(launched.failed);
  return {
    address: (database) => socketAddress(layout.socketDir, database),
    [Symbol.asyncDispose]: () => stopPostmaster(launched.postmaster, 'fast', clock),
  };
}
