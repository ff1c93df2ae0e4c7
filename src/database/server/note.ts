/**
 * The note in a data directory that it had a database: `database.json`, written when the service has
 * opened it. A start that finds the note and an empty database, or none, refuses to make a new one: a volume
 * that was not mounted, or a DATABASE_URL that is missing or leads elsewhere, must not become an empty
 * installation, which would accept mail and know nothing of keys, suppressions and what waits.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const NAME = 'database.json';
const UNKNOWN = 'not known';

/** @param place for display: `embedded`, or an address without its password */
export function noteDatabase(dataDir: string, place: string): void {
  if (notedPlace(dataDir) === place) return;
  const fresh = join(dataDir, `${NAME}.new`);
  const file = openSync(fresh, 'w', 0o600);
  try {
    writeSync(file, `${JSON.stringify({ database: place })}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(fresh, join(dataDir, NAME));
}

/** Why this data directory must not get a new database, as a sentence; null: it may. */
export function newDatabaseProblem(dataDir: string): string | null {
  const place = notedPlace(dataDir);
  if (place === null) return null;
  return (
    `The data directory ${dataDir} had a database before (${place}), and this one is empty: ` +
    'mount its volume, correct DATABASE_URL, or restore a backup. ' +
    `To begin with an empty database, remove ${join(dataDir, NAME)}.`
  );
}

/** Where the database of this data directory is; null: it had none, or its note cannot be read. */
export function knownPlace(dataDir: string): string | null {
  const place = notedPlace(dataDir);
  return place === UNKNOWN ? null : place;
}

/** Null: it had none. An unreadable note is one. */
function notedPlace(dataDir: string): string | null {
  try {
    const note = JSON.parse(readFileSync(join(dataDir, NAME), 'utf8')) as { database?: unknown };
    return typeof note.database === 'string' ? note.database : UNKNOWN;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : UNKNOWN;
  }
}
