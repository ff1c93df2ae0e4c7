/** The role in which workers log in. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { emptyDatabase } from '../../../test/support/postgres.ts';
import { startService } from '../../../test/support/service.ts';
import { eventually } from '../../../test/support/wait.ts';
import { clientQueries, connectAsOwner, Database, type DatabaseAddress } from '../database.ts';
import { addressForUser } from './address.ts';
import { scramVerifier } from './database-roles.ts';
import { migrate } from '../../migration/migrate.ts';

const OPTIONS = { nowMs: Date.now(), acceptAnyDurability: true };
const PLACE = { dataDir: '/', configured: 'a secret key of at least thirty-two characters' };

async function loginTo(address: DatabaseAddress): Promise<DatabaseAddress> {
  const { login } = await migrate(address, { ...OPTIONS, secretKey: PLACE });
  assert.ok(login !== null && 'address' in login, JSON.stringify(login));
  return login.address;
}

test('a worker logs in as a role that cannot become the owner', async () => {
  await using database = await emptyDatabase();
  const address = await loginTo(database.address);
  assert.deepEqual(await loginTo(database.address), address, 'the same for every node');
  const db = new Database(address, { role: null, name: 'test' });
  await db.transaction(async (tx) => {
    await tx.query('reset role');
    await tx.query('reset session authorization');
    const [row] = await tx.query<{ user: string; super: boolean }>(
      'select current_user::text as user, rolsuper as super from pg_roles where rolname = current_user',
    );
    assert.match(row!.user, /^letterhaus_\d+_[0-9a-f]{8}$/);
    assert.equal(row!.super, false);
  });
  const [owner] = await db.query<{ name: string }>(
    `select tableowner as name from pg_tables where tablename = 'queue'`,
  );
  for (const sql of [
    `set role "${owner!.name}"`,
    `set session authorization "${owner!.name}"`,
    'drop table queue',
    'create table mine (id int)',
    `copy (select 1) to program 'id'`,
    `select pg_read_file('/etc/passwd')`,
    `alter role current_user superuser`,
  ]) {
    await assert.rejects(db.query(sql), /permission denied|must be owner/, sql);
  }
  await db.query('delete from emails');
  await db.close();
});

test('an owner without the right to create roles lets workers log in as itself and set a role', async () => {
  await using database = await emptyDatabase();
  await migrate(database.address, OPTIONS);
  const client = await connectAsOwner(database.address, 'test');
  const owner = clientQueries(client);
  const [row] = await owner.query<{ name: string }>('select current_database() as name');
  const user = `poor_${row!.name}`;
  await owner.query(`create role ${user} login password 'secret'`);
  await owner.query(`create database ${user} owner ${user}`);
  const poor = addressForUser(
    { ...database.address, database: user },
    { user, password: 'secret' },
  );
  const address = poor.connectionString
    ? { connectionString: poor.connectionString.replace(row!.name, user) }
    : poor;
  try {
    const { login, role } = await migrate(address, { ...OPTIONS, secretKey: PLACE });
    assert.ok(login === null ? role === null : 'problem' in login, JSON.stringify(login));
  } finally {
    await owner.query(`drop database ${user} with (force)`);
    await owner.query(`drop role ${user}`);
    await client.end();
  }
});

test('the server stores the password as a SCRAM verifier', async () => {
  await using database = await emptyDatabase();
  const client = await connectAsOwner(database.address, 'test');
  const owner = clientQueries(client);
  const verifier = scramVerifier('pencil', Buffer.from('0123456789abcdef'));
  const [row] = await owner.query<{ name: string }>('select current_database() as name');
  const role = `verified_${row!.name}`;
  await owner.query(`create role ${role} password '${verifier}'`);
  // PostgreSQL stores a verifier unchanged, and hashes anything else.
  const kept = await owner.query('select rolpassword as kept from pg_authid where rolname = $1', [
    role,
  ]);
  await owner.query(`drop role ${role}`);
  assert.deepEqual(kept, [{ kept: verifier }]);
  await client.end();
});

test('every connection of a running service except that for partitions has such a role', async () => {
  await using service = await startService({ database: 'own', args: ['--workers', '1'] });
  const connections = `select distinct usename::text as role, application_name as name from pg_stat_activity
    where application_name like 'letterhaus %' order by 2`;
  // Connections of the owner end after their work: migrations, or a change of partitions at any time.
  await eventually(async () => {
    const open = await service.sql(connections);
    const others = open.filter(({ name }) => name !== 'letterhaus partitions');
    assert.ok(others.length > 3, JSON.stringify(open));
    assert.equal(new Set(others.map(({ role }) => role)).size, 1, JSON.stringify(open));
    for (const { role } of others) assert.match(role, /^letterhaus_\d+_[0-9a-f]{8}$/);
  });
  assert.doesNotMatch(service.logs, /log in to the database as its owner/);
  const log = readFileSync(join(service.dataDir, 'postgres.log'), 'utf8');
  assert.doesNotMatch(log, /STATEMENT|DETAIL/);
});
