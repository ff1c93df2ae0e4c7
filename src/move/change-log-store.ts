/**
 * The keys of the rows that change while a database is copied.
 *
 * A trigger on each table notes the key of every row that is inserted, changed or deleted, in a table beside it
 * (`letterhaus_moving_<table>`). The mover takes the noted keys in rounds, each from one snapshot: a key and the state of its row
 * become visible by the same commit, so nothing is missed, and what commits later is in the next round. Tables of
 * notes are unlogged: a crash of the server empties them, and ends the move as well, because its connection breaks.
 *
 * A mover that is killed leaves its triggers. Nodes remove them (`removeDeadLog`), which its advisory lock tells.
 */
import { setTimeout as pause } from 'node:timers/promises';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
  sqlStateOf,
} from '../database/database.ts';
import { DatabaseUnusable } from '../database/server/unusable.ts';
import type { Watching } from '../database/server/session.ts';

/** One move at a time; held by the mover. The numbers have to differ from the other advisory locks. */
export const MOVE_LOCK = 0x6d6f7665; // "move"

/** A column list that names each row once: the primary key, or a unique index. Null: the table has none. */
export type Key = readonly string[] | null;

const PREFIX = 'letterhaus_moving_';
/** Shorter than PostgreSQL's deadlock_timeout of 1 s: of two that wait for each other this side gives up, not a node. */
export const LOCK_TIMEOUT_MS = 500;
const TRIES_MAX = 30;
const TRY_AGAIN_MS = 500;
/** A lock timeout, a deadlock, and a catalog row that another session changes (XX000). */
const CONTENDED = new Set(['55P03', '40P01', 'XX000']);

const KEYS = `
select distinct on (c.relname) c.relname as name,
       array(select a.attname::text
               from unnest(i.indkey::int2[]) with ordinality as k(attnum, place)
               join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
              order by k.place) as key
  from pg_class c
  join pg_index i on i.indrelid = c.oid
 where c.relnamespace = current_schema()::regnamespace and c.relname = any($1)
   and i.indisunique and i.indpred is null and i.indexprs is null
   and not exists (select from unnest(i.indkey::int2[]) as k(attnum)
                     join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
                    where not a.attnotnull)
 order by c.relname, i.indisprimary desc, i.indexrelid`;

/** By table. */
export async function readKeys(
  db: Queryable,
  tables: readonly string[],
): Promise<ReadonlyMap<string, Key>> {
  const rows = await db.query<{ name: string; key: string[] }>(KEYS, [tables]);
  const found = new Map(rows.map(({ name, key }) => [name, key]));
  return new Map(tables.map((name) => [name, found.get(name) ?? null]));
}

export function logOf(table: string): string {
  return PREFIX + table;
}

/** Begins to note changes of these tables, each in a short transaction of its own. */
export async function installLog(db: Queryable, keys: ReadonlyMap<string, Key>): Promise<void> {
  const [row] = await db.query<{ schema: string }>(
    'select quote_ident(current_schema()) as schema',
  );
  for (const [table, key] of keys) {
    if (key !== null) await inTurn(db, installOn(row!.schema, table, key));
  }
}

function installOn(schema: string, table: string, key: readonly string[]): string {
  const log = logOf(table);
  const values = (row: 'new' | 'old') => `(${key.map((column) => `${row}.${column}`).join(', ')})`;
  const note = (row: 'new' | 'old') => `insert into ${schema}.${log} values ${values(row)};`;
  return `
    create unlogged table ${log} as select ${key.join(', ')} from ${table} with no data;
    create function ${log}() returns trigger language plpgsql
      security definer set search_path = pg_catalog, pg_temp as
    $$ begin
      if tg_op = 'DELETE' then
        ${note('old')}
      else
        ${note('new')}
        if tg_op = 'UPDATE' then
          if ${values('old')} is distinct from ${values('new')} then
            ${note('old')}
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
   and proname like '${PREFIX.replaceAll('_', '\\_')}%'
 order by proname`;

/**
 * Removes the log of this mover or of one that was killed. First the functions are emptied, which waits for no reader;
 * then triggers and tables go.
 */
export async function removeLog(db: Queryable): Promise<void> {
  const logs = await db.query<{ name: string }>(FIND_LOGS);
  for (const { name } of logs) {
    await db.query(
      `create or replace function ${name}() returns trigger language plpgsql as $$ begin return null; end $$`,
    );
  }
  for (const { name } of logs) {
    await inTurn(db, `drop function ${name}() cascade; drop table if exists ${name};`);
  }
}

const IS_DEAD = `
select exists (select from pg_proc where pronamespace = current_schema()::regnamespace
                  and prorettype = 'trigger'::regtype and proname like '${PREFIX.replaceAll('_', '\\_')}%')
       as "isThere"`;

/**
 * Removes what a killed mover has left, for a running service.
 * @returns whether there was something
 */
export async function removeDeadLog(
  db: Queryable,
  address: DatabaseAddress,
  watching: Watching = {},
): Promise<boolean> {
  const [found] = await db.query<{ isThere: boolean }>(IS_DEAD);
  if (found?.isThere !== true) return false;
  const client = await connectAsOwner(address, 'end of a move', watching);
  try {
    const owner = clientQueries(client);
    const [lock] = await owner.query<{ got: boolean }>('select pg_try_advisory_lock($1) as got', [
      MOVE_LOCK,
    ]);
    if (lock?.got !== true) return false;
    await removeLog(owner);
    return true;
  } finally {
    await client.end();
  }
}

/** Runs statements in a transaction that waits only briefly for a lock, and again until they succeed. */
async function inTurn(db: Queryable, statements: string): Promise<void> {
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
      if (attempt === TRIES_MAX) {
        throw new DatabaseUnusable(
          'Another session holds a lock on the tables for too long: let it end, and try again.',
        );
      }
    }
    await pause(TRY_AGAIN_MS);
  }
}

/** Whether another session was in the way, so that the same may succeed in a moment. */
export function isContended(error: unknown): boolean {
  return CONTENDED.has(sqlStateOf(error) ?? '');
}
