/** Messages whose envelope is sent with the final dot of the one before, one after the other on one session. */
import assert from 'node:assert/strict';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import type { PickNext, SmtpTimeouts, Transaction } from './client-session.ts';
import { startFakeMx } from '../../../test/support/fake-mx.ts';
import { connectTo, openTo, SILENCE_MS, summary } from '../../../test/support/smtp.ts';

const DELIVERED = { phase: 'data', code: 250 };

function messageTo(recipient: string, overrides: Partial<Transaction> = {}): Transaction {
  return {
    envelopeFrom: 'b-token@send.acme.test',
    recipient,
    message: Buffer.from(`To: ${recipient}\r\n\r\nHello\r\n`),
    smtpUtf8: false,
    mayProceed: () => true,
    ...overrides,
  };
}

/** Announces the message if it may be announced. */
function followedBy(next: Transaction): PickNext {
  return (mayAnnounce) => (mayAnnounce(next) ? next : null);
}

const [FIRST, SECOND] = [messageTo('first@full.test'), messageTo('second@full.test')];

test('the envelope of the next message is sent with the final dot of the previous one', async () => {
  const received: string[] = [];
  const replies = [
    '250-hi\r\n250 PIPELINING\r\n',
    '250 mail\r\n250 rcpt\r\n354 data\r\n',
    '250 first\r\n250 mail\r\n250 rcpt\r\n354 data\r\n',
    '250 second\r\n',
  ];
  const server = createServer((socket) => {
    socket.on('error', () => {}).write('220 hi\r\n');
    socket.on('data', (chunk) => {
      received.push(String(chunk));
      socket.write(replies[received.length - 1] ?? '221 bye\r\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const opened = await connectTo({ address: '127.0.0.1', port });
  assert.ok(opened.kind === 'ready');
  const { connection } = opened;
  const first = connection.send(FIRST, followedBy(SECOND));
  assert.deepEqual(summary(await first), DELIVERED);
  const second = await connection.send(SECOND);
  connection.destroy();
  server.close();
  assert.ok(second.kind === 'replied' && second.reply.message === 'second');
  const [, , bodyAndEnvelope, lastBody] = received;
  assert.equal(
    bodyAndEnvelope,
    `${String(FIRST.message)}.\r\n` +
      'MAIL FROM:<b-token@send.acme.test>\r\nRCPT TO:<second@full.test>\r\nDATA\r\n',
  );
  assert.equal(lastBody, `${String(SECOND.message)}.\r\n`);
  assert.deepEqual(second.transcript, [
    'C: MAIL FROM:<b-token@send.acme.test>',
    'S: 250 mail',
    'C: RCPT TO:<second@full.test>',
    'S: 250 rcpt',
    'C: DATA',
    'S: 354 data',
    `C: (${String(SECOND.message).length} bytes)`,
    'S: 250 second',
  ]);
});

test('a hundred messages on one session each get their own reply', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  const messages = Array.from({ length: 100 }, (_, i) => messageTo(`r${i}@full.test`));
  const begun = messages.map(() => Promise.withResolvers<void>());
  begun[0]?.resolve();
  await Promise.all(
    messages.map(async (message, i) => {
      await begun[i]?.promise;
      const sending = connection.send(message, (mayAnnounce) => {
        const next = messages[i + 1];
        if (next === undefined || !mayAnnounce(next)) return null;
        begun[i + 1]?.resolve();
        return next;
      });
      assert.deepEqual(summary(await sending), DELIVERED);
    }),
  );
  assert.deepEqual(
    mx.messages.map(({ recipients, raw }) => [recipients, String(raw)]),
    messages.map(({ recipient, message }) => [[recipient], String(message)]),
  );
  assert.equal(connection.isReusable, true);
});

test('a refusal of one message does not affect the next', async () => {
  await using mx = await startFakeMx({
    recipients: { gone: '550 5.1.1 No such user' },
    messageReplies: { spam: '554 5.7.1 Spam' },
  });
  using connection = await openTo(mx);
  const [spam, gone] = [messageTo('spam@full.test'), messageTo('gone@full.test')];
  const first = connection.send(spam, followedBy(gone));
  assert.deepEqual(summary(await first), { phase: 'data', code: 554 });
  assert.deepEqual(summary(await connection.send(gone)), { phase: 'rcpt', code: 550 });
  assert.deepEqual(summary(await connection.send(SECOND)), DELIVERED);
});

test('a connection kept for an announced message carries no other', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  await connection.send(FIRST, followedBy(SECOND));
  assert.deepEqual([connection.isReusable, connection.hasAnnounced], [false, true]);
  await assert.rejects(connection.send(messageTo('third@full.test')), /busy/);
  assert.deepEqual(summary(await connection.send(SECOND)), DELIVERED);
  assert.deepEqual([connection.isReusable, connection.hasAnnounced], [true, false]);
});

test('a message that the server would refuse, or that may not be sent, is not announced', async () => {
  await using mx = await startFakeMx({ sizeBytesMax: 1_000 });
  using connection = await openTo(mx);
  const large = messageTo('large@full.test', { message: Buffer.alloc(2_000, 'x') });
  const fenced = messageTo('fenced@full.test', { mayProceed: () => false });
  for (const next of [large, fenced]) {
    assert.deepEqual(summary(await connection.send(FIRST, followedBy(next))), DELIVERED);
    assert.equal(connection.hasAnnounced, false);
  }
  assert.equal(mx.messages.length, 2);
});

test('without PIPELINING nothing is announced', async () => {
  await using mx = await startFakeMx({ pipelining: false });
  using connection = await openTo(mx);
  await connection.send(FIRST, followedBy(SECOND));
  assert.equal(connection.hasAnnounced, false);
});

test('an announced message that may no longer be sent is dropped before its dot', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  let isLeaseFresh = true;
  const fenced = messageTo('fenced@full.test', { mayProceed: () => isLeaseFresh });
  await connection.send(FIRST, followedBy(fenced));
  isLeaseFresh = false;
  assert.deepEqual(summary(await connection.send(fenced)), { phase: 'body', cause: 'withheld' });
  assert.deepEqual(
    mx.messages.map(({ recipients }) => recipients),
    [['first@full.test']],
  );
});

test('when a session ends with one message, the announced one is not in doubt', async () => {
  for (const ending of ['421 4.4.2 Enough', { drop: 'rst' }] as const) {
    await using mx = await startFakeMx({ phases: { data: ending } });
    using connection = await openTo(mx);
    await connection.send(FIRST, followedBy(SECOND));
    const second = await connection.send(SECOND);
    assert.ok(second.kind === 'failed' && second.phase === 'mail' && !second.inDoubt);
  }
});

test('an announced message does not wait long for a slow one', async () => {
  await using mx = await startFakeMx({ phases: { data: {} } });
  const timeouts: Partial<SmtpTimeouts> = { mail: SILENCE_MS, data: SILENCE_MS * 20 };
  using connection = await openTo(mx, { timeouts });
  const announcedNow = Promise.withResolvers<void>();
  const first = connection.send(FIRST, () => {
    announcedNow.resolve();
    return SECOND;
  });
  await announcedNow.promise;
  assert.deepEqual(summary(await connection.send(SECOND)), { phase: 'mail', cause: 'closed' });
  assert.deepEqual(summary(await first), { phase: 'data', cause: 'timeout' });
  assert.equal(connection.isReusable, false);
});

test('a server that discards commands after the final dot is detected, and nothing is lost', async () => {
  const server = createServer((socket) => {
    let count = 0;
    socket.on('error', () => {}).write('220 hi\r\n');
    socket.on('data', () => {
      count += 1;
      const replies = ['250-hi\r\n250 PIPELINING\r\n', '250 a\r\n250 b\r\n354 c\r\n', '250 d\r\n'];
      socket.write(replies[count - 1] ?? '221 e\r\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const timeouts = { mail: SILENCE_MS };
  const opened = await connectTo({ address: '127.0.0.1', port }, { timeouts });
  assert.ok(opened.kind === 'ready');
  await opened.connection.send(FIRST, followedBy(SECOND));
  const second = await opened.connection.send(SECOND);
  server.close();
  assert.deepEqual(summary(second), { phase: 'mail', cause: 'timeout' });
});
