/**
 * The dialogue for one message, with a server that fails in each phase. The most important result is whether the
 * message is in doubt.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { stuffDots, finalDot } from './client-transaction.ts';
import { startFakeMx } from '../../../test/support/fake-mx.ts';
import { connectTo, openTo, send, SILENCE_MS, summary } from '../../../test/support/smtp.ts';

const PHASES = ['mail', 'rcpt', 'data_command', 'data'] as const;
const LARGE = Buffer.alloc(16 * 1024 * 1024, `${'x'.repeat(76)}\r\n`);

test('a message arrives unchanged, with its envelope', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  const message = Buffer.from('Subject: hello\r\n\r\nHello\r\n');
  assert.deepEqual(summary(await send(connection, { message })), { phase: 'data', code: 250 });
  const [received] = mx.messages;
  assert.deepEqual(
    [received?.envelopeFrom, received?.recipients, received?.raw.toString(), received?.tls],
    ['b-token@send.acme.test', ['jo@full.test'], message.toString(), null],
  );
});

test('the null reverse-path is an empty pair of brackets', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  await send(connection, { envelopeFrom: '' });
  assert.equal(mx.messages[0]?.envelopeFrom, '');
});

test('MAIL, RCPT and DATA are sent together, and the message in one write with its final dot', async () => {
  const received: string[] = [];
  const server = createServer((socket) => {
    socket.write('220 hi\r\n');
    socket
      .on('error', () => {})
      .on('data', (chunk) => {
        received.push(String(chunk));
        const replies = [
          '250-hi\r\n250 PIPELINING\r\n',
          '250 a\r\n250 b\r\n354 c\r\n',
          '250 d\r\n',
        ];
        socket.write(replies[received.length - 1] ?? '221 e\r\n');
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const result = await connectTo({ address: '127.0.0.1', port });
  assert.ok(result.kind === 'ready');
  await send(result.connection, { message: Buffer.from('A: b\r\n\r\nc\r\n') });
  result.connection.destroy();
  server.close();
  assert.deepEqual(received.slice(1), [
    'MAIL FROM:<b-token@send.acme.test>\r\nRCPT TO:<jo@full.test>\r\nDATA\r\n',
    'A: b\r\n\r\nc\r\n.\r\n',
  ]);
});

test('a refusal in any phase is reported with the phase, and the session continues', async () => {
  await using mx = await startFakeMx();
  for (const pipelining of [true, false]) {
    for (const phase of PHASES) {
      for (const reply of ['451 4.3.0 Later', '554 5.7.1 Never']) {
        mx.set({ pipelining, phases: { [phase]: reply } });
        using connection = await openTo(mx);
        const result = await send(connection);
        assert.deepEqual(summary(result), { phase, code: Number(reply.slice(0, 3)) });
        assert.ok(result.transcript.includes(`S: ${reply}`));
        mx.set({ pipelining });
        assert.equal(connection.isReusable, true);
        assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
      }
    }
  }
});

test('RSET is sent only after a transaction that failed half way', async () => {
  await using mx = await startFakeMx({ recipients: { jo: ['550 5.1.1 No', '250 Ok'] } });
  for (const pipelining of [true, false]) {
    mx.set({ pipelining, recipients: { jo: ['550 5.1.1 No', '250 Ok'] } });
    using connection = await openTo(mx);
    await send(connection);
    await send(connection);
    await send(connection);
    const lines = mx.sessions.at(-1)?.lines.filter((line) => line.startsWith('C: '));
    const said = lines?.map((line) => line.slice(3).split(/[ :]/)[0]);
    const refused = pipelining ? ['MAIL', 'RCPT', 'DATA'] : ['MAIL', 'RCPT'];
    const sent = ['MAIL', 'RCPT', 'DATA', '(25'];
    assert.deepEqual(said, ['EHLO', ...refused, 'RSET', ...sent, ...sent]);
  }
});

test('the session ends when a server refuses RSET', async () => {
  await using mx = await startFakeMx({ phases: { rcpt: '550 No', rset: '500 What?' } });
  using connection = await openTo(mx);
  await send(connection);
  assert.deepEqual(summary(await send(connection)), { phase: 'rset', cause: 'garbage' });
  assert.equal(connection.isReusable, false);
});

test('a lone dot completes a DATA that was accepted for a refused recipient', async () => {
  const recipients = { jo: ['550 5.1.1 No such user', '250 Ok'] };
  await using mx = await startFakeMx({ recipients, phases: { data_command: '354 Go ahead' } });
  using connection = await openTo(mx);
  assert.deepEqual(summary(await send(connection)), { phase: 'rcpt', code: 550 });
  assert.equal(mx.messages.length, 0);
  assert.ok(mx.sessions[0]?.lines.includes('C: (0 bytes)'));
  assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
  assert.equal(mx.messages.length, 1);
});

test('421 in any phase is the reply and ends the session', async () => {
  await using mx = await startFakeMx();
  for (const phase of PHASES) {
    mx.set({ phases: { [phase]: '421 4.3.2 Shutting down' } });
    using connection = await openTo(mx);
    assert.deepEqual(summary(await send(connection)), { phase, code: 421 });
    assert.equal(connection.isReusable, false);
  }
});

test('a timeout is reported with its phase; only after the final dot the message is in doubt', async () => {
  await using mx = await startFakeMx();
  for (const pipelining of [true, false]) {
    for (const phase of PHASES) {
      mx.set({ pipelining, phases: { [phase]: {} } });
      using connection = await openTo(mx, { timeouts: { [phase]: SILENCE_MS } });
      const result = await send(connection);
      assert.deepEqual(summary(result), { phase, cause: 'timeout' });
      assert.equal(result.kind === 'failed' && result.inDoubt, phase === 'data');
      assert.equal(connection.isReusable, false);
    }
  }
});

test('a lost connection is reported with its phase; only after the final dot the message is in doubt', async () => {
  await using mx = await startFakeMx();
  for (const drop of ['fin', 'rst'] as const) {
    for (const phase of PHASES) {
      mx.set({ phases: { [phase]: { drop } } });
      using connection = await openTo(mx);
      const result = await send(connection);
      assert.deepEqual(summary(result), { phase, cause: 'closed' }, drop);
      assert.equal(result.kind === 'failed' && result.inDoubt, phase === 'data');
    }
  }
});

test('a server that reads the message and closes without a reply leaves it in doubt', async () => {
  await using mx = await startFakeMx({ messageReplies: { jo: { drop: 'rst', keep: true } } });
  using connection = await openTo(mx);
  const result = await send(connection);
  assert.ok(result.kind === 'failed' && result.phase === 'data' && result.inDoubt);
  assert.equal(mx.messages.length, 1);
});

test('a message is delivered when the server closes after its 250', async () => {
  await using mx = await startFakeMx({ phases: { data: { reply: '250 Ok', drop: 'fin' } } });
  using connection = await openTo(mx);
  assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
});

test('malformed data in any phase ends the session; replies before it count', async () => {
  await using mx = await startFakeMx();
  const nonsense = [
    { raw: 'what?\r\n' },
    { raw: '250 a\0b\r\n' },
    { raw: `${'x'.repeat(5000)}\r\n` },
    { raw: '250-a\r\n550 b\r\n' },
    { raw: '299 a\r\n199 b\r\n' },
  ];
  for (const phase of PHASES) {
    for (const reply of nonsense.slice(0, phase === 'data' ? -1 : undefined)) {
      mx.set({ phases: { [phase]: reply } });
      using connection = await openTo(mx);
      const result = await send(connection);
      assert.ok(result.kind === 'failed', `${phase} ${reply.raw}`);
      assert.equal(result.cause, 'garbage');
      assert.equal(result.inDoubt, phase === 'data');
      assert.equal(mx.messages.length, 0);
    }
  }
});

test('a reply without an end counts by its first line, and ends the session', async () => {
  await using mx = await startFakeMx();
  for (const raw of [`250 ${'x'.repeat(5000)}`, '250-more\r\n']) {
    for (const phase of PHASES) {
      mx.set({ phases: { [phase]: { raw, times: Infinity } } });
      using connection = await openTo(mx);
      const result = await send(connection);
      assert.equal(connection.isReusable, false);
      if (phase === 'data') assert.deepEqual(summary(result), { phase, code: 250 });
      else {
        assert.ok(result.kind === 'failed' && result.cause === 'garbage', phase);
        assert.equal(result.inDoubt, false);
      }
    }
  }
});

test('an extra reply in the envelope stops before the message is written', async () => {
  await using mx = await startFakeMx();
  for (const phase of ['mail', 'rcpt', 'data_command'] as const) {
    const expected = phase === 'data_command' ? '354 Go' : '250 Ok';
    mx.set({ phases: { [phase]: `${expected}\n250 And more` } });
    using connection = await openTo(mx);
    const result = await send(connection);
    assert.ok(result.kind === 'failed' && result.cause === 'garbage', phase);
    assert.equal(result.inDoubt, false);
    assert.equal(mx.messages.length, 0);
  }
});

test('the first of two replies to the final dot counts, and the session ends', async () => {
  await using mx = await startFakeMx({ phases: { data: '250 Taken\n250 Taken twice' } });
  using connection = await openTo(mx);
  assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
  assert.equal(connection.isReusable, false);
});

test('a 250 instead of 354 does not start the message', async () => {
  await using mx = await startFakeMx({ phases: { data_command: '250 Ok' } });
  using connection = await openTo(mx);
  assert.deepEqual(summary(await send(connection)), { phase: 'data_command', cause: 'garbage' });
  assert.equal(connection.isReusable, false);
});

test('a message larger than the SIZE limit fails without being sent', async () => {
  await using mx = await startFakeMx({ sizeBytesMax: 1000 });
  using connection = await openTo(mx);
  const result = await send(connection, { message: Buffer.alloc(1001, 'x') });
  assert.ok(result.kind === 'replied' && result.local === true);
  assert.deepEqual([result.reply.code, result.reply.enhancedCode], [552, '5.3.4']);
  assert.equal(result.reply.message, 'The message has 1,001 bytes, the server accepts 1,000.');
  assert.equal(mx.sessions[0]?.lines.at(-1), 'S: 250 ENHANCEDSTATUSCODES');
  const fits = await send(connection, { message: Buffer.alloc(1000, 'x') });
  assert.deepEqual(summary(fits), { phase: 'data', code: 250 });
  assert.ok(mx.sessions[0]?.lines.includes('C: MAIL FROM:<b-token@send.acme.test> SIZE=1000'));
});

test('a non-ASCII address is sent only to servers with SMTPUTF8', async () => {
  await using mx = await startFakeMx();
  using able = await openTo(mx);
  const transaction = { recipient: 'jörg@full.test', smtpUtf8: true };
  assert.deepEqual(summary(await send(able, transaction)), { phase: 'data', code: 250 });
  assert.deepEqual(mx.messages[0]?.recipients, ['jörg@full.test']);
  assert.equal(mx.messages[0]?.smtpUtf8, true);

  mx.set({ smtpUtf8: false });
  using unable = await openTo(mx);
  const result = await send(unable, transaction);
  assert.ok(result.kind === 'replied' && result.local === true);
  assert.equal(result.reply.enhancedCode, '5.6.7');
  const header = await send(unable, { smtpUtf8: true });
  assert.ok(header.kind === 'replied' && header.local === true);
  assert.equal(header.reply.enhancedCode, '5.6.9');
  for (const { reply } of [result, header]) assert.match(reply.message, /SMTPUTF8/);
  assert.deepEqual(summary(await send(unable)), { phase: 'data', code: 250 });
});

test('an address cannot become a command', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  for (const recipient of [
    'a@b.test>\r\nRSET',
    'a\0@b.test',
    '<a@b.test',
    '"a@b.test> SIZE=1',
    '"a"b>@b.test',
    '"a\\"@b.test>',
    'jörg@b.test',
    'a\u007f@b',
  ]) {
    const result = await send(connection, { recipient });
    assert.ok(result.kind === 'replied' && result.local === true, recipient);
    assert.deepEqual(
      [result.phase, result.reply.code, result.reply.enhancedCode],
      ['rcpt', 553, '5.1.3'],
    );
  }
  await assert.rejects(send(connection, { envelopeFrom: 'a@b.test> SIZE=1' }), /cannot be written/);
  assert.equal(mx.messages.length, 0);
});

test('a worker that may not proceed sends neither DATA nor the dot', async () => {
  await using mx = await startFakeMx();
  for (const [pipelining, message] of [
    [true, undefined],
    [false, undefined],
    [true, LARGE.subarray(0, 1024 * 1024)],
  ] as const) {
    for (const allowed of [0, 1]) {
      mx.set({ pipelining });
      using connection = await openTo(mx);
      let asked = 0;
      const result = await send(connection, {
        mayProceed: () => (allowed === 0 ? ++asked <= 0 : Promise.resolve(++asked <= allowed)),
        ...(message && { message }),
      });
      assert.ok(result.kind === 'failed' && result.cause === 'withheld' && !result.inDoubt);
      assert.equal(asked, allowed + 1);
      assert.equal(result.phase, allowed === 0 ? 'data_command' : 'body');
      assert.equal(connection.isReusable, false);
      const lines = mx.sessions.at(-1)?.lines ?? [];
      if (allowed === 0) assert.ok(!lines.includes('C: DATA'));
    }
  }
  assert.equal(mx.messages.length, 0);
});

test('a large message arrives whole', async () => {
  await using mx = await startFakeMx();
  for (const pipelining of [true, false]) {
    mx.set({ pipelining });
    using connection = await openTo(mx);
    const message = [Buffer.from('A: b\r\n\r\n'), LARGE.subarray(0, 3_000_000)];
    assert.deepEqual(summary(await send(connection, { message })), { phase: 'data', code: 250 });
    assert.ok(mx.messages.at(-1)?.raw.subarray(0, 3_000_008).equals(Buffer.concat(message)));
    assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
  }
});

test('a server that stops reading times out in the body, without doubt about the outcome', async () => {
  await using mx = await startFakeMx({ phases: { body: {} } });
  using connection = await openTo(mx, { timeouts: { body: SILENCE_MS } });
  const result = await send(connection, { message: LARGE });
  assert.deepEqual(summary(result), { phase: 'body', cause: 'timeout' });
  assert.ok(result.kind === 'failed' && !result.inDoubt);
});

test('a message is not delivered when the connection is lost during it', async () => {
  await using mx = await startFakeMx({ phases: { body: { drop: 'rst' } } });
  using connection = await openTo(mx);
  const result = await send(connection, { message: LARGE });
  assert.deepEqual(summary(result), { phase: 'body', cause: 'closed' });
  assert.ok(result.kind === 'failed' && !result.inDoubt);
});

test('a refusal during the message counts, and the session ends', async () => {
  await using mx = await startFakeMx();
  for (const reply of ['552 5.3.4 Too big after all', '421 4.3.2 Bye']) {
    mx.set({ phases: { body: reply } });
    using connection = await openTo(mx);
    const result = await send(connection, { message: LARGE });
    assert.deepEqual(summary(result), { phase: 'data', code: Number(reply.slice(0, 3)) });
    assert.equal(connection.isReusable, false);
  }
});

test('a 250 during the message does not count', async () => {
  await using mx = await startFakeMx({ phases: { body: '250 Sure' } });
  using connection = await openTo(mx);
  const result = await send(connection, { message: LARGE });
  assert.deepEqual(summary(result), { phase: 'body', cause: 'garbage' });
});

test('any bytes arrive unchanged, however they are split', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  const token = fc.constantFrom('.', '..', '\r\n', '\r\n.', '\r', ' ', 'From ', 'é', '\0');
  // Without bare LF: the composer writes none, and a dot after one is stuffed (below).
  const octets = fc
    .uint8Array({ maxLength: 20 })
    .map((bytes) => bytes.filter((byte) => byte !== 10));
  const piece = fc.oneof(
    fc.array(token).map((tokens) => Buffer.from(tokens.join(''))),
    octets.map((bytes) => Buffer.from(bytes)),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece), async (pieces) => {
      const whole = Buffer.concat(pieces);
      const result = await send(connection, { message: pieces });
      assert.deepEqual(summary(result), { phase: 'data', code: 250 });
      const received = mx.messages.at(-1)?.raw ?? Buffer.alloc(0);
      assert.ok(received.subarray(0, whole.length).equals(whole));
      // Only a missing last line end is added.
      assert.match(received.toString('latin1', whole.length), /^(\r\n)?$/);
    }),
    { numRuns: 300 },
  );
});

test('no bytes inside a message can end it, even at a server that accepts a bare LF as line end', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  const smuggled = 'A: b\r\n\r\nx\n.\nMAIL FROM:<y@z>\r\n\n.\r\nRCPT TO:<y@z>\r.\r\n';
  await send(connection, { message: Buffer.from(smuggled) });
  assert.equal(mx.messages.length, 1);
  assert.doesNotMatch(mx.messages[0]?.raw.toString() ?? '', /\n\.\r?\n/);
});

test('the transcript has the dialogue without the message, and is bounded', async () => {
  await using mx = await startFakeMx({
    phases: { data: `250-${'yes '.repeat(400)}\n250 2.0.0 Taken` },
  });
  using connection = await openTo(mx);
  const message = Buffer.from('Subject: a secret\r\n\r\nsecret\r\n');
  const { transcript } = await send(connection, { message });
  assert.match(transcript[0] ?? '', /^\(connecting to mx\.test \[127\.0\.0\.1\]:\d+\)$/);
  assert.ok(transcript.includes('C: EHLO out.letterhaus.test'));
  assert.ok(transcript.includes(`C: (${message.length} bytes)`));
  assert.ok(transcript.includes('S: 250 2.0.0 Taken'));
  assert.ok(!transcript.join('\n').includes('secret'));

  mx.set({
    phases: {
      data: { raw: `${'550-no\r\n'.repeat(127)}550 no\r\n` },
      mail: `250-${'x'.repeat(2000)}\n250 y`,
      rcpt: `250-${'x'.repeat(2000)}\n250 y`,
      data_command: `354-${'x'.repeat(3000)}\n354 y`,
    },
  });
  const second = await send(connection);
  assert.ok(!second.transcript.some((line) => line.includes('EHLO')));
  assert.ok(second.transcript.join('\n').length <= 8192);
});

function stuffed(...pieces: string[]): string {
  return Buffer.concat(stuffDots(pieces.map((piece) => Buffer.from(piece)))).toString();
}

test('a dot at the beginning of a line gets a second one, others do not', () => {
  assert.equal(stuffed('a.b\r\n.c\r\n..\r\nd.\r\n'), 'a.b\r\n..c\r\n...\r\nd.\r\n');
});

test('a dot as the first byte, or at the start of a chunk after a line end, is doubled', () => {
  assert.equal(stuffed('.a\r\n'), '..a\r\n');
  assert.equal(stuffed('', '.a\r\n'), '..a\r\n');
  assert.equal(stuffed('a\r\n', '', '.b\r\n'), 'a\r\n..b\r\n');
  assert.equal(stuffed('a\r', '\n', '.'), 'a\r\n..');
  assert.equal(stuffed('a', '.b\r\n'), 'a.b\r\n');
});

test('a message without such dots is not copied', () => {
  const pieces = [Buffer.from('A: b\r\n\r\n'), Buffer.from('c.\r\n')];
  assert.equal(stuffDots(pieces), pieces);
});

test('the final dot is on its own line', () => {
  const dotAfter = (...pieces: string[]) =>
    finalDot(pieces.map((piece) => Buffer.from(piece))).toString();
  assert.equal(dotAfter('a\r\n'), '.\r\n');
  assert.equal(dotAfter('a\r\n', ''), '.\r\n');
  assert.equal(dotAfter('a'), '\r\n.\r\n');
  assert.equal(dotAfter('a\n'), '\r\n.\r\n');
  assert.equal(dotAfter(), '.\r\n');
});
