/**
 * Reads, pauses and fences the old database of a move: its copy, the changes since then, the pause of the nodes, and
 * the end of its use.
 *
 * One connection lives as long as the move. It has the advisory locks that show a running move (`move`) and pause the
 * nodes (`movePause`). Later it has the transaction that locks all tables against writes and commits the fence. If the
 * mover ends before that commit, the server undoes all of it and nodes continue.
 */
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import {
  type BackupTable,
  copyOut,
  listTables,
  machineTables,
  openSnapshot,
  readTable,
  type Snapshot,
} from '../backup/store/snapshot.ts';
import {
  commitAsHeartbeat,
  expireWorker,
  listWorkers,
  releaseOrphans,
} from '../delivery/queue/worker-store.ts';
import { readWeeks, type Weeks } from '../database/partitions.ts';
import { ADVISORY_LOCKS, tryAdvisoryLock } from '../database/advisory-locks.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../database/database.ts';
import { readVersion } from '../migration/migrate.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { SCHEMA_KNOWN } from '../migration/schema-version.ts';
import { type Departure, refuseUnusable } from '../database/server/move-marks.ts';
import {
  installLog,
  isContended,
  LOCK_TIMEOUT_MS,
  type Key,
  logTableOf,
  readKeys,
  removeLog,
} from './change-log-store.ts';
import { raiseFence } from './fence-store.ts';

export type KeyedTable = BackupTable & { key: Key };

export type Change = {
  table: KeyedTable & { key: readonly string[] };
  /** The current rows, in the binary form of COPY. */
  rows: () => Readable;
  /** The keys of deleted rows. */
  deletedKeys: () => Readable;
};

export type Round = { changes: Change[]; keys: number; weeks: Weeks };

/** Statements may take as long as the tables are large. Only locks have a limit. */
const WITHOUT_LIMITS = `
set statement_timeout = 0; set idle_in_transaction_session_timeout = 0; set idle_session_timeout = 0`;

/** The changed rows are few, so they are looked up by their keys. */
const BY_INDEX = 'set enable_hashjoin = off; set enable_mergejoin = off; set enable_seqscan = off';

const KEEP_LOCK_EVERY_MS = 5_000;
const POLL_EVERY_MS = 100;
/** Time after which other nodes call a silent node dead (service/maintenance). */
const DEAD_AFTER_MS = 15_000;

/** The heartbeat of each worker, and when it was first seen, in time that was waited. */
type Heartbeats = Map<string, { beat: number; sinceMs: number }>;

/** Name of the session that has the locks, in `pg_stat_activity`. */
const SESSION_NAME = 'move';
const LOCK_TRIES_MAX = 300;

const LOCK_HOLDER = `
select session.application_name as name
  from pg_locks lock join pg_stat_activity session on session.pid = lock.pid
 where lock.locktype = 'advisory' and lock.granted
   and lock.classid = 0 and lock.objid = ${ADVISORY_LOCKS.move}
   and session.datname = current_database()`;

export class MoveSource implements AsyncDisposable {
  readonly #address: DatabaseAddress;
  readonly #keeper: pg.Client;
  readonly #reader: pg.Client;
  readonly #db: Queryable;
  /** Tables to copy; referenced tables come first. */
  tables: KeyedTable[] = [];
  #hasLog = false;
  #isFenced = false;

  private constructor(address: DatabaseAddress, keeper: pg.Client, reader: pg.Client) {
    this.#address = address;
    this.#keeper = keeper;
    this.#reader = reader;
    this.#db = clientQueries(keeper);
  }

  static async open(address: DatabaseAddress): Promise<MoveSource> {
    const keeper = await connectAsOwner(address, SESSION_NAME);
    const reader = await connectAsOwner(address, 'move reader').catch(async (error: unknown) => {
      await keeper.end();
      throw error;
    });
    const source = new MoveSource(address, keeper, reader);
    try {
      await source.#begin();
      return source;
    } catch (error) {
      await source[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #begin(): Promise<void> {
    await this.#db.query(WITHOUT_LIMITS);
    await clientQueries(this.#reader).query(`${WITHOUT_LIMITS}; ${BY_INDEX}`);
    await refuseUnusable(this.#db);
    await this.#requireSchema();
    await this.#takeMoveLock();
    // A week that is removed during the copy would be missing in it.
    await this.#db.query('set lock_timeout = 0');
    await this.#db.query('select pg_advisory_lock($1)', [ADVISORY_LOCKS.retention]);
  }

  /** Waits for a node that removes a killed mover's log, but not for another mover. */
  async #takeMoveLock(): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      if (await tryAdvisoryLock(this.#db, 'move')) return;
      const [holder] = await this.#db.query<{ name: string }>(LOCK_HOLDER);
      if (holder?.name === `letterhaus ${SESSION_NAME}` || attempt === LOCK_TRIES_MAX) {
        throw new RefusedDatabase('Another move of this database is running. Wait until it ends.');
      }
      await pause(POLL_EVERY_MS);
    }
  }

  /** Migrations of this version create the copy, so the rows must have its schema. */
  async #requireSchema(): Promise<void> {
    const schema = await readVersion(this.#db);
    if (schema === SCHEMA_KNOWN) return;
    throw new RefusedDatabase(
      schema === 0
        ? 'The database is empty: there is nothing to move.'
        : `The database has schema ${schema}, and this version of Letterhaus ${SCHEMA_KNOWN}. Move it with the version that runs on it.`,
    );
  }

  async countSessions(): Promise<number> {
    const [row] = await this.#db.query<{ count: number }>(SESSIONS);
    return row?.count ?? 0;
  }

  async measure(): Promise<{ bytes: number; open: number; tables: Map<string, number> }> {
    await using snapshot = await openSnapshot(this.#address);
    const { bytes, open, facts } = snapshot;
    return { bytes, open: open.queued, tables: await countRows(this.#db, facts.tables) };
  }

  /** Logs changes from now on, and opens the snapshot to copy. The caller disposes of it. */
  async openCopy(): Promise<Snapshot> {
    await removeLog(this.#db); // left by a killed mover
    const tables = await listTables(this.#db);
    const keys = await readKeys(
      this.#db,
      tables.map(({ name }) => name),
    );
    this.tables = tables.map((table) => ({ ...table, key: keys.get(table.name) ?? null }));
    this.#hasLog = true;
    await installLog(this.#db, keys);
    return openSnapshot(this.#address);
  }

  /** Keeps the locks of the move while other connections work. @throws when they are lost */
  async whileLocked<Result>(work: Promise<Result>): Promise<Result> {
    work.catch(() => {}); // awaited below, unless the locks are lost before
    for (;;) {
      const timer = new AbortController();
      const tick = pause(KEEP_LOCK_EVERY_MS, false as const, { signal: timer.signal }).catch(
        () => false as const,
      );
      const isDone = await Promise.race([work.then(() => true), tick]);
      timer.abort();
      if (isDone) return await work;
      await this.#db.query('select 1');
    }
  }

  /** Passes the changes since the last round to `work`, from one snapshot, while mail flows. */
  async readRound(work: (round: Round) => Promise<void>): Promise<number> {
    const db = clientQueries(this.#reader);
    await db.query('begin isolation level repeatable read');
    try {
      const round = await this.#readChanges(this.#reader);
      await work(round);
      for (const { table } of round.changes)
        await db.query(`delete from ${logTableOf(table.name)}`);
      await db.query('commit');
      return round.keys;
    } catch (error) {
      await db.query('rollback').catch(() => {});
      throw error;
    }
  }

  async #readChanges(client: pg.Client): Promise<Round> {
    const db = clientQueries(client);
    const changes: Change[] = [];
    let keys = 0;
    for (const { key, ...table } of this.tables) {
      if (key === null) continue;
      const changedKeys = `(select distinct ${key.join(', ')} from ${logTableOf(table.name)})`;
      const [row] = await db.query<{ count: number }>(
        `select count(*)::int as count from ${changedKeys} changed`,
      );
      if (row === undefined || row.count === 0) continue;
      keys += row.count;
      const columns = table.columns.map(({ name }) => `present.${name}`).join(', ');
      const on = key.map((column) => `present.${column} = changed.${column}`).join(' and ');
      const keyColumns = key.map((column) => `changed.${column}`).join(', ');
      const read = (text: string) => copyOut(client, text);
      changes.push({
        table: { ...table, key },
        rows: () =>
          read(`select ${columns} from ${changedKeys} changed join ${table.name} present on ${on}`),
        deletedKeys: () =>
          read(
            `select ${keyColumns} from ${changedKeys} changed
              where not exists (select from ${table.name} present where ${on})`,
          ),
      });
    }
    return { changes, keys, weeks: await readWeeks(db) };
  }

  /** Makes nodes stop claiming and sending, and release work that has not begun. They still accept mail. */
  async pauseNodes(): Promise<void> {
    await this.#db.query('select pg_advisory_lock($1)', [ADVISORY_LOCKS.movePause]);
  }

  /**
   * Waits until no node has claimed mail or webhooks. Releases the work of dead nodes, as other nodes would.
   * @returns the number of recipients and webhooks that are still claimed at the end of the time
   */
  async waitUntilIdle(timeoutMs: number): Promise<number> {
    const heartbeats: Heartbeats = new Map();
    let waitedMs = 0;
    for (;;) {
      const claimed = await countClaimed(this.#db);
      if (claimed === 0 || waitedMs >= timeoutMs) return claimed;
      await this.#releaseWorkOfDeadNodes(heartbeats, waitedMs);
      await pause(POLL_EVERY_MS);
      waitedMs += POLL_EVERY_MS;
    }
  }

  async #releaseWorkOfDeadNodes(heartbeats: Heartbeats, waitedMs: number): Promise<void> {
    // Silence is evidence only while heartbeats can be stored. `waitedMs` does not count the time of this commit.
    await commitAsHeartbeat(this.#db);
    for (const { id, beat } of await listWorkers(this.#db)) {
      const heartbeat = heartbeats.get(id);
      if (heartbeat?.beat !== beat) heartbeats.set(id, { beat, sinceMs: waitedMs });
      else if (waitedMs - heartbeat.sinceMs >= DEAD_AFTER_MS)
        await expireWorker(this.#db, { id, beat });
    }
    if (waitedMs >= DEAD_AFTER_MS) await releaseOrphans(this.#db);
  }

  /**
   * Locks all tables against writes until `depart` or `unlock`. Requests that write wait.
   * @returns false when a node has claimed work meanwhile, or a lock timed out: nothing is locked
   */
  async lock(): Promise<boolean> {
    await this.#db.query('begin');
    try {
      await this.#db.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
      await this.#db.query(
        `lock table ${this.#fencedTables.join(', ')} in share row exclusive mode`,
      );
      await this.#requireSchema();
      if ((await countClaimed(this.#db)) === 0) return true;
    } catch (error) {
      if (!isContended(error)) throw error;
    }
    await this.unlock();
    return false;
  }

  get #fencedTables(): string[] {
    return [...this.tables.map(({ name }) => name), ...machineTables()];
  }

  async readLastRound(): Promise<Round> {
    await this.#db.query(BY_INDEX);
    return this.#readChanges(this.#keeper);
  }

  read(table: BackupTable): Readable {
    return readTable(this.#keeper, table);
  }

  async countRows(): Promise<Map<string, number>> {
    await this.#db.query('reset enable_seqscan');
    return countRows(this.#db, this.tables);
  }

  async unlock(): Promise<void> {
    await this.#db.query('rollback');
  }

  /** Commits the fence. From here on, nothing is written to this database. */
  async depart(departure: Omit<Departure, 'at'>): Promise<void> {
    await raiseFence(this.#db, this.#fencedTables, departure);
    await this.#db.query('commit');
    this.#isFenced = true;
  }

  /** Unless it was left: ends the pause and removes all traces of the move. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      if (!this.#isFenced) {
        await this.#db.query('rollback');
        await this.#db.query('select pg_advisory_unlock($1)', [ADVISORY_LOCKS.movePause]);
        if (this.#hasLog) await removeLog(this.#db);
      }
    } catch {
      // A node removes the log (change-log-store.ts).
    } finally {
      await this.#reader.end();
      await this.#keeper.end();
    }
  }
}

const SESSIONS = `
select count(*)::int as count from pg_stat_activity
 where datname = current_database() and application_name ~ '^letterhaus (?!move)'`;

const CLAIMED = `
select ((select count(*) from queue where holder is not null)
        + (select count(*) from webhook_queue where holder is not null))::int as claimed`;

async function countClaimed(db: Queryable): Promise<number> {
  const [row] = await db.query<{ claimed: number }>(CLAIMED);
  return row?.claimed ?? 0;
}

export async function countRows(
  db: Queryable,
  tables: readonly BackupTable[],
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { name } of tables) {
    const [row] = await db.query<{ count: number }>(`select count(*) as count from ${name}`);
    counts.set(name, row?.count ?? 0);
  }
  return counts;
}

/** Nodes see the pause without asking the mover. It ends with a mover that dies, whose lock is released. */
const STATE = `
select to_regclass('letterhaus_departure') is not null as "hasMoved",
       exists (select from pg_locks
                where locktype = 'advisory' and granted
                  and classid = 0 and objid = ${ADVISORY_LOCKS.movePause}
                  and database = (select oid from pg_database where datname = current_database()))
         as "isPaused"`;

export type MoveState = { hasMoved: boolean; isPaused: boolean };

export async function readMoveState(db: Queryable): Promise<MoveState> {
  const [row] = await db.query<MoveState>({ name: 'move', text: STATE });
  return row ?? { hasMoved: false, isPaused: false };
}
