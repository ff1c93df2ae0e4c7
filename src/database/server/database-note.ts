/**
 * The note database.json, which says that a data directory had a database. The service writes it once it has opened
 * its database. A start that finds the note but an empty database, or none, refuses to create one. The cause may be a
 * volume that is not mounted, or a DATABASE_URL that is missing or wrong. A new installation there would accept mail
 * without its keys, suppressions and queued emails.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const NOTE_FILE = 'database.json';
const UNKNOWN_PLACE = 'not known';

/** @param place for display: `embedded`, or an address without its password */
export function writeDatabaseNote(dataDir: string, place: string): void {
  if (readNote(dataDir) === place) return;
  const temporaryFile = join(dataDir, `${NOTE_FILE}.new`);
  const file = openSync(temporaryFile, 'w', 0o600);
  try {
    writeSync(file, `${JSON.stringify({ database: place })}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporaryFile, join(dataDir, NOTE_FILE));
}

/** Returns why this data directory must not get a new database, as a sentence; null: it may. */
export function findNewDatabaseProblem(dataDir: string): string | null {
  const place = readNote(dataDir);
  if (place === null) return null;
  return (
    `The data directory ${dataDir} had a database before (${place}), and this one is empty: ` +
    'mount its volume, correct DATABASE_URL, or restore a backup. ' +
    `To begin with an empty database, remove ${join(dataDir, NOTE_FILE)}.`
  );
}

/** Returns the place of this data directory's database; null when it had none or its note is unreadable. */
export function readKnownPlace(dataDir: string): string | null {
  const place = readNote(dataDir);
  return place === UNKNOWN_PLACE ? null : place;
}

/** Returns null only when there is no note. An unreadable note counts as one. */
function readNote(dataDir: string): string | null {
  try {
    const note = JSON.parse(readFileSync(join(dataDir, NOTE_FILE), 'utf8')) as {
      database?: unknown;
    };
    return typeof note.database === 'string' ? note.database : UNKNOWN_PLACE;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : UNKNOWN_PLACE;
  }
}
