/** The self-signed certificate of the SMTP ports, as OpenSSL and real clients read it. */
import assert from 'node:assert/strict';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import { createSecureContext } from 'node:tls';
import { Dialogue } from '../../../test/support/smtp-dialogue.ts';
import { startSmtpServer } from '../../../test/support/smtp-server.ts';
import { connectTo } from '../../../test/support/smtp.ts';
import { makeSelfSigned } from './self-signed.ts';

const validity = {
  fromMs: Date.parse('2026-01-01T00:00:00Z'),
  untilMs: Date.parse('2056-01-01T00:00:00Z'),
};

test('OpenSSL reads names, times, key and signature of the certificate', () => {
  for (const hostname of ['mx.test', `${'long.'.repeat(40)}test`]) {
    const { certificate, privateKey } = makeSelfSigned(hostname, validity);
    const read = new X509Certificate(certificate);
    assert.equal(read.subjectAltName, `DNS:${hostname}`);
    assert.equal(read.checkHost(hostname), hostname);
    assert.equal(read.subject, hostname.length > 64 ? 'CN=Letterhaus' : `CN=${hostname}`);
    assert.equal(read.validFromDate.getTime(), validity.fromMs);
    assert.equal(read.validToDate.getTime(), validity.untilMs);
    assert.equal(read.ca, false);
    assert.deepEqual(read.keyUsage, ['1.3.6.1.5.5.7.3.1']);
    assert.ok(read.checkPrivateKey(createPrivateKey(privateKey)));
    assert.ok(read.verify(read.publicKey));
  }
});

test('serial numbers are unique, and OpenSSL reads every certificate', () => {
  const serials = Array.from({ length: 2_000 }, () => {
    return new X509Certificate(makeSelfSigned('mx.test', validity).certificate).serialNumber;
  });
  assert.equal(new Set(serials).size, 2_000);
  for (const serial of serials) assert.match(serial, /^[4-7][0-9A-F]{31}$/);
});

test('a client that trusts it verifies the handshake, our own included', async () => {
  const { certificate, privateKey } = makeSelfSigned('mx.test', {
    fromMs: Date.now() - 60_000,
    untilMs: Date.now() + 3_600_000,
  });
  const context = createSecureContext({ cert: certificate, key: privateKey });
  await using server = await startSmtpServer({ tls: { mode: 'starttls', context: () => context } });
  const result = await connectTo(
    { address: '127.0.0.1', port: server.port },
    { tls: 'enforced', ca: certificate },
  );
  assert.ok(result.kind === 'ready', JSON.stringify(result));
  assert.equal(result.connection.tls?.verified, true);
  result.connection.destroy();
  await using plain = await Dialogue.greeted(server.port);
  assert.match((await plain.ask('STARTTLS')) ?? '', /^220 /);
});
