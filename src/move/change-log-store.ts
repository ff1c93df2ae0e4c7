/**
 * Logs the keys of rows that change while a database is copied.
 *
 * A trigger on each table stores the key of every inserted, changed or deleted row in a table beside it
 * (`letterhaus_moving_<table>`). The mover takes the keys in rounds, each from one snapshot. A key and the state of its
 * row become visible by the same commit, so no change is missed, and later commits are in the next round. The log
 * tables are unlogged. A crash of the server empties them, but also breaks the mover's connection, which ends the move.
 *
 * A killed mover leaves its triggers. Nodes remove them (`removeDeadLog`) when nobody has its advisory lock.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { tryAdvisoryLock } from '../database/advisory-locks.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
  sqlStateOf,
} from '../database/database.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import type { AbortOptions } from '../database/server/watched-session.ts';

/** Columns that identify a row: the primary key, or a unique index. Null when the table has neither. */
export type Key = readonly string[] | null;

const LOG_PREFIX = 'letterhaus_moving_';
/** Shorter than PostgreSQL's deadlock_timeout of 1 s, so that in a deadlock this side gives up and not a node. */
export const LOCK_TIMEOUT_MS = 500;
const ATTEMPTS_MAX = 30;
const RETRY_MS = 500;
/** A lock timeout, a deadlock, and a catalog row that another session changes (XX000). */
const CONTENDED = new Set(['55P03', '40P01', 'XX000']);

const READ_KEYS = `
select distinct on (pg_class.relname) pg_class.relname as name,
       array(select pg_attribute.attname::text
               from unnest(pg_index.indkey::int2[]) with ordinality as key_column(number, place)
               join pg_attribute on attrelid = pg_class.oid and attnum = key_column.number
              order by key_column.place) as key
  from pg_class
  join pg_index on pg_index.indrelid = pg_class.oid
 where pg_class.relnamespace = current_schema()::regnamespace and pg_class.relname = any($1)
   and pg_index.indisunique and pg_index.indpred is null and pg_index.indexprs is null
   and not exists (select from unnest(pg_index.indkey::int2[]) as key_column(number)
                     join pg_attribute on attrelid = pg_class.oid and attnum = key_column.number
                    where not attnotnull)
 order by pg_class.relname, pg_index.indisprimary desc, pg_index.indexrelid`;

export async function readKeys(
  db: Queryable,
  tables: readonly string[],
): Promise<ReadonlyMap<string, Key>> {
  const rows = await db.query<{ name: string; key: string[] }>(READ_KEYS, [tables]);
  const found = new Map(rows.map(({ name, key }) => [name, key]));
  return new Map(tables.map((name) => [name, found.get(name) ?? null]));
}

export function logTableOf(table: string): string {
  return LOG_PREFIX + table;
}

export async function installLog(db: Queryable, keys: ReadonlyMap<string, Key>): Promise<void> {
  const [row] = await db.query<{ schema: string }>(
    'select quote_ident(current_schema()) as schema',
  );
  for (const [table, key] of keys) {
    if (key !== null) await runWithRetries(db, installStatements(row!.schema, table, key));
  }
}

function installStatements(schema: string, table: string, key: readonly string[]): string {
  const log = logTableOf(table);
  const values = (row: 'new' | 'old') => `(${key.map((column) => `${row}.${column}`).join(', ')})`;
  const insertKey = (row: 'new' | 'old') => `insert into ${schema}.${log} values ${values(row)};`;
  return `
    create unlogged table ${log} as select ${key.join(', ')} from ${table} with no data;
    create function ${log}() returns trigger language plpgsql
      security definer set search_path = pg_catalog, pg_temp as
    $$ begin
      if tg_op = 'DELETE' then
        ${insertKey('old')}
      else
        ${insertKey('new')}
        if tg_op = 'UPDATE' then
          if ${values('old')} is distinct from ${values('new')} then
            ${insertKey('old')}
          end if;
        end if;
      end if;
      return null;
    end $$;
    create trigger ${log} after insert or update or delete on ${table}
      for each row execute function ${log}();`;
}

const FIND_LOGS = `
select proname as name from pg_proc
 where pronamespace = current_schema()::regnamespace and prorettype = 'trigger'::regtype
   and proname like '${LOG_PREFIX.replaceAll('_', '\\_')}%'
 order by proname`;

/**
 * Removes the log of this mover or of a killed one. First it empties the functions, which waits for no reader. Then it
 * drops triggers and tables.
 */
export async function removeLog(db: Queryable): Promise<void> {
  const logs = await db.query<{ name: string }>(FIND_LOGS);
  for (const { name } of logs) {
    await db.query(
      `create or replace function ${name}() returns trigger language plpgsql as $$ begin return null; end $$`,
    );
  }
  for (const { name } of logs) {
    await runWithRetries(db, `drop function ${name}() cascade; drop table if exists ${name};`);
  }
}

const HAS_LOG = `
select exists (select from pg_proc where pronamespace = current_schema()::regnamespace
                  and prorettype = 'trigger'::regtype
                  and proname like '${LOG_PREFIX.replaceAll('_', '\\_')}%')
       as "isThere"`;

/** Removes the log of a killed mover, from a running service. @returns whether there was one */
export async function removeDeadLog(
  db: Queryable,
  address: DatabaseAddress,
  abortOptions: AbortOptions = {},
): Promise<boolean> {
  const [found] = await db.query<{ isThere: boolean }>(HAS_LOG);
  if (found?.isThere !== true) return false;
  const client = await connectAsOwner(address, 'end of a move', abortOptions);
  try {
    const owner = clientQueries(client);
    if (!(await tryAdvisoryLock(owner, 'move'))) return false;
    await removeLog(owner);
    return true;
  } finally {
    await client.end();
  }
}

/** Runs statements in a transaction that waits only briefly for a lock, and retries until they succeed. */
async function runWithRetries(db: Queryable, statements: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await db.query('begin');
      await db.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
      await db.query(statements);
      await db.query('commit');
      return;
    } catch (error) {
      await db.query('rollback').catch(() => {});
      if (!isContended(error)) throw error;
      if (attempt === ATTEMPTS_MAX) {
        throw new RefusedDatabase(
          'Another session keeps a lock on the tables for too long. Let it end, and try again.',
        );
      }
    }
    await pause(RETRY_MS);
  }
}

/** Returns whether another session was in the way, so that a retry may succeed. */
export function isContended(error: unknown): boolean {
  return CONTENDED.has(sqlStateOf(error) ?? '');
}
