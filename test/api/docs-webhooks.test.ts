/** The verification of webhooks in docs/webhooks.md: its Node example runs, and its test vector is right. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { signatureHeaders } from '../../src/webhooks/sending/signed-request.ts';
import { sharedService } from '../support/shared-service.ts';

type Headers = Record<string, string>;
type Example = {
  verify: (secret: string, headers: Headers, body: Buffer, nowMs?: number) => { type: string };
  server: Server;
};

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/webhooks.md'), 'utf8');

const block = (language: string): string => {
  const found = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, 'ms').exec(GUIDE)?.[1];
  assert.ok(found, `docs/webhooks.md has no example in ${language}`);
  return found;
};

const imported: unknown = await import(
  `data:text/javascript,${encodeURIComponent(block('js').replace('console.log', 'void '))}`
);
const { verify, server } = imported as Example;

/** The lines of the vector: `name: value`. */
const vector = Object.fromEntries(
  [...block('text').matchAll(/^([\w-]+): (.*)$/gm)].map((match) => [match[1], match[2]]),
) as Headers;
const { secret = '', body: text = '', ...headers } = vector;
const body = Buffer.from(text);
const atMs = Number(headers['webhook-timestamp']) * 1_000;

test('the vector has the signature that the service sends', () => {
  const id = headers['webhook-id'] ?? '';
  const sent = signatureHeaders({ id, timestampS: atMs / 1_000, body: text }, [secret]);
  assert.deepEqual(headers, {
    'webhook-id': sent['webhook-id'],
    'webhook-timestamp': sent['webhook-timestamp'],
    'webhook-signature': sent['webhook-signature'],
  });
  const now = new Webhook(secret).sign(id, new Date(atMs), text);
  assert.equal(headers['webhook-signature'], now);
});

test('the example for Node accepts the vector, and one signature of several', () => {
  assert.equal(verify(secret, headers, body, atMs).type, 'email.bounced');
  const rotated = { ...headers, 'webhook-signature': `v1,AAAA ${headers['webhook-signature']}` };
  assert.equal(verify(secret, rotated, body, atMs).type, 'email.bounced');
});

test('the example for Node refuses another body, id, secret and version, and an old request', () => {
  const signature = headers['webhook-signature'] ?? '';
  const refused: [Headers, Buffer, nowMs: number, why: RegExp][] = [
    [headers, Buffer.from(text.replace('bounced', 'Bounced')), atMs, /signature/],
    [{ ...headers, 'webhook-id': 'other' }, body, atMs, /signature/],
    [
      { ...headers, 'webhook-signature': signature.replace('v1,', 'v1a,') },
      body,
      atMs,
      /signature/,
    ],
    [{ ...headers, 'webhook-signature': '' }, body, atMs, /signature/],
    [
      { 'webhook-id': 'a', 'webhook-timestamp': headers['webhook-timestamp']! },
      body,
      atMs,
      /signature/,
    ],
    [headers, body, atMs + 360_000, /five minutes/],
    [headers, body, atMs - 360_000, /five minutes/],
    [{ ...headers, 'webhook-timestamp': 'soon' }, body, atMs, /five minutes/],
  ];
  for (const [given, bytes, nowMs, why] of refused) {
    assert.throws(() => verify(secret, given, bytes, nowMs), why);
  }
  const other = `whsec_${Buffer.alloc(32).toString('base64')}`;
  assert.throws(() => verify(other, headers, body, atMs), /signature/);
});

test('the server of the example accepts webhooks of the service, and refuses requests of others', async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => server.close());
  const service = await sharedService();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  const { body: webhook } = await service.request('POST', '/v1/webhooks', { body: { url } });
  const tested = async () => {
    const { body: delivery } = await service.request('POST', `/v1/webhooks/${webhook.id}/test`);
    return [delivery.status, delivery.log[0].status];
  };
  process.env['SIGNING_SECRET'] = webhook.signing_secret;
  assert.deepEqual(await tested(), ['delivered', 204]);
  process.env['SIGNING_SECRET'] = secret;
  assert.deepEqual(await tested(), ['failed', 401]);
});

test('the examples in other languages compare in constant time', () => {
  const comparisons: [language: string, comparison: string][] = [
    ['python', 'hmac.compare_digest('],
    ['go', 'hmac.Equal('],
    ['php', 'hash_equals('],
    ['ruby', 'OpenSSL.secure_compare('],
  ];
  for (const [language, comparison] of comparisons) assert.ok(block(language).includes(comparison));
});
