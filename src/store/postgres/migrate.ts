/**
 * Brings a database to the schema of this version: migrations/ in order, under a lock, each in a
 * transaction of its own that does not wait for locks for long (patient-steps.ts); an empty
 * database in one. Forward only. A database that is ahead of the code is taken as it is, unless it
 * asks for newer code (schema-version.ts).
 *
 * The maintenance connection that runs this owns schema and partitions. The service itself works
 * in APP_ROLE, which can read and write rows and nothing else, where the server lets us make it.
 */
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import Postgrator from 'postgrator';
import { TRANSITIONS } from '../../core/statuses.ts';
import {
  APP_ROLE,
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  DatabaseUnavailable,
  type Queryable,
} from './database.ts';
import { requireSessions } from './connect.ts';
import { type LoginOutcome, makeLogin } from './login-role.ts';
import { ensurePartitions } from '../partitions.ts';
import { runStep } from './patient-steps.ts';
import {
  countOlderNodes,
  MigrationRefused,
  MIGRATIONS,
  newestIn,
  outdatedProblem,
  schemaRequired,
} from './schema-version.ts';

const SCHEMA_TABLE = 'schema_migrations';
/** One migration at a time over all nodes; the number only has to be the same everywhere. */
const LOCK_KEY = 0x706f7374; // "post"
/** They look every few seconds (maintenance.ts) and stop within 30 s (worker-pool.ts). */
const OLDER_NODES_END_WITHIN_S = 45;

export type MigrationResult = {
  /** The version the schema has now. */
  version: number;
  /** Files that were applied by this call. */
  applied: string[];
  /** The role to work in; null where the server did not let us make one. */
  role: string | null;
  /** How workers log in; null where that was not asked for, or there is no such role. */
  login: LoginOutcome | null;
};

export type MigrateOptions = {
  nowMs: number;
  acceptAnyDurability: boolean;
  /** To make a role that workers log in as (login-role.ts). */
  secretKey?: string;
  /** Told what is waited for. */
  say?: (sentence: string) => void;
  /** Others in tests. */
  folder?: string;
  triesMax?: number;
};

/**
 * Migrates, makes partitions, seeds the tables that mirror code. Waits for another node's
 * migration to end.
 * @throws MigrationRefused when the database asks for newer code, cannot be trusted with mail, or is locked
 * @throws DatabaseUnavailable
 */
export async function migrate(
  address: DatabaseAddress,
  options: MigrateOptions,
): Promise<MigrationResult> {
  const client = await connectAsOwner(address, 'migrate');
  const db = clientQueries(client);
  try {
    await requireSessions(client, () => connectAsOwner(address, 'migrate'));
    await refuseOldServer(db);
    if (!options.acceptAnyDurability) await refuseForgetfulServer(db);
    // Another node's migration may take as long as it takes.
    await db.query('set lock_timeout = 0');
    await db.query('select pg_advisory_lock($1)', [LOCK_KEY]);
    const applied = await applyMigrations(db, address, options);
    const role = await makeAppRole(db);
    if (role === null || options.secretKey === undefined) return { ...applied, role, login: null };
    await db.query('reset role');
    return { ...applied, role, login: await makeLogin(db, address, options.secretKey) };
  } finally {
    await client.end();
  }
}

async function refuseOldServer(db: Queryable): Promise<void> {
  const [row] = await db.query<{ number: number; text: string }>(
    `select current_setting('server_version_num')::int as number,
            current_setting('server_version') as text`,
  );
  if (row && row.number >= 150_000) return;
  throw new MigrationRefused(`PostgreSQL 15 or newer is needed; this server is ${row?.text}.`);
}

/** A 2xx means it is on disk: a server that may forget a commit is not a store for mail. */
async function refuseForgetfulServer(db: Queryable): Promise<void> {
  const settings = await db.query<{ name: string; setting: string }>(
    `select name, setting from pg_settings where name in ('fsync', 'full_page_writes')`,
  );
  const off = ['fsync', 'full_page_writes'].filter(
    (name) => settings.find((row) => row.name === name)?.setting !== 'on',
  );
  if (off.length === 0) return;
  throw new MigrationRefused(
    `The database does not promise to keep what it commits (${off.join(' and ')} not on). ` +
      'Turn it on, or set POSTHORN_ACCEPT_DATABASE_DURABILITY=1 if another layer makes up for it.',
  );
}

async function applyMigrations(
  db: Queryable,
  address: DatabaseAddress,
  options: MigrateOptions,
): Promise<{ version: number; applied: string[] }> {
  const { folder = MIGRATIONS, nowMs, triesMax, say = () => {} } = options;
  const step = (name: string, run: () => Promise<unknown>): Promise<void> =>
    runStep(db, { name, run }, { address, say, triesMax });
  const postgrator = migrationsIn(folder, db);
  const newest = newestIn(folder);
  const present = await postgrator.getDatabaseVersion();
  if (present > 0) await refuseOutdatedCode(db, newest);
  const finish = async (): Promise<void> => {
    if (present <= newest) await seedTransitions(db);
    await ensurePartitions(db, nowMs);
  };
  const pending = (await postgrator.getMigrations()).filter(({ version }) => version > present);
  if (present === 0) {
    await step('the first migration', () => postgrator.migrate().then(finish));
  } else {
    if (pending.length > 0) await postgrator.validateMigrations(present);
    for (const migration of pending) {
      const name = `migration ${basename(migration.filename)}`;
      await step(name, () => postgrator.runMigrations([migration]));
      await letOlderNodesEnd(db, say);
    }
    await step('making partitions', finish);
  }
  const version = Math.max(present, newest);
  return { version, applied: pending.map(({ filename }) => filename) };
}

function migrationsIn(folder: string, db: Queryable): Postgrator {
  return new Postgrator({
    migrationPattern: join(folder, '*.sql'),
    driver: 'pg',
    schemaTable: SCHEMA_TABLE,
    execQuery: async (query: string) => ({ rows: await db.query(query) }),
    validateChecksums: true,
  });
}

async function refuseOutdatedCode(db: Queryable, known: number): Promise<void> {
  const problem = outdatedProblem(await schemaRequired(db), known);
  if (problem !== null) throw new MigrationRefused(problem);
}

/**
 * A migration that asks for newer code is followed by one that older code cannot work with: older
 * nodes get the time to notice and to settle what they have under way. One that was killed leaves its row.
 */
async function letOlderNodesEnd(db: Queryable, say: (sentence: string) => void): Promise<void> {
  const required = await schemaRequired(db);
  if (required === 0) return;
  for (let second = 0; second < OLDER_NODES_END_WITHIN_S; second += 1) {
    const workers = await countOlderNodes(db, required);
    if (workers === 0) return;
    if (second === 0) say(`${workers} workers of an older version end before the next migration`);
    await pause(1_000);
  }
  say('workers of an older version have not ended; the migration goes on without them');
}

async function seedTransitions(db: Queryable): Promise<void> {
  await db.query(
    `insert into status_transitions (from_status, to_status)
     select * from unnest($1::text[], $2::text[]) on conflict do nothing`,
    [TRANSITIONS.map(([from]) => from), TRANSITIONS.map(([, to]) => to)],
  );
}

/**
 * Makes the partitions that are due, if nobody else is at it.
 * @throws when a reader or another node is in the way for more than 2 s; the next time is soon enough
 */
export async function makePartitions(address: DatabaseAddress, nowMs: number): Promise<void> {
  const client = await connectAsOwner(address, 'partitions');
  try {
    await client.query(`set lock_timeout = '2s'`);
    const db = clientQueries(client);
    await db.query('select pg_advisory_lock($1)', [LOCK_KEY]);
    await ensurePartitions(db, nowMs);
  } finally {
    await client.end();
  }
}

const MAKE_APP_ROLE = `
do $$ begin
  if not exists (select from pg_roles where rolname = '${APP_ROLE}') then
    create role ${APP_ROLE} nologin;
  end if;
end $$;
grant ${APP_ROLE} to current_user;
do $$ begin
  execute format('grant usage on schema %I to ${APP_ROLE}', current_schema());
  execute format('grant select, insert, update, delete on all tables in schema %I to ${APP_ROLE}',
                 current_schema());
end $$;`;

/** Somebody else made or granted the role just now: 23505, 42710, "tuple concurrently updated". */
const CLASH_SQLSTATE = /^(23505|42710|XX000)$/;
const CLASH_TRIES = 20;
const CLASH_PAUSE_MS = 50;

/**
 * Makes the working role and gives it rows but not tables. A server that refuses is no obstacle.
 * Roles belong to the whole server and our lock to one database: another one's migration may be
 * doing the same.
 */
async function makeAppRole(db: Queryable): Promise<string | null> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await db.query(MAKE_APP_ROLE);
      await db.query(`set role ${APP_ROLE}`);
      return APP_ROLE;
    } catch (error) {
      // That the connection broke is no refusal: to go on in the owner's role would be.
      if (error instanceof DatabaseUnavailable) throw error;
      const isClash = CLASH_SQLSTATE.test((error as { code?: string }).code ?? '');
      if (!isClash || attempt === CLASH_TRIES) return null;
      await new Promise((resolve) => setTimeout(resolve, CLASH_PAUSE_MS));
    }
  }
}
