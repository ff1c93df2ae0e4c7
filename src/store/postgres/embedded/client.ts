/**
 * Short conversations with the server: one connection, a few statements, done within seconds.
 */
import pg from 'pg';
import { SUPERUSER } from './cluster.ts';
import { PORT } from './socket-dir.ts';

const TIMEOUT_MS = 10_000;

/** The address of a database behind the socket. `ssl` is said, so that PGSSLMODE is not asked. */
export function addressOf(
  socketDir: string,
  database: string = SUPERUSER,
  user: string = SUPERUSER,
): pg.ClientConfig {
  return { host: socketDir, port: PORT, database, user, ssl: false };
}

/** The same as a connection URL, as psql and DATABASE_URL understand it. */
export function urlOf(socketDir: string, database = SUPERUSER, user = SUPERUSER): string {
  return `postgresql://${user}@${encodeURIComponent(socketDir)}:${PORT}/${database}`;
}

export async function withClient<Result>(
  address: pg.ClientConfig,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({
    ...address,
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
  });
  client.on('error', () => {}); // the query that runs fails too, and says so
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Makes the service's database at the first start; returns the server's version. */
export async function ensureDatabase(socketDir: string): Promise<string> {
  return withClient(addressOf(socketDir, 'postgres'), async (client) => {
    const { rows } = await client.query<{ version: string; exists: boolean }>(
      `select current_setting('server_version') as version,
              exists (select from pg_database where datname = $1) as exists`,
      [SUPERUSER],
    );
    if (!rows[0]?.exists) await client.query(`create database ${SUPERUSER}`);
    return rows[0]?.version ?? '';
  });
}
