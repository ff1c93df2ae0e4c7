/**
 * Which schema this code knows, and which one the database requires.
 *
 * Nodes of two versions work on one database while an installation is upgraded. Code works on a schema
 * that is ahead of it as long as the schema has only grown; before a migration takes something away,
 * another one raises `installation.schema_required`, and older code ends in order.
 * Apart from migrate.ts, because every worker needs it and none migrates.
 */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Queryable } from './database.ts';

/** This code cannot use this database, or not now: a sentence for the operator. */
export class MigrationRefused extends Error {
  override readonly name = 'MigrationRefused';
}

export const MIGRATIONS = fileURLToPath(new URL('../../../migrations/', import.meta.url));

/** The version of the newest migration in a folder. */
export function newestIn(folder: string): number {
  return Math.max(...readdirSync(folder).map((file) => Number(/^\d+/.exec(file)?.[0] ?? 0)));
}

/** Read when the code is loaded: an upgrade may replace the folder under a running service. */
export const SCHEMA_KNOWN = newestIn(MIGRATIONS);

/** The newest migration that running code has to know. Only for a database that was migrated. */
export async function schemaRequired(db: Queryable): Promise<number> {
  const text = 'select schema_required as required from installation';
  const [row] = await db.query<{ required: number }>(text);
  return row?.required ?? 0;
}

/** Null when this code may work with what the database asks for. */
export function outdatedProblem(required: number, known: number = SCHEMA_KNOWN): string | null {
  if (required <= known) return null;
  return (
    `The database was migrated for a newer version of Posthorn: it asks for schema ${required}, ` +
    `this version knows ${known}. Start the newer version.`
  );
}

/** How many workers run code that does not know this schema. */
export async function countOlderNodes(db: Queryable, required: number): Promise<number> {
  const text = 'select count(*)::int as count from nodes where schema_known < $1';
  const [row] = await db.query<{ count: number }>(text, [required]);
  return row?.count ?? 0;
}
