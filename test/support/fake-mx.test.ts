/** Tests the scripted mail server with a client that is not ours and cannot share our errors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTransport, type Transporter } from 'nodemailer';
import { startFakeMx, type FakeMx } from './fake-mx.ts';
import { Dialogue } from './smtp-dialogue.ts';
import { TEST_CA } from './smtp.ts';
import { waitFor } from './wait.ts';

function clientOf(mx: FakeMx): Transporter {
  return createTransport({
    host: mx.address,
    port: mx.port,
    tls: { ca: TEST_CA, servername: 'mx.test' },
  });
}

const envelope = { from: 'jo@acme.test', to: ['kim@full.test', 'lee@full.test'] };

test('nodemailer delivers to the fake server, and leading dots are preserved', async () => {
  await using mx = await startFakeMx();
  const raw = '.first\r\n\r\n..\r\n.\r\nlast\r\n';
  await clientOf(mx).sendMail({ envelope, raw });
  assert.equal(mx.messages[0]?.raw.toString(), raw);
  assert.deepEqual(mx.messages[0]?.recipients, envelope.to);
  assert.equal(mx.messages[0]?.envelopeFrom, envelope.from);
});

test('nodemailer uses its extensions, authentication and TLS', async () => {
  const auth = { user: 'jo', pass: 'right' };
  await using mx = await startFakeMx({ startTls: 'offered', auth, sizeBytesMax: 10_000 });
  const client = createTransport({
    host: mx.address,
    port: mx.port,
    requireTLS: true,
    auth,
    tls: { ca: TEST_CA, servername: 'mx.test' },
  });
  await client.sendMail({ envelope, raw: 'A: b\r\n\r\nc\r\n' });
  assert.equal(mx.messages[0]?.tls, 'TLSv1.3');
});

test('nodemailer gets its refusals, by recipient and attempt', async () => {
  await using mx = await startFakeMx({
    greylist: 1,
    recipients: { 'lee@full.test': '452 4.2.2 Mailbox full' },
  });
  const client = clientOf(mx);
  await assert.rejects(
    client.sendMail({ envelope, raw: 'A: b\r\n\r\n' }),
    /451 4\.7\.1 Greylisted/,
  );
  const info = await client.sendMail({ envelope, raw: 'A: b\r\n\r\n' });
  assert.deepEqual([info.accepted, info.rejected], [['kim@full.test'], ['lee@full.test']]);
});

test('an unfinished message of a disconnected client is not read as commands', async () => {
  await using mx = await startFakeMx();
  await using client = await Dialogue.greeted(mx.port, { host: mx.address });
  for (const command of ['MAIL FROM:<jo@acme.test>', 'RCPT TO:<kim@full.test>', 'DATA']) {
    await client.ask(command);
  }
  client.socket.end('Subject: Hi\r\n\r\nHello\r\n');
  const session = mx.sessions[0]!;
  await waitFor(() => session.socket.closed, { what: 'the session to end' });
  assert.equal(session.lines.at(-1), 'S: 354 Send the message');
  assert.deepEqual(mx.messages, []);
});

test('it can be stopped and started on the same port', async () => {
  await using mx = await startFakeMx();
  await mx.stop();
  await assert.rejects(clientOf(mx).sendMail({ envelope, raw: 'A: b\r\n\r\n' }), /ECONNREFUSED/);
  await mx.start();
  await clientOf(mx).sendMail({ envelope, raw: 'A: b\r\n\r\n' });
  assert.equal(mx.messages.length, 1);
});

test('several fake servers share a port on different addresses', async () => {
  await using first = await startFakeMx({}, { address: '127.0.0.2' });
  await using second = await startFakeMx({}, { address: '127.0.0.3', port: first.port });
  await clientOf(second).sendMail({ envelope, raw: 'A: b\r\n\r\n' });
  assert.deepEqual([first.messages.length, second.messages.length], [0, 1]);
});
