/** An upgrade: the report before it, the backup that it makes, and the way back. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { cleanEnv, letterhaus } from '../support/letterhaus.ts';
import { nextVersion } from '../support/next-version.ts';
import { migratedDatabase } from '../support/postgres.ts';
import { startService } from '../support/service.ts';

/** A migration of the next version. It rewrites every email, so it asks for a backup, and older versions end. */
const REWRITE = `-- Emails get an id of their own.
--
-- Needs a backup first: it rewrites all emails.
alter table emails add column token uuid not null default gen_random_uuid();
update installation set schema_required = 9001;`;

const database = await migratedDatabase();
after(() => database[Symbol.asyncDispose]());
const next = nextVersion('9.0.0', { '9001.do.tokens.sql': REWRITE });
const service = await startService({ database });
after(() => service[Symbol.asyncDispose]());
const beside = await startService({ database, env: { LETTERHAUS_SECRET_KEY: secretKey() } });
after(() => beside[Symbol.asyncDispose]());

function secretKey(): string {
  return readFileSync(join(service.dataDir, 'secrets', 'secret-key'), 'utf8').trim();
}

const newer = (...args: string[]) => letterhaus(args, service.env, next.main);
const check = async (...args: string[]) => {
  const { code, stdout, stderr } = await newer('upgrade-check', '--json', ...args);
  assert.notEqual(stdout, '', stderr);
  return { code, report: JSON.parse(stdout) };
};

test('upgrade-check says what the new version would do, and changes nothing', async () => {
  await service.waitForStatus(await service.send(), 'delivered');
  const schema = () => service.sql('select version, md5 from schema_migrations order by version');
  const before = await schema();
  const { code, report } = await check();
  assert.equal(code, 1);
  assert.equal(report.version, '9.0.0');
  assert.equal(report.schema.known, 9001);
  const [migration, ...others] = report.migrations;
  assert.deepEqual(others, []);
  assert.equal(migration.about, 'Emails get an id of their own.');
  assert.equal(migration.needs_backup, 'it rewrites all emails');
  const [emails] = migration.tables;
  assert.deepEqual(
    [emails.name, emails.blocks, emails.rewrites, emails.bytes > 0],
    ['emails', 'everything', true, true],
  );
  const nodes = report.nodes.map((node: Record<string, unknown>) => [
    node['running'],
    node['ends'],
    node['own'],
    node['version'] === report.version,
  ]);
  assert.deepEqual(nodes.toSorted(), [
    [true, true, false, false],
    [true, true, true, false],
  ]);
  assert.equal(report.last_backup, null);
  assert.equal(report.attention.length, 2, report.attention.join('\n'));
  assert.match(report.attention[0], /^The version of the nodes on .* finish their work and exit\./);
  assert.match(report.attention[1], /^No backup is known: make one with `letterhaus backup`/);
  assert.deepEqual(await schema(), before);
});

test('upgrade-check knows the last backup, and wrong variables of the new version', async () => {
  const folder = temporaryFolder();
  const backup = await service.cli('backup', '--without-secret-key', folder);
  assert.equal(backup.code, 0, backup.stderr);
  const [file] = readdirSync(folder);
  const { report } = await check();
  assert.equal(report.last_backup.place, join(folder, file!));
  assert.equal(report.attention.length, 1, report.attention.join('\n'));

  await service.sql(
    `update installation set last_backup_at = last_backup_at - interval '30 hours'`,
  );
  const env = { ...service.env, LETTERHAUS_HOSTNAM: 'mail.example.org' };
  const { code, stdout } = await letterhaus(['upgrade-check'], env, next.main);
  assert.equal(code, 1);
  assert.match(
    stdout,
    /^! LETTERHAUS_HOSTNAM: there is no such variable; did you mean LETTERHAUS_HOSTNAME/m,
  );
  assert.match(stdout, /^! The last backup is 30 hours old/m);
  assert.match(
    stdout,
    /^ {2}9001\.do\.tokens\.sql: Emails get an id of their own\.\n {4}- makes a backup first: it rewrites all emails\n {4}- emails \(.*\): is rewritten, reads and writes wait for a moment$/m,
  );
});

test('upgrade-check exits with 2 when there is nothing that it can read', async () => {
  const away = { ...service.env, DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none' };
  const unreachable = await letterhaus(['upgrade-check'], away, next.main);
  assert.equal(unreachable.code, 2, unreachable.stderr);
  const [{ name }] = await service.sql('select current_database() as name');
  await service.sql(`create role reader_${name} login`);
  after(() => database.sql(`drop role reader_${name}`));
  const url = new URL(database.url);
  url.username = `reader_${name}`;
  const reader = { ...service.env, DATABASE_URL: url.href };
  const forbidden = await letterhaus(['upgrade-check'], reader, next.main);
  assert.equal(forbidden.code, 2);
  assert.match(
    forbidden.stderr,
    /^letterhaus: The database cannot be read: permission denied for /,
  );
  await service.sql('create table letterhaus_restore ()');
  const unfinished = await newer('upgrade-check');
  assert.equal(unfinished.code, 2);
  assert.match(unfinished.stderr, /A restore into this database is running or was interrupted/);
  await service.sql('drop table letterhaus_restore');
  const nowhere = { LETTERHAUS_DATA_DIR: join(temporaryFolder(), 'data') };
  const missing = await letterhaus(['upgrade-check'], nowhere, next.main);
  assert.equal(missing.code, 2);
  assert.match(missing.stderr, /^letterhaus: There is no installation in /);
  assert.equal(existsSync(nowhere.LETTERHAUS_DATA_DIR), false);
});

test('a start whose backup fails ends before anything is migrated; with the backup it migrates', async () => {
  await service.stop();
  const backups = join(service.dataDir, 'backups');
  writeFileSync(backups, 'not a folder');
  const failed = await newer('start');
  assert.equal(failed.code, 2, failed.stderr);
  assert.match(
    failed.stderr,
    /Migration 9001\.do\.tokens\.sql needs a backup first, which failed: .*backups.* Nothing was migrated\./,
  );
  const columns = () =>
    service.sql(
      `select from pg_attribute where attrelid = 'emails'::regclass and attname = 'token'`,
    );
  assert.equal((await columns()).length, 0);
  rmSync(backups);

  const { stderr, code } = await newer('migrate');
  assert.equal(code, 0, stderr);
  const [name, ...others] = readdirSync(backups);
  assert.deepEqual(others, []);
  assert.match(name!, /^letterhaus-schema-\d+-before-9001\.backup$/);
  assert.match(
    stderr,
    /a backup is made before migration 9001\.do\.tokens\.sql \(it rewrites all emails\)/,
  );
  assert.match(stderr, /the backup is complete and checked \(\d+ MB\); the migration begins/);
  assert.equal((await columns()).length, 1);
  // The other node was of the older version.
  assert.equal(await beside.ended(), 1);

  const refused = await service.cli('start');
  assert.equal(refused.code, 2);
  assert.match(
    refused.stderr,
    /requires schema 9001, this version supports \d+\. Start the newer version\./,
  );

  // The way back: the older version restores that backup elsewhere.
  const dataDir = join(temporaryFolder(), 'data');
  const env = cleanEnv({ LETTERHAUS_DATA_DIR: dataDir, LETTERHAUS_SECRET_KEY: secretKey() });
  const restored = await letterhaus(['restore', join(backups, name!)], env);
  assert.equal(restored.code, 0, restored.stderr);
  assert.match(restored.stdout, /Restored 1 emails/);
  rmSync(dataDir, { recursive: true });
});

test('LETTERHAUS_MIGRATE_WITHOUT_BACKUP skips the backup', async () => {
  await using fresh = await migratedDatabase();
  const dataDir = temporaryFolder();
  const env = { LETTERHAUS_DATA_DIR: dataDir, DATABASE_URL: fresh.url };
  const without = cleanEnv({ ...env, LETTERHAUS_MIGRATE_WITHOUT_BACKUP: '1' });
  const warned = await letterhaus(['upgrade-check'], without, next.main);
  assert.match(warned.stdout, /^! LETTERHAUS_MIGRATE_WITHOUT_BACKUP is set/m);
  const { code, stderr } = await letterhaus(['migrate'], without, next.main);
  assert.equal(code, 0, stderr);
  assert.equal(existsSync(join(dataDir, 'backups')), false);
});
