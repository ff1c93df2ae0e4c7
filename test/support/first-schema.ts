/**
 * A database of the first schema with rows in every table, from which upgrades start. Its migrations are those of
 * migrations/ up to FIRST_SCHEMA, which never change after their release. The rows are in first-schema/. They were
 * recorded from a service that ran on this schema and was killed, so they do not change with the code.
 */
import { createHash } from 'node:crypto';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { migrate } from '../../src/migration/migrate.ts';
import { MIGRATIONS_DIR } from '../../src/migration/schema-version.ts';
import { temporaryFolder } from './embedded.ts';
import { asOwner } from './postgres.ts';

const FOLDER = new URL('first-schema/', import.meta.url);

/** The number of the last migration of the first schema. */
const FIRST_SCHEMA = 11;

type Recorded = {
  /** Ids and times from here on are moved to the time of the test. Earlier ones belong to accounts. */
  mailSince: number;
  recordedAt: number;
  /** The secret key that encrypts DKIM keys and webhook secrets in the rows. */
  secretKey: string;
  liveKey: string;
  signingSecret: string;
  idempotencyKey: string;
  draft: object;
  /** Ids of emails by their outcome. */
  emails: Record<'delivered' | 'bounced' | 'deferred' | 'interrupted', string>;
};

/** Returns `name: sha256` of each file of the first schema. */
export function firstMigrations(): string[] {
  return filesOfFirst().map((name) => {
    const content = readFileSync(join(MIGRATIONS_DIR, name));
    return `${name}: ${createHash('sha256').update(content).digest('hex').slice(0, 16)}`;
  });
}

function filesOfFirst(): string[] {
  return readdirSync(MIGRATIONS_DIR)
    .filter((name) => Number.parseInt(name) <= FIRST_SCHEMA)
    .toSorted();
}

/** Migrates an empty database to the first schema and fills it. @returns the ids and keys of the rows */
export async function makeFirstSchema(address: DatabaseAddress): Promise<Recorded> {
  const folder = temporaryFolder();
  for (const name of filesOfFirst()) cpSync(join(MIGRATIONS_DIR, name), join(folder, name));
  await migrate(address, { nowMs: Date.now(), acceptAnyDurability: true, folder });
  const about = readFileSync(new URL('about.json', FOLDER), 'utf8');
  const { mailSince, recordedAt } = JSON.parse(about) as Recorded;
  const shift = shiftOf({ mailSince, byMs: Date.now() - recordedAt });
  await asOwner(address, (db) =>
    db.query(shift(readFileSync(new URL('data.sql', FOLDER), 'utf8'))),
  );
  return JSON.parse(shift(about)) as Recorded;
}

const UUID_V7 = /\b([0-9a-f]{8})-([0-9a-f]{4})-7(?=[0-9a-f]{3}-[89ab])/g;
const TIME = /\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00)/g;

/** Moves every time and every UUIDv7 of mail in a text. */
function shiftOf({ mailSince, byMs }: { mailSince: number; byMs: number }) {
  return (text: string): string =>
    text
      .replace(UUID_V7, (id, high: string, low: string) => {
        const madeMs = Number.parseInt(high + low, 16);
        if (madeMs < mailSince) return id;
        const hex = (madeMs + byMs).toString(16).padStart(12, '0');
        return `${hex.slice(0, 8)}-${hex.slice(8)}-7`;
      })
      .replace(TIME, (time) =>
        new Date(Date.parse(time.replace(' ', 'T').replace('+00', 'Z')) + byMs).toISOString(),
      );
}

/** Returns all rows of all tables as JSON, with the columns of the first schema that still exist. */
export async function rowsOf(address: DatabaseAddress): Promise<Map<string, object[]>> {
  return asOwner(address, async (db) => {
    const tables = await db.query<{ name: string }>(
      `select relname as name from pg_class
        where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
          and not relispartition and relname <> 'schema_migrations' order by relname`,
    );
    const rows = new Map<string, object[]>();
    for (const { name } of tables) {
      const found = await db.query<{ row: object }>(
        `select to_jsonb(stored) as row from ${name} stored order by to_jsonb(stored)::text`,
      );
      rows.set(
        name,
        found.map(({ row }) => row),
      );
    }
    return rows;
  });
}
