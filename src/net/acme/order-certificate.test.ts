/** Orders of certificates at a real ACME server, which verifies signatures, fetches the challenge and signs. */
import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { startAcmeServer } from '../../../test/support/acme-server.ts';
import { readChain } from '../tls/chain.ts';
import { AcmeClient } from './acme-client.ts';
import { AcmeError, remedyOf } from './acme-error.ts';
import { renewalId } from './renewal-id.ts';
import { type OrderOptions, orderCertificate } from './order-certificate.ts';

const newKey = () =>
  generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey;

/** An ACME server, and a web server that answers its challenges. */
async function stage() {
  const answers = new Map<string, string>();
  const web = createServer((request, response) => {
    const answer = answers.get(request.url ?? '');
    response.writeHead(answer === undefined ? 404 : 200).end(answer);
  }).listen(0, '127.0.0.1');
  await once(web, 'listening');
  const acme = await startAcmeServer({ challengePort: (web.address() as AddressInfo).port });
  const accountKey = createPrivateKey(newKey());
  const orderUrls: string[] = [];
  const order = (change: Partial<OrderOptions> = {}): Promise<string> => {
    const { signal = AbortSignal.timeout(60_000) } = change;
    const { directoryUrl } = acme;
    return orderCertificate(new AcmeClient({ directoryUrl, accountKey, signal }), {
      name: 'mail.acme.test',
      email: 'ops@acme.test',
      privateKey: newKey(),
      orderUrl: null,
      onOrdered: async (url) => void orderUrls.push(url),
      publish: async ({ token, keyAuthorization }) =>
        void answers.set(`/.well-known/acme-challenge/${token}`, keyAuthorization),
      onValidating: () => {},
      signal,
      ...change,
    });
  };
  const close = async () => {
    web.close();
    web.closeAllConnections();
    await acme[Symbol.asyncDispose]();
  };
  return { acme, order, orderUrls, [Symbol.asyncDispose]: close };
}

function refusedAs(type: string, message: RegExp) {
  return (error: unknown) => {
    assert.ok(error instanceof AcmeError, String(error));
    assert.equal(error.type, type);
    assert.match(error.message, message);
    return true;
  };
}

test('a certificate is ordered for a name and a key, by one account', async () => {
  await using staged = await stage();
  const { acme, order, orderUrls } = staged;
  const privateKey = newKey();
  const [certificate, issuer] = readChain(await order({ privateKey }));
  assert.ok(certificate.checkPrivateKey(createPrivateKey(privateKey)));
  assert.equal(certificate.checkHost('mail.acme.test', { subject: 'never' }), 'mail.acme.test');
  assert.ok(certificate.verify(new X509Certificate(acme.root).publicKey));
  assert.ok(certificate.checkIssued(issuer!));
  await order();
  assert.equal(acme.accounts.length, 1);
  assert.deepEqual(acme.accounts[0]!.contact, ['mailto:ops@acme.test']);
  assert.equal(orderUrls.length, 2);
});

test('requests with a nonce that the server has forgotten are signed again, a few times', async () => {
  await using staged = await stage();
  const { acme, order } = staged;
  const badNonce = { type: 'badNonce' };
  acme.fail('/order', badNonce, badNonce);
  acme.fail('/finalize', badNonce);
  await order();
  acme.fail('/account', badNonce, badNonce, badNonce, badNonce);
  await assert.rejects(order(), refusedAs('badNonce', /badNonce/));
});

test('an order is continued by its URL, at any step at which it was left', async () => {
  await using staged = await stage();
  const { acme, order, orderUrls } = staged;
  const privateKey = newKey();
  // Lost after the challenge was published, and lost after the order was finalized.
  acme.fail('/challenge', 'drop');
  await assert.rejects(order({ privateKey }), refusedAs('unreachable', /does not respond/));
  acme.fail('/finalize', 'later');
  const finalized = async () => {
    await assert.rejects(
      order({ privateKey, orderUrl: orderUrls[0]!, signal: AbortSignal.timeout(2_000) }),
      refusedAs('unreachable', /./),
    );
  };
  await finalized();
  acme.release();
  const chain = await order({ privateKey, orderUrl: orderUrls[0]! });
  assert.ok(readChain(chain)[0].checkPrivateKey(createPrivateKey(privateKey)));
  assert.deepEqual([acme.orders.length, acme.validations], [1, 1]);
});

test('an order that the server has given up or forgotten is replaced by a new one', async () => {
  await using staged = await stage();
  const { acme, order, orderUrls } = staged;
  const notPublished = async () => {};
  await assert.rejects(order({ publish: notPublished }), refusedAs('unauthorized', /status 404/));
  await order({ orderUrl: orderUrls[0]! });
  await order({ orderUrl: `${new URL(acme.directoryUrl).origin}/order/0123456789abcdef` });
  assert.equal(acme.orders.length, 3);
});

test('an authority that needs an external account gets one binding, and later finds the account by its key', async () => {
  await using staged = await stage();
  const { acme, order } = staged;
  const external = { keyId: 'kid-1', macKey: Buffer.alloc(32, 7).toString('base64url') };
  acme.externalAccount = external;
  await assert.rejects(order(), (error: AcmeError) => {
    assert.equal(error.type, 'externalAccountRequired');
    assert.match(remedyOf(error, { name: 'a.test', url: acme.directoryUrl }), /ACME_EAB_KEY_ID/);
    return true;
  });
  const wrong = { ...external, macKey: Buffer.alloc(32, 8).toString('base64url') };
  await assert.rejects(order({ externalAccount: wrong }), refusedAs('unauthorized', /wrong key/));
  await order({ externalAccount: external });
  // The authority has used the key up, so a second binding would be refused.
  acme.externalAccount = { keyId: 'another', macKey: wrong.macKey };
  await order({ externalAccount: external });
  assert.equal(acme.accounts.length, 1);
});

test('an order says which certificate it replaces, and is placed without that when the authority objects', async () => {
  await using staged = await stage();
  const { acme, order } = staged;
  const [certificate] = readChain(await order());
  const replaces = renewalId(certificate)!;
  await order({ replaces });
  assert.deepEqual(acme.replaced, [], 'the server does not know renewal information');
  acme.renewalWindow = { start: '2026-01-01T00:00:00Z', end: '2026-01-03T00:00:00Z' };
  await order({ replaces });
  await order({ replaces });
  assert.deepEqual(acme.replaced, [replaces]);
  assert.equal(acme.orders.length, 4);
});

test('a certificate has the id that RFC 9773 gives as an example', () => {
  const [keyId, serialNumber] = ['69885b6b87464041e1b37b847bd0ae2cde01c8d4', '87654321'];
  const raw = Buffer.from(`300f0603551d230418301680 14${keyId}`.replace(' ', ''), 'hex');
  const certificate = { raw, serialNumber } as unknown as X509Certificate;
  assert.equal(renewalId(certificate), 'aYhba4dGQEHhs3uEe9CuLN4ByNQ.AIdlQyE');
  assert.equal(renewalId({ raw: Buffer.of(0), serialNumber } as unknown as X509Certificate), null);
});

test('a failure says what happened, how long to wait, and what the operator can do', async () => {
  await using staged = await stage();
  const { acme, order } = staged;
  acme.fail('/order', { type: 'rateLimited', status: 429, retryAfterS: 3_600, detail: 'too many' });
  await assert.rejects(order(), (error: AcmeError) => {
    assert.deepEqual([error.type, error.retryAfterMs], ['rateLimited', 3_600_000]);
    assert.equal(error.message, 'too many');
    return true;
  });
  acme.fail('/directory', 'drop');
  await assert.rejects(order(), refusedAs('unreachable', /^127\.0\.0\.1:\d+ does not respond/));
  const hostile = `a\0b\u001b[31m\n${'x'.repeat(1_000)}\ud800`;
  acme.fail('/order', { type: 'caa', detail: hostile });
  await assert.rejects(order(), (error: AcmeError) => {
    assert.match(error.message, /^a b \[31m x{390,400}…$/);
    const remedy = remedyOf(error, { name: 'a.test', url: acme.directoryUrl });
    assert.match(remedy, /CAA records of a\.test do not permit 127\.0\.0\.1/);
    return true;
  });
  acme.fail('/account', { type: 'serverInternal', status: 500 });
  await assert.rejects(order(), refusedAs('serverInternal', /./));
});

test('a server that answers with something else than ACME is refused with a sentence', async () => {
  const bodies = ['<html>', '[]', '{}', '"text"', JSON.stringify({ newNonce: 'no url' })];
  const server = createServer((_request, response) => response.end(bodies.shift()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const directoryUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const accountKey = createPrivateKey(newKey());
  while (bodies.length > 0) {
    const client = new AcmeClient({
      directoryUrl,
      accountKey,
      signal: AbortSignal.timeout(60_000),
    });
    await assert.rejects(client.openAccount({ email: null }), refusedAs('protocol', /server/));
  }
  server.close();
  server.closeAllConnections();
});
