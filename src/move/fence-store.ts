/**
 * The fence around a database that was moved: triggers that refuse every write to every table, whichever version of
 * Letterhaus writes and whether or not it knows of the move, and a row that says where the data is now. Both are
 * committed at once. The whole address is sealed by the secret key, so that only nodes of this installation can follow.
 */
import { DEPARTURE, type Departure, EMBEDDED } from '../database/server/usable.ts';
import type { Queryable } from '../database/database.ts';
import type { SecretBox } from '../secrets/secret-store.ts';

/** What a node that follows needs to know. `instance`: of the data directory that has it (secrets/secret-store.ts). */
export type Destination = { url: string } | { instance: string };

/** It is sealed for this row id. */
const ROW = 'departure';

export function sealDestination(secrets: SecretBox, to: Destination): Buffer {
  return secrets.seal(JSON.stringify(to), ROW);
}

/** @throws SecretUnopenable */
export function openDestination(secrets: SecretBox, sealed: Buffer): Destination {
  return JSON.parse(secrets.open(sealed, ROW)) as Destination; // nobody else can seal it
}

/** A node with this configuration has the database that `place` names. */
export function destinationOf(url: string | null, instance: string): Destination {
  return url === null ? { instance } : { url };
}

/** As a server says that it accepts no writes: nodes answer 503 and repeat what they could not write. */
const READ_ONLY = '25006';

/** In the transaction that holds the locks on all of these tables. */
export async function raiseFence(
  tx: Queryable,
  tables: readonly string[],
  { moveId, place, sealed }: Omit<Departure, 'at'>,
): Promise<void> {
  const where = place === EMBEDDED ? 'the embedded database of a node' : place;
  const sentence = `this database was moved to ${where}`.replaceAll("'", "''");
  await tx.query(
    `create table ${DEPARTURE} (move_id uuid not null, place text not null, sealed bytea not null, at timestamptz not null)`,
  );
  await tx.query(`insert into ${DEPARTURE} values ($1, $2, $3, now())`, [moveId, place, sealed]);
  await tx.query(`
    create function ${DEPARTURE}() returns trigger language plpgsql as
    $$ begin raise exception using errcode = '${READ_ONLY}', message = '${sentence}'; end $$`);
  for (const table of tables) {
    await tx.query(
      `create trigger ${DEPARTURE} before insert or update or delete on ${table}
         for each statement execute function ${DEPARTURE}()`,
    );
  }
}

/** Makes a database usable again, in a transaction of the caller. */
export async function removeFence(tx: Queryable): Promise<void> {
  await tx.query(`drop function if exists ${DEPARTURE}() cascade`);
  await tx.query(`drop table if exists ${DEPARTURE}`);
}
