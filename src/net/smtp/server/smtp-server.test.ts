/**
 * The server with whole dialogues, by nodemailer and by our own client too. server-limits.test.ts has its limits,
 * server-tls.test.ts TLS, server-smuggling.test.ts the end of a message.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import nodemailer from 'nodemailer';
import { connectTo, send, TEST_CA } from '../../../../test/support/smtp.ts';
import { Dialogue } from '../../../../test/support/smtp-dialogue.ts';
import { logIn, startSmtpServer } from '../../../../test/support/smtp-server.ts';
import { waitFor } from '../../../../test/support/wait.ts';
import { serverReply } from './server-types.ts';

test('a message arrives with its envelope and the facts of its session', async () => {
  await using server = await startSmtpServer();
  await using client = await Dialogue.greeted(server.port);
  await client.startTls();
  await client.ask('EHLO client.test');
  assert.equal(await client.ask('MAIL FROM:<a@b.test> SIZE=20 BODY=8BITMIME'), '250 2.1.0 Ok');
  assert.equal(await client.ask('RCPT TO:<jo@x.test>'), '250 2.1.5 Ok');
  assert.equal(await client.ask('RCPT TO:<@route.test:"jo \\"> x"@y.test>'), '250 2.1.5 Ok');
  assert.match((await client.ask('DATA')) ?? '', /^354 /);
  client.send('Subject: x\r\n\r\n..one\r\n...\r\n..\r\nö\r\n.\r\n');
  assert.equal(await client.readReply(), '250 2.0.0 Taken 1');
  assert.equal(await client.ask('QUIT'), '221 2.0.0 Bye');
  assert.equal(await client.readReply(), null);

  const [mail] = server.taken;
  assert.ok(mail);
  assert.equal(mail.content.toString(), 'Subject: x\r\n\r\n.one\r\n..\r\n.\r\nö\r\n');
  assert.equal(mail.longestLine, 10);
  assert.deepEqual(mail.envelope, {
    from: 'a@b.test',
    sizeBytes: 20,
    body: '8BITMIME',
    smtpUtf8: false,
    recipients: ['jo@x.test', '"jo \\"> x"@y.test'],
  });
  const { helo, protocol, client: address, tls } = mail.session;
  assert.deepEqual([helo, protocol, address], ['client.test', 'ESMTPS', '127.0.0.1']);
  assert.equal(tls?.version, 'TLSv1.3');
});

test('nodemailer sends over STARTTLS and over TLS from the start, with a log-in', async () => {
  for (const mode of ['starttls', 'implicit'] as const) {
    let context: Awaited<ReturnType<typeof startSmtpServer>>['context'] | null = null;
    await using server = await startSmtpServer<string>({
      tls: { mode, context: () => context },
      logIn,
    });
    ({ context } = server);
    for (const authMethod of ['PLAIN', 'LOGIN']) {
      const transport = nodemailer.createTransport({
        host: '127.0.0.1',
        port: server.port,
        secure: mode === 'implicit',
        requireTLS: true,
        auth: { user: 'jo', pass: 'secret' },
        authMethod,
        tls: { ca: TEST_CA, servername: 'mx.test' },
      });
      const text = '.\r\n..\r\n.x\r\nend';
      await transport.sendMail({ from: 'a@b.test', to: ['c@d.test', 'e@f.test'], text });
      transport.close();
    }
    assert.deepEqual(
      server.taken.map(({ session, envelope }) => [
        session.user,
        session.protocol,
        envelope.recipients,
      ]),
      Array.from({ length: 2 }, () => ['jo', 'ESMTPSA', ['c@d.test', 'e@f.test']]),
    );
    for (const { text } of server.taken)
      assert.ok(text.endsWith('\r\n\r\n.\r\n..\r\n.x\r\nend\r\n'));
  }
});

test('our own client sends many messages over one session with pipelined envelopes', async () => {
  await using server = await startSmtpServer();
  const result = await connectTo({ address: '127.0.0.1', port: server.port }, { tls: 'enforced' });
  assert.ok(result.kind === 'ready', JSON.stringify(result));
  for (let count = 0; count < 20; count += 1) {
    const sent = await send(result.connection);
    assert.ok(sent.kind === 'replied' && sent.reply.code === 250, JSON.stringify(sent));
  }
  result.connection.destroy();
  assert.equal(server.taken.length, 20);
});

test('commands out of order, unknown or malformed get the matching reply', async () => {
  await using server = await startSmtpServer({ limits: { errorsPerSession: 100 } });
  await using client = await Dialogue.open(server.port);
  await client.readReply();
  const expected: [string, string][] = [
    ['MAIL FROM:<a@b.test>', '503 5.5.1'],
    ['EHLO', '501 5.5.4'],
    ['HELO c.test', '250'],
    ['RCPT TO:<a@b.test>', '503 5.5.1'],
    ['DATA', '503 5.5.1'],
    ['MAIL FROM:a@b.test', '501 5.5.4'],
    ['MAIL TO:<a@b.test>', '501 5.5.4'],
    ['MAIL FROM:<a b@c.test>', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> SIZE=x', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> SIZE=', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> SIZE=1 SIZE=1', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> SMTPUTF8=yes', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> BODY=9BIT', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> AUTH', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> REQUIRETLS', '555 5.5.4'],
    ['MAIL FROM:<a@b.test> MT-PRIORITY=3', '555 5.5.4'],
    ['MAIL FROM:<a@b.test> HOLDFOR=60', '555 5.5.4'],
    ['MAIL FROM:<a@b.test> NOTIFY=NEVER', '555 5.5.4'],
    ['MAIL FROM:<a@b.test> ENVID=x', '555 5.5.4'],
    ['MAIL FROM:<a@b.test> BODY=BINARYMIME', '555 5.5.4'],
    ['MAIL FROM:<a@b.test> RET=HDRS', '555 5.5.4'],
    ['MAIL FROM:<a@b.test> __proto__=1', '501 5.5.4'],
    ['MAIL FROM:<a@b.test> constructor=1', '555 5.5.4'],
    ['MAIL FROM:<ä@b.test>', '553 5.6.7'],
    [`MAIL FROM:<${'x'.repeat(300)}@b.test>`, '553 5.1.3'],
    ['mail from: <a@b.test>', '250 2.1.0'],
    ['MAIL FROM:<a@b.test>', '503 5.5.1'],
    ['DATA', '503 5.5.1'],
    ['RCPT TO:<>', '501 5.5.4'],
    ['RCPT TO:<a@b.test> NOTIFY=NEVER', '555 5.5.4'],
    ['RCPT TO:<a@b.test> ORCPT=rfc822;a@b.test', '555 5.5.4'],
    ['RCPT TO:<ä@b.test>', '553 5.6.7'],
    ['DATA', '554 5.5.1'],
    ['DATA now', '501 5.5.4'],
    ['RSET', '250 2.0.0'],
    ['MAIL FROM:<ä@b.test> SMTPUTF8', '250 2.1.0'],
    ['RCPT TO:<ö@b.test>', '250 2.1.5'],
    ['NOOP anything', '250 2.0.0'],
    ['VRFY jo', '252 2.5.0'],
    ['HELP', '214 2.0.0'],
    ['EXPN list', '502 5.5.1'],
    ['ETRN x', '502 5.5.1'],
    ['AUTH PLAIN', '502 5.5.1'],
    ['NONSENSE', '500 5.5.2'],
    ['', '500 5.5.2'],
    ['NOOP \0', '500 5.5.2'],
    ['NOOP \x1b[2J', '500 5.5.2'],
  ];
  for (const [line, reply] of expected) {
    assert.equal((await client.ask(line))?.slice(0, reply.length), reply, line);
  }
  client.send(Buffer.from('NOOP \xff\r\n', 'latin1'));
  assert.equal((await client.readReply())?.slice(0, 9), '500 5.5.2');
});

test('input that makes the next command ambiguous ends the session', async () => {
  await using server = await startSmtpServer();
  const cases: [string, string][] = [
    ['NOOP\nMAIL FROM:<a@b.test>\r\n', '500 5.5.2'],
    ['NOOP\rMAIL FROM:<a@b.test>\r\n', '500 5.5.2'],
    ['x'.repeat(10_000), '500 5.5.2'],
    ['BDAT 24 LAST\r\nMAIL FROM:<evil@b.test>\r\n', '502 5.5.1'],
    ['GET / HTTP/1.1\r\nHost: mx.test\r\n\r\n', '500 5.5.2'],
    ['Host: mx.test\r\nMAIL FROM:<a@b.test>\r\n', '500 5.5.2'],
  ];
  for (const [said, reply] of cases) {
    await using client = await Dialogue.greeted(server.port);
    client.send(said);
    const replies = (await client.readReplies()).map((text) => text.slice(0, 9));
    assert.deepEqual(replies, [reply], said.slice(0, 60));
  }
});

test('a client that sends before the greeting is refused', async () => {
  await using server = await startSmtpServer();
  // Input that is already there: the first bytes arrive with the connection, or a moment later.
  await waitFor(
    async () => {
      await using client = await Dialogue.open(server.port);
      client.send('EHLO early.test\r\n');
      return (await client.readReply())?.startsWith('554 5.5.1');
    },
    { what: 'a refusal' },
  );
});

test('a handler that throws fails one message, not the session', async () => {
  await using server = await startSmtpServer({
    handlers: { onRcpt: () => null, onMessage: () => Promise.reject(new Error('oops')) },
  });
  await using client = await Dialogue.greeted(server.port);
  for (let count = 0; count < 2; count += 1) {
    for (const line of ['MAIL FROM:<>', 'RCPT TO:<a@b.test>', 'DATA']) await client.ask(line);
    assert.equal((await client.ask('x\r\n.'))?.slice(0, 9), '451 4.3.0');
  }
  assert.equal(server.bugs.length, 2);
});

test('a stop finishes the message in progress and sends 421 to other sessions', async () => {
  const gate = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  await using server = await startSmtpServer({
    handlers: {
      onRcpt: () => null,
      async onMessage() {
        reached.resolve();
        await gate.promise;
        return serverReply(250, '2.0.0', 'Taken after all');
      },
    },
  });
  await using idle = await Dialogue.greeted(server.port);
  await using receiving = await Dialogue.greeted(server.port);
  await using handling = await Dialogue.greeted(server.port);
  for (const client of [receiving, handling]) {
    for (const line of ['MAIL FROM:<>', 'RCPT TO:<a@b.test>', 'DATA']) await client.ask(line);
  }
  handling.send('x\r\n.\r\n');
  await reached.promise;
  const closed = server.close(30_000);
  assert.deepEqual(
    (await idle.readReplies()).map((reply) => reply.slice(0, 9)),
    ['421 4.3.2'],
  );
  gate.resolve();
  receiving.send('x\r\n.\r\n');
  for (const client of [receiving, handling]) {
    const replies = (await client.readReplies()).map((reply) => reply.slice(0, 9));
    assert.deepEqual(replies, ['250 2.0.0', '421 4.3.2']);
  }
  await closed;
});

test('a long or unusual text becomes valid reply lines', async () => {
  const text = `${'word '.repeat(150)}ä\r\n250 2.0.0 injected ${'x'.repeat(900)}`;
  await using server = await startSmtpServer({
    handlers: { onRcpt: () => serverReply(550, '5.7.1', text), onMessage: () => Promise.reject() },
  });
  await using client = await Dialogue.greeted(server.port);
  await client.ask('MAIL FROM:<>');
  const lines = ((await client.ask('RCPT TO:<a@b.test>')) ?? '').split('\n');
  assert.ok(lines.length >= 3);
  for (const line of lines) assert.match(line, /^550[ -]5\.7\.1 [ -~]{1,400}$/);
  assert.equal(await client.ask('NOOP'), '250 2.0.0 Ok');
});
