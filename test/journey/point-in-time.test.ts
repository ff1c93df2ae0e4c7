/** A lost machine is restored to a point in time: it has every commit before that time, and none after it. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { cleanEnv, letterhaus } from '../support/letterhaus.ts';
import { ACCESS, startS3Server } from '../support/s3-server.ts';
import { opening, SEALED } from '../support/sealing.ts';
import { type Service, startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

const PASSPHRASE = { LETTERHAUS_BACKUP_PASSPHRASE: 'correct horse battery staple' };

/** Milliseconds since 1970 until which a restore is possible; 0: not at all. */
async function coveredMs(service: Service): Promise<number> {
  const { text } = await service.metrics();
  const found = /^letterhaus_point_in_time_covered_timestamp_seconds (\d+)$/m.exec(text)?.[1];
  return Number(found ?? 0) * 1_000;
}

async function databaseTime(service: Service): Promise<Date> {
  const [{ now }] = await service.sql('select clock_timestamp() as now');
  return now;
}

/** Until a time of the database, rounded up to the second that the metric has, can be restored. */
async function waitUntilCovered(service: Service, time: Date): Promise<void> {
  const isCovered = async () => (await coveredMs(service)) >= time.getTime() + 1;
  await waitFor(isCovered, {
    what: `the archive to cover ${time.toISOString()}`,
    timeoutMs: 60_000,
  });
}

test('an installation is restored to a time, on hold, with suppressions since then', async () => {
  const archive = temporaryFolder();
  const env = { LETTERHAUS_POINT_IN_TIME: archive, ...PASSPHRASE };
  await using lost = await startService({ database: 'own', env });
  await waitFor(async () => (await coveredMs(lost)) > 0, {
    what: 'a base backup',
    timeoutMs: 60_000,
  });
  const first = await lost.send();
  await lost.waitForStatus(first, 'delivered');
  const wanted = await databaseTime(lost);
  const second = await lost.send();
  await lost.waitForStatus(second, 'delivered');
  const body = { address: 'gone@example.org' };
  assert.equal((await lost.request('POST', '/v1/suppressions', { body })).status, 201);
  await waitUntilCovered(lost, await databaseTime(lost));
  const later = await databaseTime(lost);
  await waitUntilCovered(lost, later);
  await lost.killGroup9();
  const key = lost.testKey;
  await lost[Symbol.asyncDispose]();

  const dataDir = join(temporaryFolder(), 'data');
  const home = cleanEnv({ LETTERHAUS_DATA_DIR: dataDir, ...PASSPHRASE });
  const restore = (at: string, more = {}) =>
    letterhaus(['restore', '--point-in-time', at, archive], { ...home, ...more });
  for (const outside of ['2026-01-01T00:00Z', '2099-01-01T00:00Z']) {
    const { code, stderr } = await restore(outside);
    assert.equal(code, 2);
    assert.match(stderr, /cannot be restored to .*\. Kept are the times from 20\S+Z to 20\S+Z\./);
  }
  const wrong = await restore(wanted.toISOString(), {
    LETTERHAUS_BACKUP_PASSPHRASE: 'another passphrase',
  });
  assert.match(wrong.stderr, /The passphrase does not open the secret key/);
  assert.equal(existsSync(dataDir), false);

  const restored = await restore(wanted.toISOString());
  assert.equal(restored.code, 0, restored.stderr);
  assert.match(restored.stdout, /Restored 1 emails as of .*, 0 recipients of them open\./);
  assert.match(restored.stdout, /From the journal: 1 suppressions/);
  const again = await restore(wanted.toISOString());
  assert.equal(again.code, 2);
  assert.match(again.stderr, /has a database, and a restore needs an empty one/);

  await using service = await startService({ database: 'own', dataDir, env });
  try {
    const ready = await service.request('GET', '/readyz', { key: null });
    assert.deepEqual([ready.status, ready.body], [200, { status: 'ok', on_hold: true }]);
    assert.equal((await service.email(first, key)).status, 'delivered');
    const unknown = await service.request('GET', `/v1/emails/${second}`, { key });
    assert.equal(unknown.status, 404);
    const suppressed = await service.request('GET', '/v1/suppressions/gone@example.org', { key });
    assert.equal(suppressed.status, 200, suppressed.text);
    // It goes on with a series of its own beside the one that it came from.
    const released = await service.cli('release');
    assert.match(released.stdout, /Released/);
    const third = await service.send({}, { key });
    await service.waitForStatus(third, 'delivered', { key });
    await waitUntilCovered(service, await databaseTime(service));
    const series = readdirSync(archive).filter((name) => name.startsWith('letterhaus_'));
    assert.equal(series.length, 2);
    const open = () => service.sql('select type from operator_conditions');
    await eventually(async () => assert.deepEqual(await open(), []));
  } finally {
    await service[Symbol.asyncDispose]();
    rmSync(dataDir, { recursive: true, force: true });
  }
});

test('an archive in a bucket restores a lost machine to a time, and no mail waits while it cannot be written', async () => {
  await using store = await startS3Server();
  const archive = 's3://backups/acme/wal/';
  const env = { ...store.env, ...SEALED };
  await using lost = await startService({
    database: 'own',
    env: { ...env, LETTERHAUS_POINT_IN_TIME: 's3://backups/acme/wal' },
  });
  await waitFor(async () => (await coveredMs(lost)) > 0, {
    what: 'a base backup',
    timeoutMs: 60_000,
  });
  const first = await lost.send();
  await lost.waitForStatus(first, 'delivered');
  const wanted = await databaseTime(lost);

  store.fault = () => ({ status: 507, code: 'XMinioStorageFull' });
  const conditions = () =>
    lost.sql(`select message from operator_conditions where type = 'backup.failed'`);
  await waitFor(async () => (await conditions()).length === 1, {
    what: 'the condition',
    timeoutMs: 60_000,
  });
  const behind = `^The archive in ${archive} is behind\\. WAL could not be archived: .* has no space`;
  assert.match((await conditions())[0].message, new RegExp(behind));
  const second = await lost.send();
  await lost.waitForStatus(second, 'delivered');
  store.fault = () => null;
  await waitFor(async () => (await conditions()).length === 0, {
    what: 'the end of the condition',
    timeoutMs: 60_000,
  });
  const body = { address: 'gone@example.org' };
  assert.equal((await lost.request('POST', '/v1/suppressions', { body })).status, 201);
  await waitUntilCovered(lost, await databaseTime(lost));
  // The journal is written after the WAL.
  await waitUntilCovered(lost, await databaseTime(lost));
  await lost.killGroup9();
  const key = lost.testKey;
  assert.doesNotMatch(lost.logs, new RegExp(ACCESS.secretAccessKey));
  await lost[Symbol.asyncDispose]();
  // It went on with the series that it had, and the condition left no gap.
  const series = [...store.objects.keys()].filter((name) => name.startsWith('acme/wal/series/'));
  assert.equal(series.length, 1);

  const dataDir = join(temporaryFolder(), 'data');
  const home = cleanEnv({ ...env, LETTERHAUS_DATA_DIR: dataDir });
  const restore = (at: string, to = archive) =>
    letterhaus(['restore', ...opening(), '--point-in-time', at, to], home);
  const { code, stderr } = await restore('2026-01-01T00:00Z');
  assert.equal(code, 2);
  assert.match(stderr, new RegExp(`${archive} cannot be restored to .* Kept are the times from`));
  const elsewhere = await restore(wanted.toISOString(), 's3://elsewhere/wal/');
  assert.match(elsewhere.stderr, /There is no bucket elsewhere/);
  assert.equal(existsSync(dataDir), false);
  const restored = await restore(wanted.toISOString());
  assert.equal(restored.code, 0, restored.stderr);
  assert.match(restored.stdout, /Restored 1 emails as of /);
  assert.match(restored.stdout, /From the journal: 1 suppressions/);

  await using service = await startService({ database: 'own', dataDir, env });
  assert.equal((await service.email(first, key)).status, 'delivered');
  const unknown = await service.request('GET', `/v1/emails/${second}`, { key });
  assert.equal(unknown.status, 404);
  const suppressed = await service.request('GET', '/v1/suppressions/gone@example.org', { key });
  assert.equal(suppressed.status, 200, suppressed.text);
  await service[Symbol.asyncDispose]();
  rmSync(dataDir, { recursive: true, force: true });
});

/** Ten WAL files of 16 MB. */
const WRITE_WAL = `do $$ begin
  for file in 1..10 loop
    perform pg_logical_emit_message(false, 'test', file::text);
    perform pg_switch_wal();
  end loop;
end $$`;

test('mail continues while the archive is away; when WAL had to be given up, a new base backup is made', async () => {
  const archive = join(temporaryFolder(), 'archive');
  mkdirSync(archive);
  const env = { LETTERHAUS_POINT_IN_TIME: archive, ...SEALED };
  await using service = await startService({ database: 'own', env });
  await waitFor(async () => (await coveredMs(service)) > 0, {
    what: 'a base backup',
    timeoutMs: 60_000,
  });
  await service.stop();
  // The limit of the WAL that is kept, instead of a tenth of the disk.
  const local = 'max_slot_wal_keep_size = 96MB\nmin_wal_size = 32MB\nmax_wal_size = 96MB\n';
  writeFileSync(join(service.dataDir, 'postgresql.local.conf'), local);
  await service.restart();
  const before = readdirSync(archive).filter((name) => name.startsWith('letterhaus_'));
  assert.equal(before.length, 1);

  renameSync(archive, `${archive}-away`);
  const conditions = () =>
    service.sql(`select message from operator_conditions where type = 'backup.failed'`);
  await waitFor(async () => (await conditions()).length === 1, {
    what: 'the condition',
    timeoutMs: 60_000,
  });
  assert.match(
    (await conditions())[0].message,
    /WAL could not be archived: .* cannot be used \(ENOENT\)/,
  );
  await service.sql(WRITE_WAL);
  await service.sql('checkpoint');
  // The service may have given it up already.
  const kept = await service.sql(`select from pg_replication_slots where wal_status <> 'lost'`);
  assert.equal(kept.length, 0);
  await service.waitForStatus(await service.send(), 'delivered');

  renameSync(`${archive}-away`, archive);
  await waitFor(async () => (await conditions()).length === 0, {
    what: 'the end of the condition',
    timeoutMs: 60_000,
  });
  await waitUntilCovered(service, await databaseTime(service));
  const after = readdirSync(archive).filter((name) => name.startsWith('letterhaus_'));
  assert.equal(after.length, 2);
  const bases = readdirSync(join(archive, after.toSorted()[1]!)).filter((name) =>
    /^base-.*\.json$/.test(name),
  );
  assert.equal(bases.length, 1);
  await service.stop();

  // Without the variable PostgreSQL keeps WAL for nobody.
  const plain = { ...service.env, LETTERHAUS_POINT_IN_TIME: undefined };
  const slots = `select count(*)::int as count from pg_replication_slots`;
  await using same = await startService({ database: 'own', dataDir: service.dataDir, env: plain });
  await waitFor(async () => (await same.sql(slots))[0].count === 0, { what: 'no slot' });
  await same.restart();
  assert.deepEqual(await same.sql('show wal_level'), [{ wal_level: 'minimal' }]);
  await same.stop();
});
