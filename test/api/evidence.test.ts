/** The case file of an email: what is in it, who may have it, and how it is verified, here and elsewhere. */
import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { canonicalJson } from '../../src/emails/evidence/canonical-json.ts';
import { EMAIL, UUID_V7 } from '../support/api.ts';
import { temporaryFolder } from '../support/embedded.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { type ApiResponse, startService } from '../support/service.ts';

const dns = await startFakeDns();
const service = await startService({ dns });
after(async () => {
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});
const folder = temporaryFolder();

type Body = ApiResponse['body'];
const TO = ['delivered@simulator.test', 'bounced+case@simulator.test'];

async function sendBoth(): Promise<string> {
  const { body } = await service.request('POST', '/v1/emails', { body: { ...EMAIL, to: TO } });
  await service.waitForStatus(body.id, 'bounced');
  return body.id;
}

const caseFileOf = (id: string, query = '') =>
  service.request('GET', `/v1/emails/${id}/case-file${query}`);

test('a case file has the dialogue of each attempt and hashes instead of the content', async () => {
  const id = await sendBoth();
  const response = await caseFileOf(id);
  assert.equal(response.status, 200);
  const disposition = response.headers.get('content-disposition');
  assert.equal(disposition, `attachment; filename="case-${id}.json"`);
  const file: Body = response.body;
  assert.equal(file['object'], 'case_file');
  assert.match(file['email'].id, UUID_V7);
  assert.ok(!('html' in file['email']) && !response.text.includes('<p>Hello</p>'));
  const attempts = file['events'].flatMap(({ attempt }: Body) => attempt ?? []);
  assert.equal(attempts.length, 2);
  for (const { transcript } of attempts) assert.match(transcript.join('\n'), /^S: \d{3} /m);
  assert.equal(file['message'].sha256, attempts[0].message_sha256);
  assert.match(file['message'].header, /^DKIM-Signature: /m);
  assert.equal(file['events_complete'], true);
});

test('a case file has the DNS records of the sending domain as they were when the email was sent', async () => {
  const check = async (records: Record<string, string[]>): Promise<void> => {
    for (const [name, texts] of Object.entries(records)) dns.set(name, 'TXT', texts);
    const { body: domains } = await service.request('GET', '/v1/domains', { key });
    const response = await service.request('POST', `/v1/domains/${domains.data[0].id}/verify`, {
      key,
    });
    assert.equal(response.status, 200, response.text);
  };
  const key = await service.liveKey();
  dns.set('_dmarc.dated.test', 'TXT', ['v=DMARC1; p=reject']);
  await service.addLiveDomain('dated.test');
  const send = async (): Promise<string> => {
    const body = { ...EMAIL, from: 'hello@dated.test', to: 'jo@mail.org' };
    const accepted = await service.request('POST', '/v1/emails', { key, body });
    assert.equal(accepted.status, 202, accepted.text);
    return accepted.body.id;
  };
  const checksOf = async (id: string): Promise<Body[]> =>
    (await service.request('GET', `/v1/emails/${id}/case-file`, { key })).body['domain_checks'];
  const earlier = await send();
  // A check that finds the same makes no second result.
  await check({});
  await check({ '_dmarc.dated.test': ['v=DMARC1; p=none'], 'send.dated.test': ['v=spf1 -all'] });
  const later = await send();

  const [first] = await checksOf(earlier);
  const spfOf = (result: Body) => result['records'].find(({ record }: Body) => record === 'SPF');
  assert.deepEqual(first!['dmarc'], {
    status: 'found',
    domain: 'dated.test',
    found: ['v=DMARC1; p=reject'],
  });
  assert.equal(spfOf(first).status, 'verified');
  assert.ok(first!['last_checked_at'] > first!['first_checked_at']);
  const [then, ...more] = await checksOf(later);
  assert.deepEqual(more, []);
  assert.deepEqual(then!['dmarc'].found, ['v=DMARC1; p=none']);
  assert.deepEqual([spfOf(then).status, spfOf(then).found], ['mismatch', ['v=spf1 -all']]);
});

test('a case file of one recipient names no other one', async () => {
  const id = await sendBoth();
  const response = await caseFileOf(id, '?recipient=bounced%2Bcase@simulator.test');
  assert.deepEqual(response.body.email.to, ['bounced+case@simulator.test']);
  assert.equal(response.body.email.recipients.length, 1);
  const { header, ...others } = response.body.message;
  assert.equal(others.recipient, 'bounced+case@simulator.test');
  // The recipient's server got the header To, with all of them.
  const withoutHeader = response.text.replace(JSON.stringify(header), '');
  assert.doesNotMatch(withoutHeader, /delivered@simulator\.test/);
  assert.equal((await caseFileOf(id, '?recipient=nobody@acme.test')).status, 404);
});

test('anybody may have the public key, and another program verifies a file with it', async () => {
  const { body: file } = await caseFileOf(await sendBoth());
  const response = await fetch(`${service.url}/v1/receipt-key`);
  const key: Body = await response.json();
  assert.equal(file.signer.fingerprint, key.fingerprint);
  const { signature, ...signed } = file;
  const bytes = Buffer.from(canonicalJson(signed));
  const publicKey = createPublicKey(key.public_key_pem);
  assert.ok(verify(null, bytes, publicKey, Buffer.from(signature, 'base64')));
});

test('the command line verifies a file, and refuses one with a changed byte', async () => {
  const path = join(folder, 'case.json');
  const id = await sendBoth();
  const written = await service.cli('emails', 'case-file', id, '--out', path);
  assert.equal(written.code, 0, written.stderr);
  const verified = await service.cli('verify-receipt', path);
  assert.equal(verified.code, 0, verified.stderr);
  assert.equal(verified.stderr, '');
  assert.match(
    verified.stdout,
    /signature +valid[^]*key +compared with the service at this machine/,
  );
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.replace('"status": "bounced"', '"status": "pounced"'));
  const refused = await service.cli('verify-receipt', path);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /The file was changed after it was signed/);
});

test('without a service a file is verified with the key in it, and a warning names the fingerprint', async () => {
  const { text, body: file } = await caseFileOf(await sendBoth());
  const path = join(folder, 'elsewhere.json');
  writeFileSync(path, text);
  const env = { LETTERHAUS_DATA_DIR: join(folder, 'none'), HOME: folder };
  const run = (...args: string[]) => letterhaus(['verify-receipt', path, ...args], env);
  const alone = await run();
  assert.equal(alone.code, 0, alone.stderr);
  assert.match(alone.stderr, /was not compared/);
  assert.ok(alone.stderr.includes(file.signer.fingerprint));
  const { stdout: json } = await service.cli('receipt-key', '--json');
  const keyFile = join(folder, 'receipt-key.json');
  writeFileSync(keyFile, json);
  for (const key of [file.signer.fingerprint, file.signer.public_key, keyFile]) {
    const known = await run('--key', key);
    assert.deepEqual([known.code, known.stderr], [0, ''], key);
  }
  const other = await run('--key', `SHA256:${'A'.repeat(43)}`);
  assert.equal(other.code, 1);
  assert.match(other.stderr, /another key signed it/);
  assert.equal((await run('--key', 'nonsense')).code, 2);
});

test('a receipt key that the secret key does not open is retired, and a new one signs', async () => {
  const { body: before } = await caseFileOf(await sendBoth());
  await service.sql(`update receipt_keys set private_key = '\\x00'::bytea`);
  const { body: later } = await caseFileOf(await sendBoth());
  assert.notEqual(later.signer.fingerprint, before.signer.fingerprint);
  const { body: key } = await service.request('GET', '/v1/receipt-key');
  assert.equal(key.fingerprint, later.signer.fingerprint);
  assert.deepEqual(
    key.retired.map(({ fingerprint }: Body) => fingerprint),
    [before.signer.fingerprint],
  );
});
