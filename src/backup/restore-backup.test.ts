/** Backups of databases with rows in every table, restored into empty databases of a real PostgreSQL. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { temporaryFolder } from '../../test/support/embedded.ts';
import { makeFirstSchema, rowsOf } from '../../test/support/first-schema.ts';
import {
  asOwner,
  emptyDatabase,
  migratedDatabase,
  type TestDatabase,
} from '../../test/support/postgres.ts';
import { readHold } from './store/hold.ts';
import { openRestoreTarget } from './store/restore-target.ts';
import type { DatabaseAddress } from '../database/database.ts';
import { migrate } from '../migration/migrate.ts';
import { fileDestination, readBackupFile } from './places/folder-place.ts';
import { BackupWriter } from './format.ts';
import { makeBackup } from './make-backup.ts';
import { checkBackup, fillFrom } from './restore-backup.ts';
import type { Opening, Sealing } from './sealed-key.ts';

const SECRET_KEY = 'a secret key of at least 32 characters';
const PASSPHRASE = 'correct horse battery staple';
const folder = temporaryFolder();
let files = 0;

async function backUp(address: DatabaseAddress, sealing: Sealing = null): Promise<string> {
  const path = join(folder, `${(files += 1)}.backup`);
  await makeBackup({
    address,
    secretKey: SECRET_KEY,
    sealing,
    version: '0.1.0',
    openDestination: () => fileDestination(path, { bytes: 0 }),
  });
  return path;
}

const keys = { present: SECRET_KEY, opening: null };

async function restore(path: string, into: DatabaseAddress): Promise<void> {
  const read = () => readBackupFile(path);
  const { facts } = await checkBackup(read, keys);
  await using target = await openRestoreTarget(into);
  await fillFrom(read, target, { facts, keepSecretKey: () => {}, journal: null });
}

const present = { nowMs: Date.now(), acceptAnyDurability: true };

type Rows = Awaited<ReturnType<typeof rowsOf>>;

/** Tables that a restore leaves empty or changes: claims and machines of the lost installation. */
const CHANGED = [
  'installation',
  'queue',
  'webhook_queue',
  // The time from which mail is counted as it arrives, set by the migration
  // (accounts/storage/earlier-storage-store.ts).
  'storage_earlier',
];
const NOT_BACKED_UP = /^(nodes|providers|mail_hosts|known_secret_keys|schema_migrations)$/;

function assertSame(backedUp: Rows, now: Rows): void {
  for (const [table, rows] of backedUp) {
    if (NOT_BACKED_UP.test(table)) continue;
    const restored = now.get(table) ?? [];
    if (CHANGED.includes(table)) assert.equal(restored.length, rows.length, table);
    else assert.deepEqual(restored, rows, table);
  }
}

/** A database with rows in every table of the first schema. */
let lost: Omit<TestDatabase, 'db'>;
let oldBackup: string;

before(async () => {
  lost = await emptyDatabase();
  await makeFirstSchema(lost.address);
  // The first schema compared addresses without the case of ASCII letters only.
  await lost.sql(
    `insert into suppressions (project_id, environment, address_key, address, reason, created_at)
     select id, 'live', 'jÖrg@acme.test', 'JÖRG@acme.test', 'unsubscribe', now() from projects limit 1`,
  );
  oldBackup = await backUp(lost.address);
  // Otherwise the migration waits until these nodes end.
  await lost.sql('delete from nodes');
  await migrate(lost.address, present);
});
after(() => lost[Symbol.asyncDispose]());

test('every row of every table is restored, and the installation is on hold', async () => {
  const path = await backUp(lost.address);
  await using fresh = await emptyDatabase();
  await restore(path, fresh.address);
  await migrate(fresh.address, present);
  assertSame(await rowsOf(lost.address), await rowsOf(fresh.address));
  assert.notEqual(await asOwner(fresh.address, readHold), null);
  const [row] = await fresh.sql(
    'select count(*)::int as claimed from queue where holder is not null',
  );
  assert.equal(row.claimed, 0);
});

test('a backup of an older schema is restored and migrated', async () => {
  await using fresh = await emptyDatabase();
  await restore(oldBackup, fresh.address);
  await migrate(fresh.address, present);
  assertSame(await rowsOf(lost.address), await rowsOf(fresh.address));
  const keyed = await fresh.sql(`select from suppressions where address_key = 'jörg@acme.test'`);
  assert.equal(keyed.length, 1, 'addresses compare as in the current schema');
});

test('every table of the schema is in a backup, or belongs to the machines that run', async () => {
  const { facts } = await checkBackup(await reading(lost.address), keys);
  const all = [...(await rowsOf(lost.address)).keys()];
  const without = all.filter((name) => facts.rows[name] === undefined);
  assert.deepEqual(without.toSorted(), [
    'known_secret_keys',
    'mail_hosts',
    'nodes',
    'providers',
    'status_transitions',
  ]);
});

async function reading(address: DatabaseAddress, sealing: Sealing = null) {
  const path = await backUp(address, sealing);
  return () => readBackupFile(path);
}

test('a backup with any byte changed, or cut anywhere, is refused with the reason', async () => {
  const path = await backUp(lost.address);
  const good = readFileSync(path);
  const damaged = join(folder, 'damaged');
  const problemOf = (): Promise<string> =>
    checkBackup(() => readBackupFile(damaged), keys).then(
      () => 'none',
      (error: Error) => `${error.name}: ${error.message}`,
    );
  const places = Array.from({ length: 60 }, (_, index) =>
    Math.floor((index * (good.length - 1)) / 59),
  );
  for (const place of places) {
    const bytes = Buffer.from(good);
    bytes[place] = bytes[place]! ^ 0x10;
    writeFileSync(damaged, bytes);
    assert.match(
      await problemOf(),
      /^BackupDamaged: (The backup is|This is no|This backup)/,
      String(place),
    );
    writeFileSync(damaged, good);
    truncateSync(damaged, place);
    assert.match(
      await problemOf(),
      /^BackupDamaged: (The backup is incomplete|This is not)/,
      String(place),
    );
  }
  writeFileSync(damaged, Buffer.concat([good, Buffer.from('x')]));
  assert.match(await problemOf(), /something follows its end/);
  writeFileSync(damaged, '<!doctype html><p>Sign in</p>');
  assert.match(await problemOf(), /This is not a backup of Letterhaus\./);
  writeFileSync(damaged, good);
  assert.equal(await problemOf(), 'none');
});

test('a backup of a newer format or a newer schema is refused', async () => {
  const path = await backUp(lost.address);
  const bytes = readFileSync(path);
  bytes.write('letterhaus backup 9\n', 'latin1');
  const newer = join(folder, 'newer');
  writeFileSync(newer, bytes);
  const check = () => checkBackup(() => readBackupFile(newer), keys);
  await assert.rejects(check(), /format 9, and this version of Letterhaus reads 1/);
  const chunks: Buffer[] = [];
  const writer = new BackupWriter({ write: async (chunk) => void chunks.push(chunk) });
  await writer.header({ schema: 9_999, version: '7.0.0' });
  await writer.trailer();
  writeFileSync(newer, Buffer.concat(chunks));
  await assert.rejects(check(), /newer version of Letterhaus \(7\.0\.0, schema 9999\)/);
});

test('the secret key opens with its passphrase or identity, and with nothing else', async () => {
  const open = async (read: () => AsyncIterable<Buffer>, opening: Opening) =>
    (await checkBackup(read, { present: null, opening })).secretKey;
  const byPassphrase = await reading(lost.address, { passphrase: PASSPHRASE });
  assert.equal(await open(byPassphrase, { passphrase: PASSPHRASE }), SECRET_KEY);
  await assert.rejects(open(byPassphrase, { passphrase: 'another passphrase' }), {
    message: 'The passphrase does not open the secret key of this backup.',
  });
  await assert.rejects(open(byPassphrase, null), /Add --passphrase-file FILE/);

  const identity = await generateIdentity();
  const recipients = [await identityToRecipient(identity)];
  const forRecipient = await reading(lost.address, { recipients });
  assert.equal(await open(forRecipient, { identities: [identity] }), SECRET_KEY);
  const other = await generateIdentity();
  await assert.rejects(open(forRecipient, { identities: [other] }), {
    message: 'The identity does not open the secret key of this backup.',
  });
  await assert.rejects(open(forRecipient, null), /Add --identity FILE/);
  const without = await reading(lost.address);
  await assert.rejects(open(without, null), /made without its secret key/);
  const another = { present: 'another key of at least 32 characters', opening: null };
  await assert.rejects(checkBackup(without, another), /is not the key of the backup/);
});

test('a database with data is refused and keeps it', async () => {
  await using used = await migratedDatabase();
  const path = await backUp(lost.address);
  const rows = await rowsOf(used.address);
  await assert.rejects(restore(path, used.address), /This database has data/);
  assert.deepEqual(await rowsOf(used.address), rows);
});

test('an interrupted restore leaves a database that no service uses, until it is repeated', async () => {
  await using fresh = await emptyDatabase();
  const path = await backUp(lost.address);
  const { facts } = await checkBackup(() => readBackupFile(path), keys);
  {
    await using target = await openRestoreTarget(fresh.address);
    await target.begin(facts.header);
    await assert.rejects(
      restore(path, fresh.address),
      /Another restore or move into this database is running/,
    );
    await assert.rejects(migrate(fresh.address, present), /running or was interrupted/);
  }
  await assert.rejects(migrate(fresh.address, present), /repeat `letterhaus restore FILE`/);
  await assert.rejects(backUp(fresh.address), /repeat `letterhaus restore FILE`/);
  await restore(path, fresh.address);
  await migrate(fresh.address, present);
  assertSame(await rowsOf(lost.address), await rowsOf(fresh.address));
});

test('too little space is reported before anything is written, and other files are not replaced', async () => {
  const path = join(folder, 'no-room');
  const room = { bytes: 5 * 1024 ** 3, freeBytes: () => Promise.resolve(1024 ** 3) };
  await assert.rejects(fileDestination(path, room), /may take 5120 MB, and 1024 MB are free/);
  assert.equal(existsSync(path), false);
  writeFileSync(path, 'my diary');
  await assert.rejects(fileDestination(path, { bytes: 0 }), /exists and is no backup/);
  assert.equal(readFileSync(path, 'utf8'), 'my diary');
});

test('a backup that fails leaves the one before it', async () => {
  const path = await backUp(lost.address);
  const complete = readFileSync(path);
  const destination = await fileDestination(path, { bytes: 0 });
  await destination.write(Buffer.from('half of it'));
  assert.deepEqual(readFileSync(path), complete);
  await destination.abandon();
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.includes('unfinished')),
    [],
  );
});
