/**
 * Undoes a move without the rows of the new database, for a new database that is lost or does not work. The old one
 * continues as it was at the switch. It is on hold, because the new one may have sent mail that was due since then
 * (backup/store/hold.ts).
 *
 * The new database is fenced first, so that its nodes come back and no two databases are in use. The operator has to
 * give up an unreachable one explicitly.
 */
import { putOnHold } from '../backup/store/hold.ts';
import { listTables, machineTables } from '../backup/store/snapshot.ts';
import { isContended, LOCK_TIMEOUT_MS, removeLog } from './change-log-store.ts';
import { raiseFence, removeFence } from './fence-store.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../database/database.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { type Departure, readDeparture } from '../database/server/move-marks.ts';

export type UndoOptions = {
  old: DatabaseAddress;
  oldName: string;
  /** The address of the old database, for nodes that come back (move/fence-store.ts). */
  sealed: Buffer;
  /** Returns the address of the new database, which is sealed in the old one, or null when it is given up. */
  openNew: (departure: Departure) => Promise<DatabaseAddress | null>;
};

/** @throws RefusedDatabase when it was not moved; DatabaseUnavailable when the new one cannot be reached */
export async function undoMove(options: UndoOptions): Promise<Departure> {
  const client = await connectAsOwner(options.old, 'move');
  try {
    const db = clientQueries(client);
    await db.query('set statement_timeout = 0');
    const departure = await readDeparture(db);
    if (departure === null) {
      throw new RefusedDatabase('This database was not moved: there is nothing to undo.');
    }
    const address = await options.openNew(departure);
    if (address !== null) await fenceNewDatabase(address, departure, options);
    await db.query('begin');
    await removeFence(db);
    await putOnHold(db, { takenAt: departure.at.toISOString() });
    await db.query('commit');
    await removeLog(db);
    return departure;
  } finally {
    await client.end();
  }
}

const ATTEMPTS_MAX = 60;

/** Skips a database that an interrupted undo has fenced. */
async function fenceNewDatabase(
  address: DatabaseAddress,
  { moveId }: Departure,
  { oldName: databaseName, sealed }: UndoOptions,
): Promise<void> {
  const client = await connectAsOwner(address, 'move');
  try {
    const db = clientQueries(client);
    if ((await readDeparture(db))?.moveId === moveId) return;
    const tables = [...(await listTables(db)).map(({ name }) => name), ...machineTables()];
    for (
      let attempt = 1;
      !(await tryFence(db, tables, { moveId, databaseName, sealed }));
      attempt += 1
    ) {
      if (attempt === ATTEMPTS_MAX) {
        throw new RefusedDatabase(
          'The tables of the new database could not be locked in time. Nothing was changed; try again.',
        );
      }
    }
  } finally {
    await client.end();
  }
}

async function tryFence(
  db: Queryable,
  tables: readonly string[],
  departure: Omit<Departure, 'at'>,
): Promise<boolean> {
  try {
    await db.query('begin');
    await db.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await db.query(`lock table ${tables.join(', ')} in share row exclusive mode`);
    await raiseFence(db, tables, departure);
    await db.query('commit');
    return true;
  } catch (error) {
    await db.query('rollback').catch(() => {});
    if (isContended(error)) return false;
    throw error;
  }
}
