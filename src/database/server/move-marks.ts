/**
 * Decides whether a database may be used: not while a restore or a move into it is unfinished, and not after a move to
 * another database. A table marks each of these states, so one commit sets or clears a state without a column of ours.
 */
import type { Queryable } from '../database.ts';
import { refuseUnfinishedRestore } from './restore-mark.ts';
import { RefusedDatabase } from './refused-database.ts';

/** Table in the target of a move: created first, dropped when the old database is fenced. */
export const ARRIVAL_TABLE = 'letterhaus_arrival';
/**
 * Table in the old database. One transaction commits it and the triggers that refuse all writes (move/fence-store.ts).
 */
export const DEPARTURE_TABLE = 'letterhaus_departure';

export type Departure = {
  moveId: string;
  /** For display: `embedded`, or an address without its password. */
  databaseName: string;
  /** The full address, sealed by the secret key (move/fence-store.ts). */
  sealed: Buffer;
  at: Date;
};

/** This database was moved. The message names the new one. */
export class DatabaseMoved extends RefusedDatabase {
  readonly departure: Departure;

  constructor(departure: Departure) {
    const { databaseName, at } = departure;
    const day = at.toISOString().slice(0, 16).replace('T', ' ');
    super(
      `This database was moved to ${databaseName === EMBEDDED_NAME ? 'the embedded database of a node' : databaseName} at ${day} UTC and takes no more writes: ${settingForDatabase(databaseName)}.`,
    );
    this.departure = departure;
  }
}

export const EMBEDDED_NAME = 'embedded';

export function settingForDatabase(databaseName: string): string {
  return databaseName === EMBEDDED_NAME
    ? 'unset DATABASE_URL on that node'
    : `set DATABASE_URL to ${databaseName}, with its password`;
}

/** A move into this database is not finished. */
export class MoveUnfinished extends RefusedDatabase {
  constructor() {
    super(
      'A move into this database is running or was interrupted, so it cannot be used: repeat `letterhaus move`, or start with an empty database.',
    );
  }
}

/** @throws DatabaseMoved, or RefusedDatabase while a restore or a move is unfinished */
export async function refuseUnusable(db: Queryable): Promise<void> {
  await refuseUnfinishedRestore(db);
  if (await tableExists(db, ARRIVAL_TABLE)) throw new MoveUnfinished();
  const departure = await readDeparture(db);
  if (departure !== null) throw new DatabaseMoved(departure);
}

export async function readDeparture(db: Queryable): Promise<Departure | null> {
  if (!(await tableExists(db, DEPARTURE_TABLE))) return null;
  const [row] = await db.query<Departure>(
    `select move_id as "moveId", place as "databaseName", sealed, at from ${DEPARTURE_TABLE}`,
  );
  return row ?? null;
}

export async function tableExists(db: Queryable, table: string): Promise<boolean> {
  const [row] = await db.query<{ isThere: boolean }>(
    'select to_regclass($1) is not null as "isThere"',
    [table],
  );
  return row?.isThere === true;
}
