/**
 * The database that is moved into. All rows arrive in one transaction. A mark is committed before it
 * (database/server/move-marks.ts). With the rows, the mark gets the id of the move, and it stays until the old
 * database is fenced. If the mover ends earlier, the target is empty or complete, and in both cases unusable until the
 * move is repeated.
 */
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type pg from 'pg';
import { copyIn, makeSchema, takeRestoreLock, writeTable } from '../backup/store/restore-target.ts';
import {
  type BackupTable,
  createdByMigrations,
  type SnapshotFacts,
} from '../backup/store/snapshot.ts';
import { createWeeks, readWeeks, type Weeks } from '../database/partitions.ts';
import { isServerUnsuitable, requireSessions } from '../database/server/connect.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
  translateError,
} from '../database/database.ts';
import { refuseServer, readVersion } from '../migration/migrate.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { ARRIVAL_TABLE, tableExists } from '../database/server/move-marks.ts';
import { type Change, countRows, type KeyedTable } from './source-store.ts';

const WITHOUT_LIMITS = `
set statement_timeout = 0; set idle_in_transaction_session_timeout = 0; set idle_session_timeout = 0;
set lock_timeout = 0`;

const CONNECTIONS = `
select current_setting('max_connections')::int as max,
       (current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - (select coalesce(sum(numbackends), 0) from pg_stat_database where datname is not null))::int
         as free`;

/** The changed rows are few, so they are looked up by their keys. */
const BY_INDEX = `
set local enable_hashjoin = @; set local enable_mergejoin = @; set local enable_seqscan = @`;

/** Events of the new system sort after all events of the old one (events/order-store.ts). */
const NEW_EPOCH = `
update installation
   set xact_era = xact_era + 1, system_id = nullif(split_part(database_history(), '/', 1), '')
returning xact_era as epoch`;

export class MoveTarget implements AsyncDisposable {
  readonly #client: pg.Client;
  readonly #db: Queryable;

  private constructor(client: pg.Client) {
    this.#client = client;
    this.#db = clientQueries(client);
  }

  /** @throws RefusedDatabase when this server or database cannot be moved into; nothing was changed */
  static async open(
    address: DatabaseAddress,
    options: { acceptAnyDurability: boolean },
  ): Promise<MoveTarget> {
    const client = await connectAsOwner(address, 'move');
    try {
      await requireSessions(client, () => connectAsOwner(address, 'move')).catch(
        (error: unknown) => {
          throw isServerUnsuitable(error) ? error : translateError(error);
        },
      );
      const target = new MoveTarget(client);
      await refuseServer(target.#db, options);
      await target.#db.query(WITHOUT_LIMITS);
      await takeRestoreLock(target.#db);
      return target;
    } catch (error) {
      await client.end();
      throw error;
    }
  }

  /** Returns whether this move has filled the database already, so that only the last step is missing. */
  async isFilledBy(moveId: string): Promise<boolean> {
    if (!(await tableExists(this.#db, ARRIVAL_TABLE))) return false;
    const rows = await this.#db.query(`select from ${ARRIVAL_TABLE} where filled_by = $1`, [
      moveId,
    ]);
    return rows.length > 0;
  }

  /**
   * Refuses a database with data. Rows of an interrupted move from the same database do not count: they are out of
   * date.
   * @throws RefusedDatabase
   */
  async refuseData(fromName: string): Promise<void> {
    if ((await readVersion(this.#db)) === 0) return;
    if (!(await tableExists(this.#db, ARRIVAL_TABLE))) {
      throw new RefusedDatabase(
        'The target has data, and a move needs an empty database. Name another one.',
      );
    }
    const others = await this.#db.query(`select from ${ARRIVAL_TABLE} where from_place <> $1`, [
      fromName,
    ]);
    if (others.length === 0) return;
    throw new RefusedDatabase(
      'The target has the rows of an unfinished move from another database. Repeat that move, or name an empty database.',
    );
  }

  /** Nodes cannot follow to a server with too few connections. @throws RefusedDatabase */
  async requireConnections(needed: number): Promise<void> {
    const [server] = await this.#db.query<{ max: number; free: number }>(CONNECTIONS);
    if (server === undefined || server.free >= needed) return;
    throw new RefusedDatabase(
      `The target has ${server.free} free connections (max_connections ${server.max}), and the nodes have ${needed} open. Raise the limit there.`,
    );
  }

  async begin(facts: SnapshotFacts): Promise<void> {
    await this.#db.query(
      `create table if not exists ${ARRIVAL_TABLE} (filled_by uuid not null, from_place text not null)`,
    );
    await this.#db.query('begin');
    if ((await readVersion(this.#db)) > 0) await this.#empty();
    await makeSchema(this.#db, facts);
  }

  /** Removes the tables and functions of an earlier move, and nothing that migrations did not create. */
  async #empty(): Promise<void> {
    await this.#db.query(`delete from ${ARRIVAL_TABLE}`);
    await this.#db.query(`drop table if exists ${createdByMigrations('table').join(', ')} cascade`);
    const functions = await this.#db.query<{ name: string }>(
      `select oid::regprocedure::text as name from pg_proc
        where pronamespace = current_schema()::regnamespace and proname = any($1)`,
      [createdByMigrations('function')],
    );
    for (const { name } of functions) await this.#db.query(`drop function ${name} cascade`);
    await this.#db.query('drop table if exists schema_migrations');
  }

  write(table: BackupTable): Writable & { rowCount: number } {
    return writeTable(this.#client, table);
  }

  /** Gives the first statements after the switch good plans. */
  async analyze(tables: readonly BackupTable[]): Promise<void> {
    await this.#db.query(`analyze ${tables.map(({ name }) => name).join(', ')}`);
  }

  /** Applies the changes of a round: deletes rows from the last table to the first, then inserts and updates. */
  async apply(changes: readonly Change[], weeks: Weeks): Promise<void> {
    await this.#addWeeks(weeks);
    for (const { table, rows, deletedKeys } of changes) {
      const { name, key, columns } = table;
      const lists = { rows: columns.map((column) => column.name), gone: [...key] };
      await this.#loadTemporary(`moved_rows_${name}`, {
        of: name,
        columns: lists.rows,
        from: rows,
      });
      await this.#loadTemporary(`moved_gone_${name}`, {
        of: name,
        columns: lists.gone,
        from: deletedKeys,
      });
    }
    await this.#db.query(BY_INDEX.replaceAll('@', 'off'));
    for (const { table } of changes.toReversed()) await this.#db.query(deleteRowsStatement(table));
    for (const { table } of changes) await this.#db.query(upsertRowsStatement(table));
    for (const { table } of changes) {
      await this.#db.query(`drop table moved_rows_${table.name}, moved_gone_${table.name}`);
    }
    await this.#db.query(BY_INDEX.replaceAll('@', 'on'));
  }

  async #addWeeks(weeks: Weeks): Promise<void> {
    const present = await readWeeks(this.#db);
    const missing = Object.entries(weeks).map(([table, list]) => [
      table,
      list.filter((week) => !present[table]?.includes(week)),
    ]);
    await createWeeks(this.#db, Object.fromEntries(missing) as Weeks);
  }

  async #loadTemporary(
    name: string,
    { of, columns, from }: { of: string; columns: string[]; from: () => Readable },
  ): Promise<void> {
    const list = columns.join(', ');
    await this.#db.query(
      `create temporary table ${name} on commit drop as select ${list} from ${of} with no data`,
    );
    await pipeline(from(), copyIn(this.#client, name));
  }

  async replaceRows(table: BackupTable, rows: Readable): Promise<void> {
    await this.#db.query(`delete from ${table.name}`);
    await pipeline(rows, this.write(table));
  }

  countRows(tables: readonly BackupTable[]): Promise<Map<string, number>> {
    return countRows(this.#db, tables);
  }

  /** Commits all rows. The mark stays until `open`. */
  async commitRows({ moveId, fromName }: { moveId: string; fromName: string }): Promise<void> {
    const [row] = await this.#db.query<{ epoch: number }>(NEW_EPOCH);
    await this.#db.query(`alter table events alter column xact_era set default ${row!.epoch}`);
    await this.#db.query(`insert into ${ARRIVAL_TABLE} values ($1, $2)`, [moveId, fromName]);
    await this.#db.query('commit');
  }

  /** Opens the database to nodes. The old database is fenced. */
  async open(): Promise<void> {
    await this.#db.query(`drop table ${ARRIVAL_TABLE}`);
  }

  /** The server rolls back uncommitted rows. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
  }
}

function deleteRowsStatement({ name, key }: Change['table']): string {
  const on = key.map((column) => `stored.${column} = gone.${column}`).join(' and ');
  return `delete from ${name} stored using moved_gone_${name} gone where ${on}`;
}

function upsertRowsStatement({
  name,
  key,
  columns,
}: KeyedTable & { key: readonly string[] }): string {
  const list = columns.map((column) => column.name);
  const others = list.filter((column) => !key.includes(column));
  const change =
    others.length === 0
      ? 'nothing'
      : `update set ${others.map((column) => `${column} = excluded.${column}`).join(', ')}`;
  return `
    insert into ${name} (${list.join(', ')}) select ${list.join(', ')} from moved_rows_${name}
    on conflict (${key.join(', ')}) do ${change}`;
}
