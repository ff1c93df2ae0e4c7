/** The check of standbys, on real servers with streaming replication. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { openForChecks, startDoctorLab } from '../../../test/support/doctor-lab.ts';
import { startReplicatedPair } from '../../../test/support/replicated-postgres.ts';
import { eventually } from '../../../test/support/wait.ts';
import type { Finding } from '../finding.ts';
import { DATABASE_REPLICATION, judgeReplication } from './replication.ts';

const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());
const pair = await startReplicatedPair({ synchronous: true });
after(() => pair[Symbol.asyncDispose]());
const { primary } = pair;

/** The findings of the check on a server. They change a moment after a setting or a standby. */
async function check({ port, user }: { port: number; user?: string }): Promise<readonly Finding[]> {
  const address = { ...primary.address('postgres'), port, ...(user === undefined ? {} : { user }) };
  await using opened = await openForChecks(address);
  return await lab.run(DATABASE_REPLICATION, { database: opened.database });
}

async function finds(level: Finding['level'], found: RegExp): Promise<Finding> {
  let match: Finding | undefined;
  await eventually(async () => {
    const findings = await check(primary);
    match = findings.find((one) => one.level === level && found.test(one.found));
    assert.ok(match !== undefined, JSON.stringify(findings));
  });
  return match!;
}

// In this order: each test spoils the pair a little more.
test('a synchronous standby that is not behind is green', async () => {
  await finds('green', /^Commits wait for standby, and no standby is behind\.$/);
});

test('a user who may not see the standbys gets the command that permits it', async () => {
  await primary.query('create role watcher login');
  const [finding] = await check({ port: primary.port, user: 'watcher' });
  assert.equal(finding?.level, 'unknown');
  assert.match(finding?.command ?? '', /grant pg_monitor/);
});

test('a standby is asked about nothing', async () => {
  const [finding] = await check(pair.standby);
  assert.deepEqual(
    [finding?.level, finding?.found],
    ['unknown', 'The server is a standby: ask the primary.'],
  );
});

test('standbys that no commit waits for are yellow, because a fail-over loses accepted mail', async () => {
  await primary.query(`alter system set synchronous_standby_names = ''`);
  await primary.query('select pg_reload_conf()');
  const { meaning, remedy } = await finds('yellow', /^No commit waits for a standby: all \(1\)/);
  assert.match(meaning ?? '', /loses the last commits/);
  assert.match(remedy ?? '', /synchronous_standby_names/);
});

test('a standby that is a minute or a gigabyte behind is yellow, and one that is ten minutes behind red', () => {
  const standby = { name: 'machine2', syncState: 'sync', lagS: 0.1, lagBytes: 4_096 };
  const levelOf = (changes: object): string => {
    const standbys = [{ ...standby, ...changes }];
    const replication = { isStandby: false, synchronousNames: '*', standbys, unusedSlots: [] };
    return judgeReplication(replication)
      .map(({ level }) => level)
      .join();
  };
  assert.equal(levelOf({}), 'green');
  assert.equal(levelOf({ lagS: 61 }), 'yellow');
  assert.equal(levelOf({ lagS: null, lagBytes: 2 * 1024 ** 3 }), 'yellow');
  assert.equal(levelOf({ lagS: 601 }), 'red');
});

test('a slot without its standby is yellow, because its WAL fills the disk', async () => {
  await primary.query(`select pg_create_physical_replication_slot('machine3', true)`);
  const { command } = await finds(
    'yellow',
    /^No standby uses the slot machine3, which keeps \d+ MB/,
  );
  assert.match(command ?? '', /pg_drop_replication_slot\('machine3'\)/);
  await primary.query(`select pg_drop_replication_slot('machine3')`);
});

test('commits that wait for a standby that is gone are red', async () => {
  await pair.standby.kill9();
  await primary.query(`alter system set synchronous_standby_names = 'standby'`);
  await primary.query('select pg_reload_conf()');
  const { meaning } = await finds('red', /^Commits wait for a standby \(standby\), and none/);
  assert.equal(meaning, 'No mail is accepted, and no outcome is stored.');
});

test('a server without standbys is green', async () => {
  await primary.query(`alter system set synchronous_standby_names = ''`);
  await primary.query('select pg_reload_conf()');
  await finds('green', /^The server has no standby, and commits wait for none\.$/);
});
