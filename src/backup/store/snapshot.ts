/**
 * Reads the database for a backup: all tables at one moment, while mail flows.
 *
 * One transaction (repeatable read, read only) locks the tables against removal, with a reader's lock, and then takes
 * its snapshot. COPY reads each table in its binary form, which is the same from PostgreSQL 15 on. A backup has rows
 * and no DDL. Migrations create the schema (restore-target.ts), so a backup fits embedded and external databases of any
 * major version.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { readWeeks, type Weeks } from '../../database/partitions.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../../database/database.ts';
import { readVersion } from '../../migration/migrate.ts';
import { refuseUnusable } from '../../database/server/move-marks.ts';
import { RefusedDatabase } from '../../database/server/refused-database.ts';
import { MIGRATIONS_DIR, SCHEMA_KNOWN } from '../../migration/schema-version.ts';

export type BackupColumn = { name: string; type: string };
export type BackupTable = { name: string; columns: BackupColumn[] };

export type SnapshotFacts = {
  schema: number;
  /** Version of the server, for example `18.4`. */
  postgres: string;
  /** Identifier of the database system; null when the server does not show it. */
  system: string | null;
  takenAt: string;
  tables: BackupTable[];
  weeks: Weeks;
};

export type Snapshot = AsyncDisposable & {
  facts: SnapshotFacts;
  /** Size of the tables on disk, without their indexes. */
  bytes: number;
  /** Open recipients, counted in the queue and in the emails. Both counts must be equal. */
  open: { queued: number; counted: number };
  /** Reads the rows of a table. `rowCount` is final at the end. */
  read(table: BackupTable): Readable & { rowCount: number };
};

/**
 * Tables that belong to running machines (their leases, names and keys in memory), and tables that every migration
 * fills itself.
 */
const EXCLUDED_TABLES = [
  'schema_migrations',
  'status_transitions',
  'nodes',
  'providers',
  'mail_hosts',
  'known_secret_keys',
];

/** Opens the snapshot. @throws DatabaseUnavailable, RefusedDatabase when there is nothing to back up */
export async function openSnapshot(address: DatabaseAddress): Promise<Snapshot> {
  const client = await connectAsOwner(address, 'backup');
  try {
    const db = clientQueries(client);
    await db.query('set statement_timeout = 0');
    await refuseUnusable(db);
    const schema = await requireSchema(db);
    const tables = await listTables(db);
    await db.query('begin isolation level repeatable read read only');
    await db.query(`lock table ${tables.map(({ name }) => name).join(', ')} in access share mode`);
    const facts = { schema, ...(await readSystem(db, schema)), tables, weeks: await readWeeks(db) };
    return {
      facts,
      bytes: await tableBytes(db, tables),
      open: await countOpen(db),
      read: (table) => readTable(client, table),
      [Symbol.asyncDispose]: () => client.end(),
    };
  } catch (error) {
    await client.end();
    throw error;
  }
}

async function requireSchema(db: Queryable): Promise<number> {
  const schema = await readVersion(db);
  if (schema > 0 && schema <= SCHEMA_KNOWN) return schema;
  throw new RefusedDatabase(
    schema === 0
      ? 'The database is empty: there is nothing to back up.'
      : `The database has schema ${schema}, and this version of Letterhaus knows ${SCHEMA_KNOWN}. Back it up with the version that runs on it.`,
  );
}

const LIST_TABLES = `
select relname as name,
       json_agg(json_build_object('name', attname, 'type', format_type(atttypid, atttypmod))
                order by attnum) as columns
  from pg_class
  join pg_attribute on pg_attribute.attrelid = pg_class.oid
 where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
   and not relispartition and relname = any($1) and attnum > 0 and not attisdropped
 group by relname
 order by relname`;

const LIST_REFERENCES = `
select distinct referring.relname as from, referred.relname as to
  from pg_constraint reference
  join pg_class referring on referring.oid = reference.conrelid
  join pg_class referred on referred.oid = reference.confrelid
 where reference.contype = 'f'
   and referring.relnamespace = current_schema()::regnamespace and referring.oid <> referred.oid`;

/** Lists the tables to copy, in an order in which foreign keys hold at any time. */
export async function listTables(db: Queryable): Promise<BackupTable[]> {
  const found = await db.query<BackupTable>(LIST_TABLES, [ownTables()]);
  const references = await db.query<{ from: string; to: string }>(LIST_REFERENCES);
  const sorted: BackupTable[] = [];
  const visit = (table: BackupTable): void => {
    if (sorted.includes(table)) return;
    for (const { from, to } of references) {
      const target = found.find(({ name }) => name === to);
      if (from === table.name && target !== undefined) visit(target);
    }
    sorted.push(table);
  };
  for (const table of found) visit(table);
  return sorted;
}

/** Returns the tables that running nodes write and a copy leaves out. */
export function machineTables(): string[] {
  return EXCLUDED_TABLES.filter(
    (name) => name !== 'schema_migrations' && name !== 'status_transitions',
  );
}

/** Returns our tables only: other programs may have tables in the same schema. */
function ownTables(): string[] {
  return createdByMigrations('table').filter((name) => !EXCLUDED_TABLES.includes(name));
}

export function createdByMigrations(kind: 'table' | 'function'): string[] {
  const files = readdirSync(MIGRATIONS_DIR).map((name) =>
    readFileSync(join(MIGRATIONS_DIR, name), 'utf8'),
  );
  const statement = new RegExp(
    `^\\s*create (?:unlogged |or replace )?${kind} (?:if not exists )?(\\w+)`,
    'gim',
  );
  const created = files.flatMap((sql) => [...sql.matchAll(statement)].map(([, name]) => name!));
  return [...new Set(created)];
}

type System = Pick<SnapshotFacts, 'postgres' | 'system' | 'takenAt'>;

/** Migration 18 created the function that reads the database system. */
const systemQuery = (schema: number) => `
select current_setting('server_version') as postgres,
       ${schema >= 18 ? `nullif(split_part(database_history(), '/', 1), '')` : 'null'} as system,
       wire_time(app_now()) as "takenAt"`;

async function readSystem(db: Queryable, schema: number): Promise<System> {
  const [row] = await db.query<System>(systemQuery(schema));
  return row!;
}

const BYTES = `
select coalesce(sum(pg_table_size(relation.oid)), 0)::float8 as bytes
  from unnest($1::text[]) as name
 cross join lateral (
    select relid as oid from pg_partition_tree(name::regclass) where isleaf
    union select name::regclass) relation`;

async function tableBytes(db: Queryable, tables: readonly BackupTable[]): Promise<number> {
  const [row] = await db.query<{ bytes: number }>(BYTES, [tables.map(({ name }) => name)]);
  return row?.bytes ?? 0;
}

const COUNT_OPEN = `
select (select count(*) from queue)::int as queued,
       (select coalesce(sum(open_count), 0) from emails where open_count > 0)::int as counted`;

async function countOpen(db: Queryable): Promise<Snapshot['open']> {
  const [row] = await db.query<Snapshot['open']>(COUNT_OPEN);
  return row!;
}

export function readTable(client: pg.Client, { name, columns }: BackupTable) {
  const list = columns.map((column) => column.name).join(', ');
  return copyOut(client, `select ${list} from ${name}`);
}

export function copyOut(client: pg.Client, text: string) {
  const rows = client.query(copyTo(`copy (${text}) to stdout (format binary)`));
  // Without a listener, a connection that ends without a reader would end the process.
  return rows.on('error', () => {});
}
