import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialogue } from '../../test/support/smtp-dialogue.ts';
import { startSmtpServer } from '../../test/support/smtp-server.ts';
import { waitFor } from '../../test/support/wait.ts';
import { answerOf } from './smtp-server-types.ts';

test('a size that is announced or real beyond the limit is refused, and the session goes on', async () => {
  await using server = await startSmtpServer({ sizeBytesMax: 1_000 });
  await using client = await Dialogue.greeted(server.port);
  assert.match((await client.ask('MAIL FROM:<a@b.test> SIZE=1001')) ?? '', /^552 5\.3\.4 .*1000/);
  await client.ask('MAIL FROM:<a@b.test>');
  await client.ask('RCPT TO:<c@d.test>');
  await client.ask('DATA');
  client.send(`${'x'.repeat(998)}\r\n${'x'.repeat(500)}\r\n.\r\n`);
  assert.match((await client.hear()) ?? '', /^552 5\.3\.4 /);
  await client.ask('MAIL FROM:<a@b.test>');
  await client.ask('RCPT TO:<c@d.test>');
  await client.ask('DATA');
  client.send(`${'x'.repeat(998)}\r\n.\r\n`);
  assert.equal(await client.hear(), '250 2.0.0 Taken 1');
});

test('content that never ends is hung up on', async () => {
  await using server = await startSmtpServer({ sizeBytesMax: 1_000 });
  await using client = await Dialogue.greeted(server.port);
  client.send('MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n');
  client.send(`${'x'.repeat(70)}\r\n`.repeat(1_000));
  const replies = (await client.hearAll()).map((reply) => reply.slice(0, 3));
  assert.deepEqual(replies, ['250', '250', '354', '552']);
  assert.equal(server.taken.length, 0);
});

test('a server that holds too much content says so, and takes more when it has room again', async () => {
  const gate = Promise.withResolvers<void>();
  await using server = await startSmtpServer({
    limits: { contentBytes: 3_000 },
    handlers: {
      onRcpt: () => null,
      async onMessage() {
        await gate.promise;
        return answerOf(250, '2.0.0', 'Taken');
      },
    },
  });
  await using first = await Dialogue.greeted(server.port);
  await using second = await Dialogue.greeted(server.port);
  const content = `${'x'.repeat(998)}\r\n`.repeat(2);
  const say = async (client: Dialogue) => {
    for (const line of ['MAIL FROM:<>', 'RCPT TO:<c@d.test>', 'DATA']) await client.ask(line);
    client.send(`${content}.\r\n`);
  };
  await say(first);
  await say(second);
  assert.match((await second.hear()) ?? '', /^452 4\.3\.1 /);
  assert.match((await second.ask('MAIL FROM:<> SIZE=2000')) ?? '', /^452 4\.3\.1 /);
  gate.resolve();
  assert.equal(await first.hear(), '250 2.0.0 Taken');
  await say(second);
  assert.equal(await second.hear(), '250 2.0.0 Taken');
});

test('errors do not add up over the life of a session that hands in mail', async () => {
  await using server = await startSmtpServer({ limits: { errorsPerSession: 3 } });
  await using client = await Dialogue.greeted(server.port);
  for (let message = 1; message <= 4; message += 1) {
    assert.match((await client.ask('NONSENSE')) ?? '', /^500 /);
    for (const line of ['MAIL FROM:<>', 'RCPT TO:<c@d.test>', 'DATA']) await client.ask(line);
    assert.equal(await client.ask('Hello\r\n.'), `250 2.0.0 Taken ${message}`);
  }
});

test('errors and idle commands end a session after a while', async () => {
  await using server = await startSmtpServer({ limits: { errorsPerSession: 5 } });
  for (const [line, count] of [
    ['NONSENSE', 4],
    ['NOOP', 100 + 4],
  ] as const) {
    await using client = await Dialogue.greeted(server.port);
    client.send(`${line}\r\n`.repeat(1_000));
    const replies = await client.hearAll();
    assert.equal(replies.length, count + 2);
    assert.equal(replies.at(-1)?.slice(0, 9), '421 4.7.0');
  }
});

test('a client that is silent or drips is hung up on', async () => {
  await using server = await startSmtpServer({
    limits: { commandTimeoutMs: 300, dataTimeoutMs: 300, tlsTimeoutMs: 300 },
  });
  await using silent = await Dialogue.greeted(server.port);
  assert.deepEqual(await silent.hearAll(), ['421 4.4.2 Nothing came in time']);

  await using dripping = await Dialogue.greeted(server.port);
  const drip = setInterval(() => dripping.send('N'), 20);
  assert.deepEqual(await dripping.hearAll(), ['421 4.4.2 Nothing came in time']);
  clearInterval(drip);

  await using inContent = await Dialogue.greeted(server.port);
  inContent.send('MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n');
  const trickle = setInterval(() => inContent.send('x\r\n'), 250);
  assert.equal((await inContent.hearAll()).at(-1), '421 4.4.2 Nothing came in time');
  clearInterval(trickle);

  await using handshake = await Dialogue.greeted(server.port);
  assert.match((await handshake.ask('STARTTLS')) ?? '', /^220 /);
  assert.deepEqual(await handshake.hearAll(), []);
});

test('a client that does not read its replies is not read from, and hung up on', async () => {
  await using server = await startSmtpServer({
    limits: { commandTimeoutMs: 300, errorsPerSession: 1e9, connectionsPerClient: 1 },
  });
  await using client = await Dialogue.greeted(server.port);
  client.socket.pause();
  client.send('HELP\r\n'.repeat(2_000_000));
  await hasRoom(server.port);
});

test('one client, and all of them together, have so many connections and messages', async () => {
  await using server = await startSmtpServer({
    limits: { connectionsPerClient: 2, connections: 3, messagesPerClientAndMinute: 2 },
  });
  await using first = await Dialogue.greeted(server.port);
  await using second = await Dialogue.greeted(server.port);
  await using third = await Dialogue.open(server.port);
  assert.match((await third.hear()) ?? '', /^421 4\.7\.0 /);
  for (const client of [first, second]) {
    assert.equal(await client.ask('MAIL FROM:<a@b.test>'), '250 2.1.0 Ok');
  }
  await first.ask('RSET');
  assert.match((await first.ask('MAIL FROM:<a@b.test>')) ?? '', /^450 4\.7\.1 /);
  await first.ask('QUIT');
  await hasRoom(server.port);
});

test('recipients beyond the limit are to be sent later, messages in another session', async () => {
  await using server = await startSmtpServer({
    limits: { recipientsPerMessage: 1, messagesPerSession: 1 },
  });
  await using client = await Dialogue.greeted(server.port);
  await client.ask('MAIL FROM:<a@b.test>');
  assert.equal((await client.ask('RCPT TO:<a@b.test>'))?.slice(0, 9), '250 2.1.5');
  assert.equal((await client.ask('RCPT TO:<c@d.test>'))?.slice(0, 9), '452 4.5.3');
  await client.ask('DATA');
  client.send('x\r\n.\r\n');
  assert.equal(await client.hear(), '250 2.0.0 Taken 1');
  client.send('MAIL FROM:<a@b.test>\r\n');
  assert.deepEqual(
    (await client.hearAll()).map((reply) => reply.slice(0, 9)),
    ['421 4.7.0'],
  );
});

function hasRoom(port: number): Promise<unknown> {
  const isGreeted = async () => {
    await using client = await Dialogue.open(port);
    return (await client.hear())?.startsWith('220');
  };
  return waitFor(isGreeted, { what: 'room for a connection', timeoutMs: 30_000 });
}

test('of a message of any size the beginning can be kept and the rest let by', async () => {
  await using server = await startSmtpServer({
    sizeBytesMax: 1_000,
    keptBytesMax: 2_500,
    // The second message finds room: what was let by was never held.
    limits: { contentBytes: 3_000 },
  });
  await using client = await Dialogue.greeted(server.port);
  assert.match((await client.ask('EHLO client.test')) ?? '', /^250-SIZE 0$/m);
  const line = `..${'x'.repeat(96)}\r\n`;
  for (const from of ['<a@b.test> SIZE=5000000', '<a@b.test>']) {
    assert.equal(await client.ask(`MAIL FROM:${from}`), '250 2.1.0 Ok');
    await client.ask('RCPT TO:<c@d.test>');
    await client.ask('DATA');
    client.send(line.repeat(50_000));
    assert.match((await client.ask('.')) ?? '', /^250 2\.0\.0 Taken /);
  }
  for (const { content, sizeBytes } of server.taken) {
    assert.equal(sizeBytes, 50_000 * (line.length - 1));
    assert.equal(content.toString('latin1'), line.slice(1).repeat(26).slice(0, 2_500));
  }
});
