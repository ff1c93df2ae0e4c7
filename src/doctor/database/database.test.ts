/** Checks of the database server and of the clock, on real servers with one fault at a time. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openForChecks, startDoctorLab } from '../../../test/support/doctor-lab.ts';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { letterhausHere } from '../../../test/support/letterhaus.ts';
import { migratedDatabase } from '../../../test/support/postgres.ts';
import { startForgetfulEngine } from '../../../test/support/unsynced-engine.ts';
import type { Finding } from '../finding.ts';
import { CLOCK } from './clock.ts';
import * as server from './server.ts';

const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());
const migrated = await migratedDatabase();
after(() => migrated[Symbol.asyncDispose]());
const opened = await openForChecks(migrated.address);
after(() => opened[Symbol.asyncDispose]());
const { database } = opened;

const levelsOf = (findings: readonly Finding[]) => findings.map(({ level }) => level);

test('a healthy database has only green findings', async () => {
  const { DATABASE, DATABASE_DURABILITY, DATABASE_CONNECTIONS, DATABASE_WRAPAROUND } = server;
  for (const check of [
    DATABASE,
    DATABASE_DURABILITY,
    DATABASE_CONNECTIONS,
    DATABASE_WRAPAROUND,
    CLOCK,
  ]) {
    for (const { level, found } of await lab.run(check, { database })) {
      assert.equal(level, 'green', `${check.id}: ${found}`);
    }
  }
  const [speed] = await lab.run(server.DATABASE_SPEED, { database });
  assert.match(speed?.found ?? '', /^A short statement takes \d+\.\d ms/);
});

test('a server that may lose commits is red, with the settings to correct', async () => {
  const off = ['fsync', 'full_page_writes', 'autovacuum'];
  await using engine = await startForgetfulEngine(join(temporaryFolder(), 'data'), off);
  await using unsafe = await openForChecks(engine.address('postgres'));
  const findings = await lab.run(server.DATABASE_DURABILITY, { database: unsafe.database });
  assert.deepEqual(levelsOf(findings), ['red', 'red', 'red']);
  assert.deepEqual(
    findings.map(({ found }) => found),
    ['fsync is off.', 'full_page_writes is off.', 'autovacuum is off.'],
  );
  assert.match(findings[0]?.remedy ?? '', /^Set fsync = on in postgresql\.conf/);
  assert.match(findings[0]?.command ?? '', /alter system set fsync = on/);
});

test('a schema of another version is named with what the next start does', async () => {
  const [older] = await lab.run(server.DATABASE, { database: { ...database, schema: 60 } });
  assert.equal(older?.level, 'yellow');
  assert.equal(older?.command, 'letterhaus upgrade-check');
  const [newer] = await lab.run(server.DATABASE, { database: { ...database, schema: 9_000 } });
  assert.match(newer?.found ?? '', /has schema 9000, and this version knows/);
});

test('too few connections are yellow, and red when the next start fails', async () => {
  const [{ name }] = await migrated.sql('select current_database() as name');
  const check = async (limit: number) => {
    await migrated.sql(`alter database ${name} connection limit ${limit}`);
    const [finding] = await lab.run(server.DATABASE_CONNECTIONS, { database });
    return finding;
  };
  const [few, tooFew] = [await check(12), await check(2)];
  await migrated.sql(`alter database ${name} connection limit -1`);
  assert.equal(few?.level, 'yellow', few?.found ?? '');
  assert.match(few?.found ?? '', /^12 connections are left/);
  assert.equal(tooFew?.level, 'red', tooFew?.found ?? '');
  assert.match(tooFew?.remedy ?? '', /^Raise max_connections/);
});

test('a PostgreSQL without further updates is named', async () => {
  const nowMs = Date.parse('2045-01-01');
  const world = { now: () => nowMs };
  const findings = await lab.run(server.DATABASE, { database, world });
  assert.match(findings.at(-1)?.found ?? '', /gets no more updates since 20\d\d-/);
});

test('a clock that is minutes off is yellow, then red, and one that nothing keeps is yellow', async () => {
  const skewed = async (skewMs: number) => {
    const now = () => Date.now() + skewMs;
    return (await lab.run(CLOCK, { database, world: { now } }))[0];
  };
  const [ahead, behind] = [await skewed(7 * 60_000), await skewed(-2 * 60_000)];
  assert.equal(ahead?.level, 'red');
  assert.match(ahead?.found ?? '', /is 4[12]\d s ahead of that of the database/);
  assert.match(ahead?.remedy ?? '', /NTP/);
  assert.equal(behind?.level, 'yellow');
  assert.match(behind?.found ?? '', /is 1[12]\d s behind/);
  const machine = { readClockState: () => Promise.resolve('no' as const) };
  const [, kept] = await lab.run(CLOCK, { database, machine });
  assert.deepEqual([kept?.level, kept?.command], ['yellow', 'timedatectl set-ntp true']);
});

test('a database that does not answer is red once, and unknown for the checks that need it', async () => {
  const env = { ...lab.env, DATABASE_URL: 'postgres://nobody:hidden@127.0.0.1:9/none' };
  const args = ['doctor', '--json', '--only', 'database,database_durability,queue,conditions'];
  const { code, stdout } = await letterhausHere(args, env);
  assert.equal(code, 1);
  const { checks, findings } = JSON.parse(stdout);
  assert.deepEqual(checks, { red: 1, yellow: 0, unknown: 3, green: 0 });
  assert.match(findings[0].remedy, /check DATABASE_URL/);
  assert.match(findings[1].found, /^The database cannot be read: .*ECONNREFUSED/);
  assert.doesNotMatch(stdout, /hidden/);
});

test('a machine without an installation has no database yet, which is unknown and creates nothing', async () => {
  const dataDir = join(lab.dataDir, 'fresh');
  const env = { ...lab.env, LETTERHAUS_DATA_DIR: dataDir };
  const args = ['doctor', '--json', '--only', 'database,disk_space,data_directory'];
  const { code, stdout } = await letterhausHere(args, env);
  assert.equal(code, 0, stdout);
  const { findings } = JSON.parse(stdout);
  const absent = findings.find((one: { check: string }) => one.check === 'database');
  assert.match(absent.found, /^There is no installation in .*fresh yet/);
  const folder = findings.find((one: { check: string }) => one.check === 'data_directory');
  assert.match(folder.found, /fresh does not exist yet/);
});
