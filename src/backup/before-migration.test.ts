/**
 * The backup that a start makes before a migration which older code cannot read, in a folder and in a bucket. Without
 * the backup nothing is migrated.
 */
import assert from 'node:assert/strict';
import { cpSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../test/support/embedded.ts';
import { asOwner, migratedDatabase } from '../../test/support/postgres.ts';
import { ACCESS, startS3Server } from '../../test/support/s3-server.ts';
import { RECIPIENT } from '../../test/support/sealing.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import type { DatabaseAddress } from '../database/database.ts';
import { migrate, readVersion } from '../migration/migrate.ts';
import { MIGRATIONS_DIR } from '../migration/schema-version.ts';
import { backupBeforeMigration, type BeforeMigration } from './before-migration.ts';
import { readBackupFile } from './places/folder-place.ts';
import { walkBackup } from './walk-backup.ts';

const migrations = temporaryFolder();
cpSync(MIGRATIONS_DIR, migrations, { recursive: true });
writeFileSync(
  join(migrations, '9001.do.next.sql'),
  '-- Needs a backup first: it drops a column.\nalter table emails add column grown text;',
);

function start(address: DatabaseAddress, given: Partial<BeforeMigration>) {
  const logged: string[] = [];
  const backUp = backupBeforeMigration({
    address,
    dataDir: temporaryFolder(),
    secretKey: () => 'k'.repeat(32),
    backup: { to: null, passphrase: null, recipients: [], s3: null },
    version: '9.0.0',
    world: systemWorld,
    log: (sentence) => logged.push(sentence),
    ...given,
  });
  const options = { nowMs: Date.now(), acceptAnyDurability: true, folder: migrations, backUp };
  return { logged, done: migrate(address, options) };
}

test('of two starts at once, one makes the backup, sealed and in the folder of scheduled backups', async () => {
  await using database = await migratedDatabase();
  const to = temporaryFolder();
  const backup = { to, passphrase: null, recipients: [RECIPIENT], s3: null };
  const name = `letterhaus-schema-${await asOwner(database.address, readVersion)}-before-9001.backup`;
  // Left by a start that was killed.
  writeFileSync(join(to, `.${name}.4711.unfinished`), 'letterhaus backup ');
  const starts = [1, 2].map(() => start(database.address, { backup }));
  const applied = (await Promise.all(starts.map(({ done }) => done))).map((one) => one.applied);
  assert.deepEqual(
    applied.map(({ length }) => length).toSorted((a, b) => a - b),
    [0, 1],
  );
  assert.equal(
    starts.flatMap(({ logged }) => logged).filter((line) => line.startsWith('a backup is made'))
      .length,
    1,
  );
  assert.deepEqual(readdirSync(to), [name]);
  const { header } = await walkBackup(readBackupFile(join(to, name)), {
    rows: () => Promise.resolve(),
  });
  assert.equal(header.sealedFor, 'recipients');
});

test('nothing is migrated when the connection of the backup dies, the start is stopped, or the key is missing', async () => {
  await using database = await migratedDatabase();
  const schema = () => asOwner(database.address, readVersion);
  const before = await schema();
  const to = temporaryFolder();
  const backup = { to, passphrase: null, recipients: [], s3: null };

  const stop = new AbortController();
  const stopped = start(database.address, {
    backup,
    signal: stop.signal,
    log: () => stop.abort(new Error('stopped')),
  });
  await assert.rejects(stopped.done, /stopped/);

  let secretKeys = 0;
  const away = start(database.address, {
    backup,
    // No server listens on this port.
    address: { connectionString: 'postgres://nobody@127.0.0.1:9/none' },
    secretKey: () => {
      secretKeys += 1;
      return 'k'.repeat(32);
    },
  });
  await assert.rejects(away.done, { name: 'DatabaseUnavailable' });
  assert.equal(secretKeys, 1);

  const keyless = start(database.address, { backup, secretKey: () => null });
  await assert.rejects(keyless.done, {
    name: 'RefusedDatabase',
    message: /failed: There is no secret key on this machine.* Nothing was migrated\./,
  });
  assert.equal(await schema(), before);
  assert.deepEqual(readdirSync(to), []);
});

test('the backup goes into the bucket of scheduled backups, and nothing is migrated when the bucket loses it', async () => {
  await using database = await migratedDatabase();
  await using store = await startS3Server();
  const s3 = { ...ACCESS, endpoint: store.endpoint, sessionToken: null };
  const backup = { to: 's3://backups/acme', passphrase: null, recipients: [], s3 };
  store.fault = ({ operation }) => (/PutObject|Complete/.test(operation) ? 'lie' : null);
  await assert.rejects(start(database.address, { backup }).done, {
    name: 'RefusedDatabase',
    message:
      /^Migration 9001\.do\.next\.sql needs a backup first, which failed: .* Nothing was migrated\./,
  });
  store.fault = () => null;
  const key = `acme/letterhaus-schema-${await asOwner(database.address, readVersion)}-before-9001.backup`;
  store.put(key, Buffer.from('of a start that was repeated'));
  const { applied } = await start(database.address, { backup }).done;
  assert.equal(applied.length, 1);
  assert.deepEqual([...store.objects.keys()], [key]);
  assert.match(store.objects.get(key)!.toString('latin1', 0, 18), /^letterhaus backup /);
});
