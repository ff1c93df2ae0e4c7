/** Sending domains that bring their DKIM key from another service. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertFailure } from '../support/api.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const dns = await startFakeDns();
const service = await startService({
  dns,
  env: {
    LETTERHAUS_HOSTNAME: 'mail.letterhaus.example',
    LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});

type Body = ApiResponse['body'];

async function newProject(name: string): Promise<string> {
  await service.cliJson('projects', 'create', name);
  return (await service.cliJson('keys', 'create', '--environment', 'live', '--project', name)).key;
}
const owner = await newProject('Owner');
const other = await newProject('Other');

function newKey(modulusLength = 2048): { pem: string; record: string } {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength });
  const p = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  const pem = privateKey.export({ type: 'pkcs1', format: 'pem' });
  return { pem, record: `v=DKIM1; k=rsa; p=${p}` };
}

const add = (name: string, dkim: object, key = owner) =>
  service.request('POST', '/v1/domains', { key, body: { name, dkim } });

async function added(name: string, dkim: object, key = owner): Promise<Body> {
  const response = await add(name, dkim, key);
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const verify = async ({ id }: Body, key = owner): Promise<Body> =>
  (await service.request('POST', `/v1/domains/${id}/verify`, { key })).body;

function publishReturnPath({ records }: Body): void {
  for (const { record, type, name, value, priority } of records) {
    if (record !== 'DKIM') dns.set(name, type, [type === 'MX' ? `${priority} ${value}` : value]);
  }
}

test('a domain that brings its key needs no new DKIM record, and never shows the private key', async () => {
  const { pem, record } = newKey();
  // As the other service wrote it.
  dns.set('s1._domainkey.moved.example', 'TXT', [record.replace('v=DKIM1; ', '')]);
  const domain = await added('moved.example', { selector: 'S1', private_key: pem });
  const [dkim, second] = domain.records;
  assert.deepEqual(
    [dkim.name, dkim.value, dkim.required],
    ['s1._domainkey.moved.example', record, true],
  );
  assert.match(second.value, /k=ed25519/);
  publishReturnPath(domain);
  const checked = await verify(domain);
  assert.deepEqual([checked.status, checked.records[0].status], ['verified', 'verified']);

  // The first lines have the modulus, which is public.
  const secretLine = pem.split('\n').at(-5)!;
  const read = await service.request('GET', `/v1/domains/${domain.id}`, { key: owner });
  const events = await service.request('GET', '/v1/events?types=domain.created', { key: owner });
  for (const { text } of [read, events]) {
    assert.ok(text.includes('s1._domainkey.moved.example'));
    assert.ok(!text.includes('PRIVATE KEY') && !text.includes(secretLine));
  }
  const [stored] = await service.sql('select domains::text as row from domains where id = $1', [
    domain.id,
  ]);
  assert.ok(!stored.row.includes(Buffer.from('PRIVATE KEY').toString('hex')), 'it is encrypted');
});

test('another key under the selector never verifies the domain', async () => {
  const own = newKey();
  const domain = await added('shared.example', { selector: 'k1', private_key: own.pem });
  dns.set('k1._domainkey.shared.example', 'TXT', [own.record]);
  publishReturnPath(domain);
  assert.equal((await verify(domain)).status, 'verified');
  const foreign = await added(
    'shared.example',
    { selector: 'k1', private_key: newKey().pem },
    other,
  );
  const checked = await verify(foreign, other);
  assert.equal(checked.status, 'pending');
  assert.match(checked.records[0].problem, /another key is published at this name/);
  // The holder of the private key can sign for the domain anywhere.
  await service.request('DELETE', `/v1/domains/${foreign.id}`, { key: other });
  const same = await added('shared.example', { selector: 'k1', private_key: own.pem }, other);
  assert.equal((await verify(same, other)).status, 'verified');
});

test('a key or selector that cannot be used is refused with its field, and nothing is added', async () => {
  const { pem } = newKey();
  const encrypted = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  });
  const refusals: [object, string, RegExp][] = [
    [{ selector: 's 1', private_key: pem }, 'dkim.selector', /letters, digits/],
    [{ selector: 's1', private_key: encrypted }, 'dkim.private_key', /passphrase.*openssl/],
    [{ selector: 's1', private_key: newKey(512).pem }, 'dkim.private_key', /512 bits/],
    [{ selector: 's1', private_key: 'x'.repeat(9_000) }, 'dkim.private_key', /8192/],
    [{ selector: 's1', private_key: 'no key' }, 'dkim.private_key', /PEM/],
    [{ selector: 's1' }, 'dkim.private_key', /required/],
    [{ private_key: pem }, 'dkim.selector', /required/],
    [{ selector: 's1', private_key: pem, key: 1 }, 'dkim.key', /spelling/],
  ];
  for (const [dkim, field, why] of refusals) {
    const response = await add('refused.example', dkim);
    assertFailure(response, 422, 'validation_error', why);
    assert.deepEqual(
      response.body.error.details.map((detail: Body) => detail.field),
      [field],
    );
  }
  const { data } = (await service.request('GET', '/v1/domains', { key: owner })).body;
  assert.ok(data.every(({ name }: Body) => name !== 'refused.example'));
});

test('a key of 1024 bits is accepted with advice to replace it', async () => {
  const domain = await added('short.example', { selector: 'old', private_key: newKey(1024).pem });
  const [advice] = domain.advice;
  assert.equal(advice.about, 'dkim');
  assert.match(advice.message, /has 1024 bits/);
  const { advice: later } = await verify(domain);
  assert.ok(later.some(({ about }: Body) => about === 'dkim'));
});

test('the command line adds a domain with the key of a file', async () => {
  const { pem, record } = newKey();
  const file = join(service.dataDir, 's1.pem');
  writeFileSync(file, pem);
  const run = (...options: string[]) =>
    service.cli('domains', 'add', 'by-hand.example', '--project', 'Owner', ...options);
  const half = await run('--dkim-key', file);
  assert.deepEqual([half.code, /belong together/.test(half.stderr)], [2, true]);
  const none = await run('--dkim-key', `${file}.no`, '--dkim-selector', 's1');
  assert.deepEqual([none.code, /cannot be read/.test(none.stderr)], [2, true]);
  const wrong = await run('--dkim-key', file, '--dkim-selector', 's_1');
  assert.match(wrong.stderr, /dkim\.selector: must consist of/);
  const done = await run('--dkim-key', file, '--dkim-selector', 's1');
  assert.equal(done.code, 0, done.stderr);
  assert.ok(done.stdout.includes('s1._domainkey.by-hand.example') && done.stdout.includes(record));
  assert.ok(!done.stdout.includes('PRIVATE'));
});
