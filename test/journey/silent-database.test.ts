/**
 * The network forgets the database while a service starts: packets vanish, and nothing is reset. A start that waits
 * for such a connection ends by itself. A stop ends it at once, in every step.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { lockMigrations } from '../../src/migration/migrate.ts';
import { cleanEnv } from '../support/letterhaus.ts';
import { asOwner, type ProxiedDatabase, proxiedDatabase } from '../support/postgres.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

/** A start of one worker that is not ready yet. */
class Start implements AsyncDisposable {
  readonly database: ProxiedDatabase;
  readonly #dataDir: string;
  readonly process: ServiceProcess;

  constructor(database: ProxiedDatabase, dataDir: string) {
    this.database = database;
    this.#dataDir = dataDir;
    const env = { HOST: '127.0.0.1', PORT: '0', LETTERHAUS_DATA_DIR: dataDir };
    const given = { DATABASE_URL: database.url, LETTERHAUS_HOSTNAME: 'mail.acme.example' };
    const all = cleanEnv({ ...env, ...given });
    this.process = new ServiceProcess(['--workers', '1'], all);
  }

  /** Neither its processes nor its hold on the data directory is left. */
  async isGone(): Promise<void> {
    await waitFor(() => this.process.isSilent, { what: 'its workers to end' });
    assert.equal(existsSync(join(this.#dataDir, 'running.json')), false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process.killGroup9();
    await this.database[Symbol.asyncDispose]();
    await rm(this.#dataDir, { recursive: true, force: true });
  }
}

function newDataDir(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'letterhaus-test-'));
}

/** The network is gone when the start sends this text; without one, from the beginning. */
async function startInto(text: string | null, { all }: { all: boolean }): Promise<Start> {
  const database = await proxiedDatabase();
  const dataDir = await newDataDir();
  const forgotten = text === null ? null : database.proxy.forgetAt(text, { all });
  if (text === null) database.proxy.stall();
  const start = new Start(database, dataDir);
  const early = start.process.ended.then((end) => assert.fail(`${end}: ${start.process.logs}`));
  await Promise.race([forgotten, early]);
  early.catch(() => {});
  if (text === null) await waitFor(() => database.proxy.open > 0, { what: 'a connection' });
  return start;
}

/** The statements of a start, in order, by a text that only this statement has. */
const STAGES = {
  'connects to the database': null,
  'makes the settings of its first session': 'set_config',
  'takes the lock of migrations': 'pg_advisory_lock',
  'reads the version of the schema': 'schema_migrations',
  'makes partitions': 'pg_inherits',
  'makes the role of its workers': 'create role letterhaus_app',
  'counts the free connections': 'superuser_reserved_connections',
  'compares the clocks': 'clock_timestamp',
  'registers its host name': 'mail_hosts',
  'looks for the first key': 'pg_advisory_xact_lock',
  'registers its worker': 'insert into nodes',
} as const;

const GIVEN_UP = [
  {
    what: 'a dead connection while it takes the lock of migrations',
    text: 'pg_advisory_lock',
    all: false,
  },
  {
    what: 'a network that is gone while it takes the lock of migrations',
    text: 'pg_advisory_lock',
    all: true,
  },
  { what: 'a dead connection while it compares clocks', text: 'clock_timestamp', all: false },
] as const;
/** Until 15 to 31 s after the silence has begun. */
const SENTENCE =
  /^\{"error":\{"code":"service_unavailable","message":"the database cannot be reached: .*DATABASE_URL is right, then start again\."\}\}$/m;

const WAITING = `
select from pg_locks where locktype = 'advisory' and not granted
   and database = (select oid from pg_database where datname = current_database())`;

describe('a start whose database falls silent', { concurrency: 4 }, () => {
  for (const { what, text, all } of GIVEN_UP) {
    test(`a start that meets ${what} ends with one sentence`, async () => {
      await using start = await startInto(text, { all });
      assert.equal(await start.process.ended, 1);
      await eventually(() => assert.match(start.process.logs, SENTENCE));
      assert.doesNotMatch(start.process.logs, /^ {4}at /m);
      await start.isGone();
    });
  }

  for (const [what, text] of Object.entries(STAGES)) {
    test(`SIGTERM ends a start that hangs while it ${what}`, async () => {
      await using start = await startInto(text, { all: true });
      assert.equal(await start.process.stop(), 0);
      await start.isGone();
    });
  }

  test('a start waits for a migration of another node, and SIGTERM ends it meanwhile', async () => {
    const database = await proxiedDatabase();
    await asOwner(database.address, async (other) => {
      await lockMigrations(other);
      await using start = new Start(database, await newDataDir());
      const isWaiting = async () => (await other.query(WAITING)).length > 0;
      await waitFor(isWaiting, { what: 'the start to wait' });
      assert.equal(await start.process.stop(), 0);
      await start.isGone();
    });
  });

  test('a worker whose first statements are not answered starts to work when the database is back', async () => {
    await using start = await startInto('insert into nodes', { all: true });
    await start.process.ready();
    await start.database.proxy.heal();
    const hasNode = async () => (await start.database.sql('select from nodes')).length > 0;
    await waitFor(hasNode, { what: 'a heartbeat' });
    assert.equal(await start.process.stop(), 0);
    await start.isGone();
  });

  test('SIGTERM ends a running service whose database is silent', async () => {
    await using database = await proxiedDatabase();
    await using service = await startService({ database });
    database.proxy.forget();
    database.proxy.stall();
    assert.equal(await service.stop(), 0);
    await waitFor(() => service.isSilent, { what: 'its workers to end' });
  });
});
