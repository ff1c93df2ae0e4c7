/** STARTTLS and implicit TLS with real certificates. src/net/tls/tls-rule.test.ts decides which TLS is required. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { createServer } from 'node:tls';
import { startFakeMx } from '../../../test/support/fake-mx.ts';
import { connectTo, openTo, send, SILENCE_MS, summary } from '../../../test/support/smtp.ts';

test('STARTTLS is used when it is offered, and the message goes through it', async () => {
  await using mx = await startFakeMx({ startTls: 'offered' });
  using connection = await openTo(mx);
  assert.equal(connection.tls?.version, 'TLSv1.3');
  assert.match(connection.tls?.cipher ?? '', /^TLS_/);
  assert.equal(connection.tls?.verified, true);
  const { transcript } = await send(connection);
  assert.equal(mx.messages[0]?.tls, 'TLSv1.3');
  assert.ok(transcript.some((line) => /^\(TLSv1\.3 .*, certificate verified\)$/.test(line)));
  const hellos = mx.sessions[0]?.lines.filter((line) => line.startsWith('C: EHLO'));
  assert.equal(hellos?.length, 2, 'what was said in plain text is asked again');
});

test('several messages, also large ones, go over one encrypted session', async () => {
  await using mx = await startFakeMx({ startTls: 'offered' });
  using connection = await openTo(mx);
  const large = Buffer.alloc(2_000_000, `${'x'.repeat(76)}\r\n`);
  for (const message of [Buffer.from('A: b\r\n\r\n'), large, Buffer.from('A: c\r\n\r\n')]) {
    assert.deepEqual(summary(await send(connection, { message })), { phase: 'data', code: 250 });
    assert.ok(mx.messages.at(-1)?.raw.subarray(0, message.length).equals(message));
  }
});

test('the certificate is verified and reported, but not required with opportunistic TLS', async () => {
  await using mx = await startFakeMx();
  for (const [certificate, host, verified] of [
    ['trusted', 'mx.test', true],
    ['trusted', 'mx7.mx.test', true],
    ['trusted', 'elsewhere.test', false],
    ['other-name', 'mx.test', false],
    ['self-signed', 'mx.test', false],
    ['expired', 'mx.test', false],
  ] as const) {
    mx.set({ startTls: 'offered', certificate });
    using connection = await openTo(mx, { host });
    assert.equal(connection.tls?.verified, verified, `${certificate} for ${host}`);
    assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
  }
});

test('enforced TLS accepts only a valid certificate for the host', async () => {
  await using mx = await startFakeMx({ startTls: 'offered' });
  using connection = await openTo(mx, { tls: 'enforced' });
  assert.equal(connection.tls?.verified, true);
  for (const certificate of ['other-name', 'self-signed', 'expired'] as const) {
    mx.set({ startTls: 'offered', certificate });
    const result = await connectTo(mx, { tls: 'enforced' });
    assert.deepEqual(summary(result), { phase: 'tls', cause: 'tls' }, certificate);
  }
});

test('enforced TLS sends nothing to a server that does not offer or refuses STARTTLS', async () => {
  await using mx = await startFakeMx();
  for (const startTls of ['absent', 'refused'] as const) {
    mx.set({ startTls });
    const result = await connectTo(mx, { tls: 'enforced' });
    assert.deepEqual(summary(result), { phase: 'starttls', cause: 'tls' });
    assert.ok(!mx.sessions.at(-1)?.lines.some((line) => line.startsWith('C: MAIL')));
  }
});

test('mail is sent in plain text to a server that refuses STARTTLS', async () => {
  await using mx = await startFakeMx({ startTls: 'refused' });
  using connection = await openTo(mx);
  assert.equal(connection.tls, null);
  assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
});

test('421 to STARTTLS ends the session', async () => {
  await using mx = await startFakeMx({ startTls: 'offered', phases: { starttls: '421 Bye' } });
  const result = await connectTo(mx);
  assert.equal(result.kind === 'ready' ? 'ready' : result.phase, 'starttls');
});

test('a failed handshake is reported, and plain text works on a second try', async () => {
  await using mx = await startFakeMx();
  for (const startTls of ['broken', 'outdated'] as const) {
    mx.set({ startTls });
    assert.deepEqual(summary(await connectTo(mx)), { phase: 'tls', cause: 'tls' }, startTls);
    using connection = await openTo(mx, { tls: 'off' });
    assert.equal(connection.tls, null);
    assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
  }
});

test('a handshake with a silent server times out', async () => {
  await using mx = await startFakeMx({ startTls: 'silent' });
  const result = await connectTo(mx, { timeouts: { tls: SILENCE_MS } });
  assert.deepEqual(summary(result), { phase: 'tls', cause: 'timeout' });
});

test('a connection that is lost during the handshake is reported as a failed handshake', async () => {
  for (const drop of ['fin', 'rst'] as const) {
    await using mx = await startFakeMx({
      startTls: 'offered',
      phases: { starttls: { reply: '220 Go', raw: '', drop } },
    });
    const result = await connectTo(mx);
    assert.ok(result.kind === 'failed' && ['tls', 'starttls'].includes(result.phase), drop);
  }
});

test('plain text injected before the handshake aborts the session', async () => {
  await using mx = await startFakeMx({ startTls: 'injected' });
  const result = await connectTo(mx);
  assert.deepEqual(summary(result), { phase: 'starttls', cause: 'garbage' });
  assert.equal(mx.messages.length, 0);
});

test('implicit TLS works, and a server without it is reported as a failed handshake', async () => {
  await using mx = await startFakeMx({ implicitTls: true });
  using connection = await openTo(mx, { implicitTls: true, tls: 'enforced' });
  assert.equal(connection.tls?.verified, true);
  assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
  mx.set({});
  const plain = await connectTo(mx, { implicitTls: true });
  assert.deepEqual(summary(plain), { phase: 'tls', cause: 'tls' });
});

test('the server name in the handshake is the name of the mail server', async () => {
  const pem = readFileSync(new URL('../../../test/support/certs/trusted.pem', import.meta.url));
  const names: string[] = [];
  const server = createServer({
    key: pem,
    cert: pem,
    SNICallback: (name, answer) => {
      names.push(name);
      answer(null);
    },
  });
  server.on('secureConnection', (socket) => socket.on('error', () => {}).end('554 Go away\r\n'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const target = { address: '127.0.0.1', port };
  const result = await connectTo(target, { implicitTls: true, host: 'mx3.mx.test' });
  assert.deepEqual(summary(result), { phase: 'greeting', code: 554 });
  const byAddress = await connectTo(target, { implicitTls: true, host: '127.0.0.1' });
  assert.deepEqual(summary(byAddress), { phase: 'greeting', code: 554 });
  assert.deepEqual(names, ['mx3.mx.test']);
  const dane = { records: [], names: ['real.mx.test', 'acme.test'], nowMs: 0 };
  await connectTo(target, { implicitTls: true, host: 'mx3.mx.test', tls: 'dane', dane });
  server.close();
  assert.deepEqual(names, ['mx3.mx.test', 'real.mx.test'], 'under DANE the name of the records');
});
