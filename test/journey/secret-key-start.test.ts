/** A start without the secret key of the database ends with one sentence. It makes no key and changes nothing. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { secretKeyId } from '../../src/secrets/secret-keys.ts';
import { letterhaus, type Env } from '../support/letterhaus.ts';
import { migratedDatabase } from '../support/postgres.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const WRONG = 'a key of another installation that is long enough';

const folder = await mkdtemp(join(tmpdir(), 'letterhaus-test-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const keyFileOf = (dataDir: string) => join(dataDir, 'secrets', 'secret-key');

/** A start that has to end with exit code 2 and one sentence. @returns the sentence */
async function refusedStart(env: Env): Promise<string> {
  const { code, stdout, stderr } = await letterhaus(['start'], env);
  assert.equal(code, 2, stderr);
  assert.equal(stdout, '');
  const said = stderr.split('\n').filter((line) => line.startsWith('letterhaus: '));
  assert.equal(said.length, 1, stderr);
  assert.doesNotMatch(stderr, /^ +at /m);
  return said[0]!.slice('letterhaus: '.length);
}

/** Everything that a wrong key could spoil. */
async function stateOf(service: Service): Promise<unknown> {
  return service.sql(
    `select (select secret_check from installation) as "check",
            (select json_agg(rsa_private_key order by id) from domains) as keys,
            (select json_agg(id order by id) from secret_keys) as used,
            (select count(*) from pg_roles, pg_database
              where datname = current_database()
                and rolname like 'letterhaus~_' || pg_database.oid || '~_%' escape '~') as roles`,
  );
}

test('a service does not start without its secret key, and starts again when the key is back', async () => {
  await using service = await startService();
  const file = keyFileOf(service.dataDir);
  const right = readFileSync(file, 'utf8');
  const id = secretKeyId(right.trim());
  await service.stop();
  const before = await stateOf(service);

  rmSync(file);
  const missing = await refusedStart(service.env);
  assert.ok(missing.startsWith(`There is no secret key in ${file}, but the database`), missing);
  assert.ok(missing.includes(`(key ${id})`) && missing.includes('another node'), missing);
  assert.equal(existsSync(file), false);

  const shapes = [
    ['', /is empty\. Copy the file back/],
    [' \n,\n', /is empty\. Copy the file back/],
    [
      `${WRONG}\n`,
      /does not open the secrets in the database, which key [0-9a-f]{8} sealed\. Copy/,
    ],
    [right.slice(0, 20), /is damaged and does not open/],
    [right.slice(0, 40), /does not open/],
    [Buffer.from([0, 255, 1, 254]), /is damaged and does not open/],
  ] as const;
  for (const [content, sentence] of shapes) {
    writeFileSync(file, content);
    const said = await refusedStart(service.env);
    assert.match(said, sentence);
    assert.ok(said.includes(file), said);
    assert.deepEqual(readFileSync(file), Buffer.from(content));
  }
  rmSync(file);
  mkdirSync(file);
  assert.match(await refusedStart(service.env), /secret-key cannot be read \(EISDIR\)/);
  rmSync(file, { recursive: true });
  assert.deepEqual(await stateOf(service), before);

  writeFileSync(file, right);
  await service.restart();
  const sent = await service.send({ to: 'delivered@simulator.test' });
  await service.waitForStatus(sent, 'delivered');
});

test('LETTERHAUS_SECRET_KEY with another key ends the start and is named', async () => {
  await using service = await startService();
  await service.stop();
  const said = await refusedStart({ ...service.env, LETTERHAUS_SECRET_KEY: WRONG });
  assert.match(said, /^LETTERHAUS_SECRET_KEY \(key [0-9a-f]{8}\) does not open the secrets/);
  assert.equal(said.includes(WRONG), false);
});

test('a second node without the key of the first does not start, and the first sends all mail', async () => {
  await using first = await startService();
  const dataDir = join(folder, 'second');
  const env = { ...first.env, LETTERHAUS_DATA_DIR: dataDir };
  const sent = await first.send({ to: 'delivered@simulator.test' });
  assert.match(await refusedStart(env), /another node/);
  assert.deepEqual(readdirSync(join(dataDir, 'secrets')), []);
  await first.waitForStatus(sent, 'delivered');
  writeFileSync(keyFileOf(dataDir), WRONG);
  assert.match(await refusedStart(env), /does not open/);

  writeFileSync(keyFileOf(dataDir), readFileSync(keyFileOf(first.dataDir)));
  const { DATABASE_URL } = first.env;
  await using second = await startService({ dataDir, env: { DATABASE_URL } });
  const response = await second.request('GET', '/v1/emails', { key: first.testKey });
  assert.equal(response.status, 200);
});

test('of two nodes that begin on an empty database at once, one starts and the other says why not', async () => {
  await using database = await migratedDatabase();
  const nodes = ['one', 'two'].map((name) => join(folder, name));
  const starts = await Promise.allSettled(
    nodes.map((dataDir) => startService({ database, dataDir })),
  );
  const started = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
  try {
    assert.equal(started.length, 1);
    const [winner] = started;
    const other = nodes.find((dataDir) => dataDir !== winner!.dataDir)!;
    const refused = starts.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
    assert.match(String(refused.reason), /ended with 2[^]*There is no secret key in/);
    assert.equal(existsSync(keyFileOf(other)), false);
    const sent = await winner!.send({ to: 'delivered@simulator.test' });
    await winner!.waitForStatus(sent, 'delivered');
  } finally {
    for (const service of started) await service[Symbol.asyncDispose]();
  }
});

test('a database from before the check is recognised by its sealed values', async () => {
  await using service = await startService();
  const file = keyFileOf(service.dataDir);
  const right = readFileSync(file);
  await service.stop();
  await service.sql('update installation set secret_check = null');
  writeFileSync(file, WRONG);
  assert.match(await refusedStart(service.env), /does not open/);
  rmSync(file);
  assert.match(await refusedStart(service.env), /There is no secret key/);
  writeFileSync(file, right);
  await service.restart();
  const [{ check }] = await service.sql('select secret_check as check from installation');
  assert.ok(check.length > 40);

  // A damaged check, while everything else is well.
  await service.stop();
  await service.sql(`update installation set secret_check = 'damaged'`);
  await service.restart();
  const [row] = await service.sql('select secret_check as check from installation');
  assert.ok(row.check.length > 40);
});

test('a command that seals ends with the same sentence and changes nothing', async () => {
  await using service = await startService();
  const isNoted = async () => (await service.sql('select id from secret_keys')).length > 0;
  await waitFor(isNoted, { what: 'the service to note its key' });
  const before = await stateOf(service);
  const dataDir = join(folder, 'commands');
  const env = { ...service.env, LETTERHAUS_DATA_DIR: dataDir };
  const { code, stdout, stderr } = await letterhaus(['secrets', 'rotate'], env);
  assert.equal(code, 2, stderr);
  assert.equal(stdout, '');
  assert.match(stderr, /^letterhaus: There is no secret key in .*secret-key, but.*\n$/);
  assert.deepEqual(readdirSync(join(dataDir, 'secrets')), []);
  assert.deepEqual(await stateOf(service), before);
});

test('with the embedded database a lost key ends the start as well', async () => {
  await using service = await startService({ database: 'own' });
  const file = keyFileOf(service.dataDir);
  const right = readFileSync(file);
  await service.stop();
  rmSync(file);
  assert.match(await refusedStart(service.env), /There is no secret key/);
  writeFileSync(file, right);
  await service.restart();
});

test('a damaged id of the installation is replaced', async () => {
  await using service = await startService();
  await service.stop();
  const file = join(service.dataDir, 'secrets', 'instance');
  writeFileSync(file, '');
  await service.restart();
  assert.match(readFileSync(file, 'utf8'), /^[0-9a-f-]{36}\n$/);
});
