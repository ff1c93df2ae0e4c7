/** Checks of the database server and of the clock, on real servers with one fault at a time. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readFileSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { openForChecks, startDoctorLab } from '../../../test/support/doctor-lab.ts';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { letterhausHere } from '../../../test/support/letterhaus.ts';
import { migratedDatabase } from '../../../test/support/postgres.ts';
import { startPooler } from '../../../test/support/pooler.ts';
import { startPolicyServer } from '../../../test/support/policy-server.ts';
import { startForgetfulEngine } from '../../../test/support/unsynced-engine.ts';
import type { Finding } from '../finding.ts';
import { CLOCK } from './clock.ts';
import * as server from './server.ts';

const ca = new URL('../../../test/support/certs/ca.pem', import.meta.url);
setDefaultCACertificates([...getCACertificates(), readFileSync(ca, 'utf8')]);

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
  for (const check of [DATABASE, DATABASE_DURABILITY, DATABASE_CONNECTIONS, DATABASE_WRAPAROUND]) {
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

test('a schema of another version is reported with what the next start does', async () => {
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

test('a PostgreSQL without further updates is reported', async () => {
  const nowMs = Date.parse('2045-01-01');
  const world = { now: () => nowMs };
  const findings = await lab.run(server.DATABASE, { database, world });
  assert.match(findings.at(-1)?.found ?? '', /has had no updates since 20\d\d-/);
});

const MINUTE_MS = 60_000;

/** `hosts` has the header `Date` of each web server; empty: the right time. */
type ClockOfTest = { skewMs?: number; hosts?: string[]; kept?: 'yes' | 'no' };

/** Runs the check with a clock that is off, and with web servers that send their time. */
async function checkClock({ skewMs = 0, hosts = [''], kept = 'yes' }: ClockOfTest) {
  await using policies = await startPolicyServer();
  for (const [at, date] of hosts.entries()) {
    lab.dns.set(`mta-sts.sts${at + 1}.test`, 'A', ['127.0.0.1']);
    policies.set(`sts${at + 1}.test`, date === '' ? {} : { headers: { date } });
  }
  return await lab.run(CLOCK, {
    database,
    config: { mtaStsPort: policies.port },
    world: { now: () => Date.now() + skewMs },
    machine: {
      timeHosts: hosts.map((_, at) => `mta-sts.sts${at + 1}.test`),
      readClockState: () => Promise.resolve(kept),
    },
  });
}

test('a clock that agrees with the database and with web servers is green', async () => {
  const findings = await checkClock({});
  assert.deepEqual(levelsOf(findings), ['green', 'green', 'green'], JSON.stringify(findings));
});

test('a clock that is minutes off is yellow, then red, and one that nothing keeps is yellow', async () => {
  const ahead = await checkClock({ skewMs: 7 * MINUTE_MS });
  assert.deepEqual(levelsOf(ahead), ['red', 'red', 'green']);
  assert.match(ahead[0]?.found ?? '', /is 4[12]\d s ahead of that of the database/);
  assert.match(ahead[1]?.found ?? '', /is 4[12]\d s ahead of that of mta-sts\.sts1\.test/);
  assert.match(ahead[0]?.remedy ?? '', /NTP/);
  const behind = await checkClock({ skewMs: -2 * MINUTE_MS, kept: 'no' });
  assert.deepEqual(levelsOf(behind), ['yellow', 'yellow', 'yellow']);
  assert.match(behind[0]?.found ?? '', /is 1[12]\d s behind/);
  assert.equal(behind[2]?.command, 'timedatectl set-ntp true');
});

test('of three web servers one may be wrong, and without any the clock is unknown', async () => {
  const outvoted = await checkClock({ hosts: ['', 'Thu, 01 Jan 2015 00:00:00 GMT', ''] });
  assert.deepEqual(levelsOf(outvoted), ['green', 'green', 'green']);
  const silent = await checkClock({ hosts: [] });
  assert.deepEqual(levelsOf(silent), ['green', 'unknown', 'green']);
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

test('a pooler in transaction mode is red, because the next start refuses it', async () => {
  await using pooler = await startPooler(migrated.address, {
    mode: 'transaction',
    lends: 'newest',
  });
  const url = new URL(migrated.url);
  url.hostname = '127.0.0.1';
  url.port = String(pooler.port);
  url.search = '';
  const env = { ...lab.env, DATABASE_URL: url.href };
  const args = ['doctor', '--json', '--only', 'database'];
  const { code, stdout } = await letterhausHere(args, env);
  assert.equal(code, 1, stdout);
  const [finding] = JSON.parse(stdout).findings;
  assert.equal(finding.level, 'red');
  assert.match(finding.found, /^DATABASE_URL points to a pooler .* set pool_mode=session/);
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
