/**
 * The schema that this code supports, and the one that the database requires.
 *
 * During an upgrade, nodes of two versions use one database. Code works with a newer schema that only adds to its own.
 * Before a migration removes something, an earlier one raises `installation.schema_required`, and older code stops in
 * an orderly way. Separate from migrate.ts, because every worker needs it and none migrates.
 */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Queryable } from '../database/database.ts';

export const MIGRATIONS_DIR = fileURLToPath(new URL('../../migrations/', import.meta.url));

export function findNewestMigration(folder: string): number {
  return Math.max(...readdirSync(folder).map((file) => Number(/^\d+/.exec(file)?.[0] ?? 0)));
}

/** Read when the code is loaded, because an upgrade may replace the folder while the service runs. */
export const SCHEMA_KNOWN = findNewestMigration(MIGRATIONS_DIR);

/** Returns the newest migration that running code has to support. Only for a migrated database. */
export async function readRequiredSchema(db: Queryable): Promise<number> {
  const text = 'select schema_required as required from installation';
  const [row] = await db.query<{ required: number }>(text);
  return row?.required ?? 0;
}

export function findOutdatedProblem(required: number, known: number = SCHEMA_KNOWN): string | null {
  if (required <= known) return null;
  return (
    `The database was migrated for a newer version of Letterhaus: it requires schema ${required}, ` +
    `this version supports ${known}. Start the newer version.`
  );
}

export function listOlderNodes(
  db: Queryable,
  required: number,
): Promise<{ id: string; beat: number }[]> {
  return db.query('select id, beat from nodes where schema_known < $1', [required]);
}
