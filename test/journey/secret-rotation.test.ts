/** The secret key is replaced while the service runs, without an effect on mail. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Resolver } from 'node:dns/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { authenticate } from 'mailauth';
import PostalMime from 'postal-mime';
import { parseSecretKeys } from '../../src/secrets/secret-keys.ts';
import { SecretBox } from '../../src/secrets/secret-box.ts';
import { startJourney } from '../support/journey.ts';
import { deliverReport, statusReport } from '../support/reports.ts';
import { waitFor } from '../support/wait.ts';

const PUBLIC_URL = 'https://mail.acme.example';

const journey = await startJourney(
  {
    LETTERHAUS_INBOUND_PORT: '0',
    LETTERHAUS_SMTP_HOST: '127.0.0.1',
    LETTERHAUS_PUBLIC_URL: PUBLIC_URL,
  },
  { args: ['--workers', '2'] },
);
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const keyFile = join(service.dataDir, 'secrets', 'secret-key');
const keysNow = () => parseSecretKeys(readFileSync(keyFile, 'utf8'));

type Sent = {
  id: string;
  returnPath: string;
  /** For unsubscribing. */
  link: string;
  tracked: string;
  address: string;
  raw: Buffer;
};

/** Sends an email that is delivered, and whose webhooks have valid signatures. */
async function send(domain: string): Promise<Sent> {
  const mx = await journey.mailServer(domain);
  const address = `jo@${domain}`;
  const html = '<a href="https://shop.example/">Shop</a>';
  const tracking = { clicks: true };
  const id = await journey.send({ to: address, html, tracking, unsubscribe: true });
  await journey.ended(id);
  assert.deepEqual(await journey.story(id), ['queued', 'delivered']);
  const [message] = mx.messages;
  const raw = Buffer.from(message!.raw);
  const field = /^List-Unsubscribe: ([^]*?)\r\n(?=\S)/im.exec(raw.toString())?.[1] ?? '';
  const link = /<https:\/\/mail\.acme\.example(\/u\/[\w-]+)>/.exec(
    field.replaceAll(/\s/g, ''),
  )?.[1];
  assert.ok(link, field);
  const { html: shown = '' } = await PostalMime.parse(raw);
  const tracked = /https:\/\/mail\.acme\.example(\/t\/[\w-]+)/.exec(shown)?.[1] ?? '';
  return { id, returnPath: message!.envelopeFrom, link, tracked, address, raw };
}

async function isSigned({ raw }: Sent): Promise<boolean> {
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  const { dkim } = await authenticate(raw, {
    ip: '127.0.0.1',
    helo: 'out.letterhaus.example',
    sender: 'x@send.acme.example',
    disableArc: true,
    disableBimi: true,
    resolver: async (name, type) => (await resolver.resolve(name, type)) as string[][],
  });
  return dkim.results.length > 0 && dkim.results.every(({ status }) => status.result === 'pass');
}

/** A bounce comes back to it, and somebody follows its link. */
async function assertStillValid(sent: Sent): Promise<void> {
  const { id, returnPath, link, tracked, address } = sent;
  const asked = await service.request('GET', link, { key: null });
  assert.equal(asked.status, 200, asked.text);
  const clicked = await fetch(service.url + tracked, { redirect: 'manual' });
  assert.equal(clicked.headers.get('location'), 'https://shop.example/');
  const message = statusReport({ recipient: address });
  const taken = await deliverReport(service.readyLine.inbound_port ?? 0, {
    to: returnPath,
    message,
  });
  assert.match(taken, /^250 /);
  assert.equal((await journey.email(id)).status, 'bounced');
}

const sealedValues = async (): Promise<{ id: string; sealed: Buffer }[]> =>
  service.sql(
    `select id, rsa_private_key as sealed from domains union all
     select id, ed25519_private_key from domains union all
     select id, secret from webhook_endpoints`,
  );

const rotate = (...options: string[]) => service.cli('secrets', 'rotate', ...options, '--json');

test('the secret key is replaced while the service runs, and earlier signatures stay valid', async () => {
  const [old] = keysNow();
  const before = await send('before.test');
  const linked = await send('linked.test');
  const rotated = await rotate();
  assert.equal(rotated.code, 0, rotated.stderr);
  const { step, sealed } = JSON.parse(rotated.stdout);
  const values = await sealedValues();
  assert.deepEqual([step, sealed], ['sealed', values.length]);
  const [fresh, ...rest] = keysNow();
  assert.deepEqual(rest, [old]);
  const onlyNew = new SecretBox(fresh!);
  for (const { id, sealed: value } of values) assert.ok(onlyNew.open(value, id).length > 30);

  const later = await send('later.test');
  assert.equal(await isSigned(later), true);
  await assertStillValid(before);
  await assertStillValid(later);
  assert.equal((await journey.request('POST', '/v1/domains', { name: 'new.example' })).status, 201);

  const again = JSON.parse((await rotate()).stdout);
  assert.deepEqual([again.step, again.sealed, keysNow().length], ['sealed', 0, 2]);
  const early = await rotate('--finish');
  assert.equal(early.code, 1);
  assert.match(early.stderr, /are accepted until 20\d\d-/);
  assert.equal(keysNow().length, 2);

  const finished = await rotate('--finish', '--force');
  assert.equal(finished.code, 0, finished.stderr);
  assert.deepEqual(keysNow(), [fresh]);
  const isForgotten = async () =>
    (await service.request('GET', linked.link, { key: null })).status === 404;
  await waitFor(isForgotten, { what: 'the old link to end' });
  assert.equal(await isSigned(await send('afterwards.test')), true);
});

test('a rotation that was killed after its first step continues with the same new key', async () => {
  const [old] = keysNow();
  const fresh = 'made-by-a-rotation-that-was-killed-since';
  writeFileSync(keyFile, `${old},${fresh}\n`);
  const { step } = JSON.parse((await rotate()).stdout);
  assert.equal(step, 'sealed');
  assert.deepEqual(keysNow(), [fresh, old]);
  assert.equal(await isSigned(await send('resumed.test')), true);
});

test('a key file without the current key does not affect the running service', async () => {
  const before = readFileSync(keyFile, 'utf8');
  writeFileSync(keyFile, 'another-key-that-has-sealed-nothing-at-all\n');
  await waitFor(() => service.logs.includes('does not contain the key'), { what: 'the warning' });
  assert.equal(await isSigned(await send('mistake.test')), true);
  assert.equal((await journey.request('POST', '/v1/domains', { name: 'own.example' })).status, 201);
  writeFileSync(keyFile, before);
  const [fresh] = parseSecretKeys(before);
  for (const { id, sealed } of await sealedValues()) new SecretBox(fresh!).open(sealed, id);
});

test('a key file that is deleted under a running service is written again', async () => {
  const before = readFileSync(keyFile, 'utf8');
  rmSync(keyFile);
  await waitFor(() => existsSync(keyFile), { what: 'the file to be written again' });
  assert.equal(readFileSync(keyFile, 'utf8'), before);
  await waitFor(() => service.logs.includes('was written to it again'), { what: 'the warning' });
});

test('a service that starts after a rotation uses the new key', async () => {
  await service.stop();
  await service.restart();
  assert.equal(await isSigned(await send('restarted.test')), true);
});
