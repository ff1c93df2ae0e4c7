/**
 * Reads the facts for `letterhaus upgrade-check`, in a session that cannot write. The database may have any earlier or
 * later schema. Columns and tables that it lacks count as empty.
 */
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
  translateError,
} from '../database/database.ts';
import { isServerUnsuitable, requireSessions } from '../database/server/connect.ts';
import type { TableEffect } from './effects.ts';

/**
 * Runs `work` in a session of the owner that PostgreSQL makes read-only.
 * @throws UnsuitableServer when a pooler keeps no sessions, so that the statements might not be read-only
 * @throws DatabaseUnavailable
 */
export async function withReadOnlySession<Result>(
  address: DatabaseAddress,
  work: (db: Queryable) => Promise<Result>,
): Promise<Result> {
  const connect = () => connectAsOwner(address, 'upgrade check');
  const client = await connect();
  try {
    await requireSessions(client, connect).catch((error: unknown) => {
      throw isServerUnsuitable(error) ? error : translateError(error);
    });
    const db = clientQueries(client);
    await db.query('set session characteristics as transaction read only');
    return await work(db);
  } finally {
    await client.end();
  }
}

export type InstallationFacts = {
  schemaRequired: number;
  lastBackupAt: Date | null;
  lastBackupPlace: string | null;
};

const INSTALLATION = `
select schema_required as "schemaRequired",
       (to_jsonb(installation) ->> 'last_backup_at')::timestamptz as "lastBackupAt",
       to_jsonb(installation) ->> 'last_backup_place' as "lastBackupPlace"
  from installation`;

export async function readInstallation(db: Queryable): Promise<InstallationFacts> {
  const [row] = await db.query<InstallationFacts>(INSTALLATION);
  return row!;
}

/** Returns why the last backup failed; null when it did not, or when the schema has no conditions yet. */
export async function readBackupFailure(db: Queryable): Promise<string | null> {
  const [table] = await db.query<{ isThere: boolean }>(
    `select to_regclass('operator_conditions') is not null as "isThere"`,
  );
  if (table?.isThere !== true) return null;
  const [row] = await db.query<{ message: string }>(
    `select message from operator_conditions where type = 'backup.failed' order by since limit 1`,
  );
  return row?.message ?? null;
}

export type NodeFacts = {
  instance: string;
  host: string;
  /** Version of Letterhaus; null for versions that do not store it. */
  version: string | null;
  schemaKnown: number;
  workers: number;
  heartbeats: number;
};

const NODES = `
select instance, host, to_jsonb(nodes) ->> 'version' as version, schema_known as "schemaKnown",
       count(*)::int as workers, sum(beat)::float8 as heartbeats
  from nodes
 group by 1, 2, 3, 4
 order by 2, 1`;

/** Lists workers by machine and version, including workers of a killed service until others expire them. */
export function listNodeFacts(db: Queryable): Promise<NodeFacts[]> {
  return db.query<NodeFacts>(NODES);
}

export type TableSize = {
  table: string;
  /** PostgreSQL's latest estimate; null before the first one. */
  rows: number | null;
  /** Including indexes. */
  bytes: number;
};

const SIZES = `
select measured.name as table, sum(pg_total_relation_size(leaf.relid))::float8 as bytes,
       case when bool_or(pg_class.reltuples >= 0)
            then sum(greatest(pg_class.reltuples, 0))::float8 end as rows
  from unnest($1::text[]) as measured(name)
 cross join lateral pg_partition_tree(to_regclass(measured.name)) leaf
  join pg_class on pg_class.oid = leaf.relid
 where leaf.isleaf
 group by measured.name`;

export async function readTableSizes(
  db: Queryable,
  effects: readonly TableEffect[],
): Promise<Map<string, TableSize>> {
  const names = [...new Set(effects.map(({ table }) => table))];
  const rows = await db.query<TableSize>(SIZES, [names]);
  return new Map(rows.map((row) => [row.table, row]));
}

export type ServerFacts = {
  version: string;
  major: number;
  bytes: number;
  dataDirectory: string | null;
};

/** Only superusers may see the folder, so it is known for the embedded database. */
const SERVER = `
select current_setting('server_version') as version,
       current_setting('server_version_num')::int / 10000 as major,
       pg_database_size(current_database())::float8 as bytes,
       (select setting from pg_settings where name = 'data_directory') as "dataDirectory"`;

export async function readServer(db: Queryable): Promise<ServerFacts> {
  const [row] = await db.query<ServerFacts>(SERVER);
  return row!;
}
