/**
 * The database that a backup is restored into.
 *
 * The whole restore is one transaction: the schema of the backup by migrations, the partitions, the rows by COPY, the
 * migrations that are newer than the backup, and the changes of `putOnHold`. A mark is committed before it
 * (database/server/restore-mark.ts), and the transaction removes the mark. So an interrupted restore leaves the
 * database empty and unusable until the restore is repeated.
 */
import type { Writable } from 'node:stream';
import type pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { createWeeks } from '../../database/partitions.ts';
import { requireSessions } from '../../database/server/connect.ts';
import { tryAdvisoryLock } from '../../database/advisory-locks.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../../database/database.ts';
import { migrateTo, readVersion } from '../../migration/migrate.ts';
import { hasRestoreMark, RESTORE_TABLE } from '../../database/server/restore-mark.ts';
import { RefusedDatabase } from '../../database/server/refused-database.ts';
import { SCHEMA_KNOWN } from '../../migration/schema-version.ts';
import { ARRIVAL_TABLE } from '../../database/server/move-marks.ts';
import { putOnHold } from './hold.ts';
import { type JournalRow, replayJournal } from './journal-rows.ts';
import type { BackupColumn, BackupTable, SnapshotFacts } from './snapshot.ts';

export type RestoreTarget = AsyncDisposable & {
  /** Commits the mark. From here on, the database is unusable until `commit`. */
  begin(facts: SnapshotFacts): Promise<void>;
  write(table: BackupTable): Writable & { rowCount: number };
  migrate(): Promise<void>;
  replay(rows: readonly JournalRow[]): Promise<{ suppressions: number; keys: number }>;
  commit(): Promise<void>;
};

/**
 * Connects to a target.
 * @throws RefusedDatabase when it has data, or another restore is running; nothing was changed
 */
export async function openRestoreTarget(address: DatabaseAddress): Promise<RestoreTarget> {
  const client = await connectAsOwner(address, 'restore');
  try {
    const db = clientQueries(client);
    await requireSessions(client, () => connectAsOwner(address, 'restore'));
    await db.query('set statement_timeout = 0');
    await takeRestoreLock(db);
    await refuseData(db);
    let facts: SnapshotFacts | null = null;
    return {
      begin: async (snapshotFacts) => {
        facts = snapshotFacts;
        await db.query(`create table if not exists ${RESTORE_TABLE} (only_row boolean)`);
        await db.query('begin');
        await makeSchema(db, snapshotFacts);
      },
      write: (table) => writeTable(client, table),
      migrate: () => migrateTo(db, SCHEMA_KNOWN),
      replay: (rows) => replayJournal(db, rows),
      commit: async () => {
        await putOnHold(db, facts!);
        await db.query(`drop table ${RESTORE_TABLE}`);
        await db.query(`drop table if exists ${ARRIVAL_TABLE}`); // left by an abandoned move
        await db.query('commit');
        await db.query('analyze');
      },
      [Symbol.asyncDispose]: () => client.end(),
    };
  } catch (error) {
    await client.end();
    throw error;
  }
}

export async function takeRestoreLock(db: Queryable): Promise<void> {
  if (await tryAdvisoryLock(db, 'restore')) return;
  throw new RefusedDatabase(
    'Another restore or move into this database is running. Wait until it ends.',
  );
}

async function refuseData(db: Queryable): Promise<void> {
  if (await hasRestoreMark(db)) return;
  if ((await readVersion(db)) === 0) return;
  throw new RefusedDatabase(
    'This database has data, and a restore needs an empty one. Set LETTERHAUS_DATA_DIR to a new folder, or DATABASE_URL to an empty database.',
  );
}

export async function makeSchema(
  db: Queryable,
  { schema, weeks, tables }: SnapshotFacts,
): Promise<void> {
  await migrateTo(db, schema);
  await createWeeks(db, weeks);
  for (const { name, columns } of tables) {
    requireColumns(name, columns, await columnsOf(db, name));
    await db.query(`delete from ${name}`);
  }
}

const COLUMNS = `
select attname as name, format_type(atttypid, atttypmod) as type
  from pg_attribute
 where attrelid = to_regclass(quote_ident($1)) and attnum > 0 and not attisdropped`;

function columnsOf(db: Queryable, table: string): Promise<BackupColumn[]> {
  return db.query<BackupColumn>(COLUMNS, [table]);
}

/** Names from the file get into statements only when the catalog lists them. */
function requireColumns(
  table: string,
  expected: readonly BackupColumn[],
  present: readonly BackupColumn[],
): void {
  const missing = expected.find(
    ({ name, type }) => !present.some((one) => one.name === name && one.type === type),
  );
  if (missing === undefined && expected.length === present.length) return;
  throw new RefusedDatabase(
    `The table ${JSON.stringify(table)} of the backup does not match its schema, so another program made the backup.`,
  );
}

export function writeTable(client: pg.Client, { name, columns }: BackupTable) {
  const list = columns.map((column) => column.name).join(', ');
  return copyIn(client, `${name} (${list})`);
}

export function copyIn(client: pg.Client, into: string) {
  const rows = client.query(copyFrom(`copy ${into} from stdin (format binary)`));
  // Without a listener, a connection that ends without a writer would end the process.
  return rows.on('error', () => {});
}
