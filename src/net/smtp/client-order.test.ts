/** The commands of the client, their order, and the reply codes that it accepts: RFC 5321 §4.1.4, §4.2, §4.3. */
import assert from 'node:assert/strict';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { startFakeMx } from '../../../test/support/fake-mx.ts';
import { connectTo, openTo, send, summary } from '../../../test/support/smtp.ts';

test('an unknown code counts by its first digit', async () => {
  const known = { greeting: '229 hi', ehlo: '259 fake.test', mail: '259 a', rcpt: '299 b' };
  await using mx = await startFakeMx({ phases: { ...known, data: '277 c' } });
  using connection = await openTo(mx);
  assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 277 });
  assert.equal(mx.messages.length, 1);
  for (const code of [499, 599]) {
    mx.set({ phases: { ...known, rcpt: `${code} d` } });
    using refused = await openTo(mx);
    assert.deepEqual(summary(await send(refused)), { phase: 'rcpt', code });
  }
  assert.equal(mx.messages.length, 1);
});

test('the case of the local part is preserved', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  await send(connection, { recipient: 'Jo.DOE+Tag@full.test' });
  assert.deepEqual(mx.messages[0]?.recipients, ['Jo.DOE+Tag@full.test']);
});

test('without PIPELINING each command waits for the reply to the previous one', async () => {
  const received: string[] = [];
  const replies = ['250 hi', '250 a', '250 b', '354 c', '250 d'];
  const server = createServer((socket) => {
    socket.write('220 hi\r\n');
    socket
      .on('error', () => {})
      .on('data', (chunk) => {
        received.push(String(chunk));
        socket.write(`${replies[received.length - 1] ?? '221 e'}\r\n`);
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const result = await connectTo({ address: '127.0.0.1', port });
  assert.ok(result.kind === 'ready');
  const sent = await send(result.connection, { message: Buffer.from('A: b\r\n\r\nc\r\n') });
  assert.deepEqual(summary(sent), { phase: 'data', code: 250 });
  result.connection.destroy();
  server.close();
  assert.deepEqual(received, [
    'EHLO out.letterhaus.test\r\n',
    'MAIL FROM:<b-token@send.acme.test>\r\n',
    'RCPT TO:<jo@full.test>\r\n',
    'DATA\r\n',
    'A: b\r\n\r\nc\r\n.\r\n',
  ]);
});

test('nothing is sent before the greeting', async () => {
  let greet = (): void => {};
  const after = new Promise<void>((resolve) => (greet = resolve));
  await using mx = await startFakeMx({ phases: { greeting: { after, reply: '220 late' } } });
  const connecting = openTo(mx);
  mx.set({});
  greet();
  using connection = await connecting;
  await send(connection);
  assert.match(mx.sessions[0]?.lines[0] ?? '', /^S: 220/);
});

test('BODY=8BITMIME is sent for octets above 127 to servers that offer 8BITMIME', async () => {
  await using mx = await startFakeMx();
  const message = Buffer.from('Subject: hello\r\n\r\nGrüße\r\n');
  const isSentAs8Bit = async (transaction: object) => {
    using connection = await openTo(mx);
    assert.deepEqual(summary(await send(connection, transaction)), { phase: 'data', code: 250 });
    return mx.sessions.at(-1)?.lines.some((line) => line.endsWith('BODY=8BITMIME'));
  };
  assert.equal(await isSentAs8Bit({ message, is8Bit: true }), true);
  assert.deepEqual(mx.messages[0]?.raw, message);
  assert.equal(await isSentAs8Bit({}), false);
  mx.set({ smtpUtf8: false });
  assert.equal(await isSentAs8Bit({ message, is8Bit: true }), false);
  assert.deepEqual(mx.messages[2]?.raw, message);
});
