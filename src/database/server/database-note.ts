/**
 * The note database.json, which says that a data directory had a database. The service writes it once it has opened
 * its database. A start that finds the note but an empty database, or none, refuses to create one. The cause may be a
 * volume that is not mounted, or a DATABASE_URL that is missing or wrong. A new installation there would accept mail
 * without its keys, suppressions and queued emails.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const NOTE_FILE = 'database.json';
const UNKNOWN_NAME = 'not known';

/** @param databaseName for display: `embedded`, or an address without its password */
export function writeDatabaseNote(dataDir: string, databaseName: string): void {
  if (readNote(dataDir) === databaseName) return;
  const temporaryFile = join(dataDir, `${NOTE_FILE}.new`);
  const file = openSync(temporaryFile, 'w', 0o600);
  try {
    writeSync(file, `${JSON.stringify({ database: databaseName })}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(temporaryFile, join(dataDir, NOTE_FILE));
}

/** Returns why this data directory must not get a new database, as a sentence, or null when it may get one. */
export function findNewDatabaseProblem(dataDir: string): string | null {
  const databaseName = readNote(dataDir);
  if (databaseName === null) return null;
  return (
    `The data directory ${dataDir} had a database before (${databaseName}), and this one is empty: ` +
    'mount its volume, correct DATABASE_URL, or restore a backup. ' +
    `To begin with an empty database, remove ${join(dataDir, NOTE_FILE)}.`
  );
}

/** Returns the name of this data directory's database; null when it had none or its note is unreadable. */
export function readKnownDatabase(dataDir: string): string | null {
  const databaseName = readNote(dataDir);
  return databaseName === UNKNOWN_NAME ? null : databaseName;
}

/** Returns null only when there is no note. An unreadable note counts as one. */
function readNote(dataDir: string): string | null {
  try {
    const note = JSON.parse(readFileSync(join(dataDir, NOTE_FILE), 'utf8')) as {
      database?: unknown;
    };
    return typeof note.database === 'string' ? note.database : UNKNOWN_NAME;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : UNKNOWN_NAME;
  }
}
