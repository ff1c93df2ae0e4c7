/**
 * The fence around a database that was moved. Triggers refuse every write to every table, by any version of Letterhaus.
 * A row has the new address, sealed by the secret key, so that only nodes of this installation can follow. One
 * transaction commits both.
 */
import { DEPARTURE_TABLE, type Departure, EMBEDDED_NAME } from '../database/server/move-marks.ts';
import type { Queryable } from '../database/database.ts';
import type { SecretBox } from '../secrets/secret-box.ts';

/** The new address. `instance` is the id of the data directory that has the database (secrets/secret-key-file.ts). */
export type Destination = { url: string } | { instance: string };

const ROW = 'departure';

export function sealDestination(secrets: SecretBox, to: Destination): Buffer {
  return secrets.seal(JSON.stringify(to), ROW);
}

export function openDestination(secrets: SecretBox, sealed: Buffer): Destination {
  return JSON.parse(secrets.open(sealed, ROW)) as Destination; // only this installation has the key that sealed it
}

export function destinationOf(url: string | null, instance: string): Destination {
  return url === null ? { instance } : { url };
}

/** PostgreSQL's code for a read-only server: nodes respond with 503 and repeat their writes. */
const READ_ONLY = '25006';

export async function raiseFence(
  tx: Queryable,
  tables: readonly string[],
  { moveId, databaseName, sealed }: Omit<Departure, 'at'>,
): Promise<void> {
  const where = databaseName === EMBEDDED_NAME ? 'the embedded database of a node' : databaseName;
  const sentence = `this database was moved to ${where}`.replaceAll("'", "''");
  await tx.query(
    `create table ${DEPARTURE_TABLE} (move_id uuid not null, place text not null, sealed bytea not null, at timestamptz not null)`,
  );
  await tx.query(`insert into ${DEPARTURE_TABLE} values ($1, $2, $3, now())`, [
    moveId,
    databaseName,
    sealed,
  ]);
  await tx.query(`
    create function ${DEPARTURE_TABLE}() returns trigger language plpgsql as
    $$ begin raise exception using errcode = '${READ_ONLY}', message = '${sentence}'; end $$`);
  for (const table of tables) {
    await tx.query(
      `create trigger ${DEPARTURE_TABLE} before insert or update or delete on ${table}
         for each statement execute function ${DEPARTURE_TABLE}()`,
    );
  }
}

export async function removeFence(tx: Queryable): Promise<void> {
  await tx.query(`drop function if exists ${DEPARTURE_TABLE}() cascade`);
  await tx.query(`drop table if exists ${DEPARTURE_TABLE}`);
}
