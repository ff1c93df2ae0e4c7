/**
 * Whether a database may be used: not while a restore or a move into it is unfinished, and not after it was
 * moved elsewhere. Each of these states is a table, so it needs no column of ours and is there or not by one commit.
 */
import type { Queryable } from '../database.ts';
import { refuseUnfinishedRestore } from './restore-mark.ts';
import { DatabaseUnusable } from './unusable.ts';

/** In the target of a move: created before anything else, dropped when the old database is fenced. */
export const ARRIVAL = 'letterhaus_arrival';
/** In the old database, committed together with the triggers that refuse all writes (move/fence-store.ts). */
export const DEPARTURE = 'letterhaus_departure';

/** Where a database was moved to. */
export type Departure = {
  moveId: string;
  /** For display: `embedded`, or an address without its password. */
  place: string;
  /** The whole address, sealed by the secret key (move/fence-store.ts). */
  sealed: Buffer;
  at: Date;
};

/** This database was moved: the sentence names the new place. */
export class DatabaseMoved extends DatabaseUnusable {
  readonly departure: Departure;

  constructor(departure: Departure) {
    const { place, at } = departure;
    const day = at.toISOString().slice(0, 16).replace('T', ' ');
    super(
      `This database was moved to ${place === EMBEDDED ? 'the embedded database of a node' : place} at ${day} UTC and takes no more writes: ${settingFor(place)}.`,
    );
    this.departure = departure;
  }
}

/** The place of the embedded database, as the note in a data directory names it. */
export const EMBEDDED = 'embedded';

/** What an operator changes to use the new database. */
export function settingFor(place: string): string {
  return place === EMBEDDED
    ? 'unset DATABASE_URL on that node'
    : `set DATABASE_URL to ${place}, with its password`;
}

/** A move into this database is not finished. */
export class MoveUnfinished extends DatabaseUnusable {
  constructor() {
    super(
      'A move into this database is running or was interrupted, so it cannot be used: repeat `letterhaus move`, or start with an empty database.',
    );
  }
}

/** @throws DatabaseMoved, or DatabaseUnusable while something unfinished is in it */
export async function refuseUnusable(db: Queryable): Promise<void> {
  await refuseUnfinishedRestore(db);
  if (await isThere(db, ARRIVAL)) throw new MoveUnfinished();
  const departure = await readDeparture(db);
  if (departure !== null) throw new DatabaseMoved(departure);
}

/** Null: the database was not moved. */
export async function readDeparture(db: Queryable): Promise<Departure | null> {
  if (!(await isThere(db, DEPARTURE))) return null;
  const [row] = await db.query<Departure>(
    `select move_id as "moveId", place, sealed, at from ${DEPARTURE}`,
  );
  return row ?? null;
}

export async function isThere(db: Queryable, table: string): Promise<boolean> {
  const [row] = await db.query<{ isThere: boolean }>(
    'select to_regclass($1) is not null as "isThere"',
    [table],
  );
  return row?.isThere === true;
}
