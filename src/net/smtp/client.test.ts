/**
 * The client until a session is ready, with a server that fails in each phase. client-tls.test.ts has TLS,
 * client-transaction.test.ts the messages.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { connectSmtp, type SmtpOptions } from './client.ts';
import type { SmtpConnection } from './client-connection.ts';
import { startBlackHole } from '../../../test/support/black-hole.ts';
import { type FakeReply, type MxBehaviour, startFakeMx } from '../../../test/support/fake-mx.ts';
import { connectTo, openTo, send, SILENCE_MS, summary } from '../../../test/support/smtp.ts';
import { waitFor } from '../../../test/support/wait.ts';

test('a session reports its server and its encryption', async () => {
  await using mx = await startFakeMx({}, { address: '127.0.0.2' });
  using connection = await openTo(mx);
  assert.deepEqual(connection.server, { host: 'mx.test', address: '127.0.0.2' });
  assert.equal(connection.tls, null);
  assert.equal(connection.isReusable, true);
  assert.deepEqual(mx.sessions[0]?.lines.slice(0, 2), [
    'S: 220 fake.test ESMTP',
    'C: EHLO out.letterhaus.test',
  ]);
});

test('a chosen source address is the one the server sees', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx, { localAddress: '127.0.0.9' });
  assert.ok(connection.isReusable);
  assert.equal(mx.sessions[0]?.socket.remoteAddress, '127.0.0.9');
});

test('the reply of a server that refuses at the greeting or at EHLO is reported', async () => {
  await using mx = await startFakeMx();
  const cases = [
    ['greeting', '421 4.3.2 Too busy'],
    ['greeting', '554 5.7.1 Not you'],
    ['ehlo', '450 4.3.2 Not now'],
    ['ehlo', '421 4.3.2 Bye'],
  ] as const;
  for (const [phase, reply] of cases) {
    mx.set({ phases: { [phase]: reply } });
    const result = await connectTo(mx);
    assert.deepEqual(summary(result), { phase, code: Number(reply.slice(0, 3)) });
    assert.ok(result.kind === 'replied' && result.transcript.includes(`S: ${reply}`));
  }
});

test('a 421 behind the greeting is the reply of the server', async () => {
  await using mx = await startFakeMx();
  mx.set({ phases: { greeting: '220 fake.test ESMTP\n421 4.3.2 Too busy after all' } });
  const result = await connectTo(mx);
  assert.deepEqual(summary(result), { phase: 'greeting', code: 421 });
  assert.ok(result.kind === 'replied');
  assert.equal(result.transcript.at(-1), 'S: 421 4.3.2 Too busy after all');
});

test('an aborted connection ends at once, while connecting and in each later phase', async () => {
  await using mx = await startFakeMx({}, { address: '127.0.0.3' });
  await using _hole = await startBlackHole('127.0.0.4', mx.port);
  const cases: [string, MxBehaviour, address: string][] = [
    ['connect', {}, '127.0.0.4'],
    ['greeting', { phases: { greeting: {} } }, mx.address],
    ['ehlo', { phases: { ehlo: {} } }, mx.address],
    ['tls', { startTls: 'silent' }, mx.address],
  ];
  for (const [phase, behaviour, address] of cases) {
    mx.set(behaviour);
    const ending = new AbortController();
    const { signal } = ending;
    const before = mx.sessions.length;
    const opening = connectTo({ address, port: mx.port }, { signal });
    if (phase !== 'connect') {
      const isThere = (): boolean => {
        const lines = mx.sessions[before]?.lines;
        if (phase === 'greeting') return lines !== undefined;
        const awaited = phase === 'ehlo' ? 'C: EHLO' : 'C: STARTTLS';
        return lines?.some((line) => line.startsWith(awaited)) === true;
      };
      await waitFor(isThere, { what: `the phase ${phase}` });
    }
    ending.abort();
    const result = await opening;
    assert.equal(result.kind, 'failed', phase);
    if (phase === 'connect') continue;
    // A server that does not read the handshake would not see the end either.
    mx.sessions[before]!.socket.resume();
    await waitFor(() => mx.sessions[before]!.ended, { what: `the end in the phase ${phase}` });
  }
});

test('the connect timeout is shorter while another address is left', async () => {
  await using mx = await startFakeMx({}, { address: '127.0.0.5' });
  await using _hole = await startBlackHole('127.0.0.6', mx.port);
  const result = await connectTo(
    { address: '127.0.0.6', port: mx.port },
    { connectMaxMs: SILENCE_MS },
  );
  assert.deepEqual([result.kind, 'phase' in result && result.phase], ['failed', 'connect']);
});

test('QUIT is sent to a server that cannot be used', async () => {
  await using mx = await startFakeMx();
  const cases: [MxBehaviour, Partial<SmtpOptions>][] = [
    [{ phases: { greeting: '554 5.7.1 Not you' } }, {}],
    [{ phases: { ehlo: '450 4.3.2 Not now' } }, {}],
    [{}, { tls: 'required' }],
    [{ startTls: 'refused' }, { tls: 'required' }],
    [{ startTls: 'offered', certificate: 'self-signed' }, { tls: 'enforced' }],
  ];
  for (const [behaviour, options] of cases) {
    mx.set(behaviour);
    const result = await connectTo(mx, options);
    assert.notEqual(result.kind, 'ready');
    await waitFor(() => mx.sessions.at(-1)?.lines.includes('C: QUIT'), {
      what: `QUIT after ${JSON.stringify(behaviour)}`,
    });
  }
});

test('a server that does not know EHLO is greeted with HELO and accepts mail', async () => {
  await using mx = await startFakeMx({ phases: { ehlo: '502 5.5.1 What?' } });
  using connection = await openTo(mx);
  assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
  assert.ok(mx.sessions[0]?.lines.includes('C: HELO out.letterhaus.test'));
});

test('the reply of a server that refuses HELO is reported', async () => {
  await using mx = await startFakeMx({ phases: { ehlo: '502 No', helo: '550 5.7.1 Not you' } });
  assert.deepEqual(summary(await connectTo(mx)), { phase: 'ehlo', code: 550 });
});

test('silence in any phase of the handshake ends it with the name of the phase', async () => {
  await using mx = await startFakeMx();
  for (const phase of ['greeting', 'ehlo', 'starttls'] as const) {
    mx.set({ phases: { [phase]: {} }, startTls: 'offered' });
    const result = await connectTo(mx, { timeouts: { [phase]: SILENCE_MS } });
    assert.deepEqual(summary(result), { phase, cause: 'timeout' });
  }
});

test('a hang-up in any phase of the handshake ends it with the name of the phase', async () => {
  await using mx = await startFakeMx();
  // An immediate reset may come before the connection is known to be open; the phase is then `connect`.
  for (const [phase, drop] of [
    ['greeting', 'fin'],
    ['ehlo', 'fin'],
    ['ehlo', 'rst'],
    ['starttls', 'fin'],
    ['starttls', 'rst'],
  ] as const) {
    mx.set({ phases: { [phase]: { drop } }, startTls: 'offered' });
    assert.deepEqual(summary(await connectTo(mx)), { phase, cause: 'closed' }, drop);
  }
});

test('a server without a listener is unreachable', async () => {
  await using mx = await startFakeMx();
  await mx.stop();
  assert.deepEqual(summary(await connectTo(mx)), { phase: 'connect', cause: 'unreachable' });
  await mx.start();
  assert.deepEqual(summary(await connectTo(mx)), { kind: 'ready' });
});

test('a server that drops SYN packets times out', async () => {
  // A stopped process accepts nothing. When its queue of two is full, the kernel drops SYN packets.
  const code =
    "require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, " +
    'function () { console.log(this.address().port) })';
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const fillers: ReturnType<typeof connect>[] = [];
  try {
    const port = Number(await new Promise((resolve) => child.stdout.once('data', resolve)));
    child.kill('SIGSTOP');
    for (let i = 0; i < 4; i++) fillers.push(connect(port, '127.0.0.1').on('error', () => {}));
    await Promise.all(
      fillers
        .slice(0, 2)
        .map((socket) => new Promise((resolve) => socket.once('connect', resolve))),
    );
    const result = await connectSmtp({
      host: 'mx.test',
      address: '127.0.0.1',
      port,
      heloName: 'out.test',
      tls: 'off',
      timeouts: { connect: SILENCE_MS },
    });
    assert.deepEqual(summary(result), { phase: 'connect', cause: 'timeout' });
  } finally {
    for (const socket of fillers) socket.destroy();
    child.kill('SIGKILL');
  }
});

test('the connection to a server that does not speak SMTP ends', async () => {
  await using mx = await startFakeMx();
  const megabyte = Buffer.alloc(1024 * 1024, 'x');
  const nonsense: Record<string, FakeReply> = {
    'a web server': { raw: 'HTTP/1.1 400 Bad Request\r\n\r\n' },
    'a line of 10 MB': { raw: megabyte, times: 10 },
    'an endless reply': { raw: '220-more\r\n'.repeat(1000), times: Infinity },
    'a NUL': { raw: '220 fake\0.test\r\n' },
    'two codes in one reply': { raw: '220-a\r\n250 b\r\n' },
    'two replies at once': { raw: '220 a\r\n220 b\r\n' },
    'a reply and a half': { raw: '220 a\r\n250-b' },
  };
  for (const [what, greeting] of Object.entries(nonsense)) {
    mx.set({ phases: { greeting } });
    const result = await connectTo(mx);
    assert.ok(result.kind === 'failed' && result.cause === 'garbage', what);
    assert.equal(mx.sessions.at(-1)?.lines.length, 0, `${what}: nothing was said to it`);
  }
});

test('the connection to a server that sends an invalid code ends', async () => {
  await using mx = await startFakeMx({ phases: { greeting: '250 hello' } });
  assert.deepEqual(summary(await connectTo(mx)), { phase: 'greeting', cause: 'garbage' });
  mx.set({ phases: { ehlo: '354 go' } });
  assert.deepEqual(summary(await connectTo(mx)), { phase: 'ehlo', cause: 'garbage' });
});

test('slow bytes do not extend the timeout', async () => {
  await using mx = await startFakeMx({ phases: { greeting: { reply: '220 slow', dripMs: 20 } } });
  const result = await connectTo(mx, { timeouts: { greeting: SILENCE_MS } });
  assert.deepEqual(summary(result), { phase: 'greeting', cause: 'timeout' });
});

test('a slow greeting within its time is waited for', async () => {
  await using mx = await startFakeMx({ phases: { greeting: { reply: '220 slow', dripMs: 5 } } });
  assert.deepEqual(summary(await connectTo(mx)), { kind: 'ready' });
});

test('the client logs in to a relay with PLAIN or LOGIN, and the secret stays out of the transcript', async () => {
  const auth = { user: 'jo', pass: 'gehéim' };
  await using mx = await startFakeMx();
  for (const mechanism of ['PLAIN', 'LOGIN'] as const) {
    mx.set({ auth: { ...auth, mechanisms: [mechanism] } });
    using connection = await openTo(mx, { auth });
    const { transcript, ...result } = await send(connection);
    assert.deepEqual(summary({ ...result, transcript }), { phase: 'data', code: 250 });
    const secrets = ['jo', auth.pass, `\0jo\0${auth.pass}`].map((s) =>
      Buffer.from(s).toString('base64'),
    );
    for (const secret of secrets) assert.ok(!transcript.join('\n').includes(secret));
    assert.ok(transcript.some((line) => line.startsWith(`C: AUTH ${mechanism}`)));
  }
});

test('every failure of authentication is reported', async () => {
  const auth = { user: 'jo', pass: 'right' };
  await using mx = await startFakeMx({ auth });
  const wrong = { user: 'jo', pass: 'wrong' };
  assert.deepEqual(summary(await connectTo(mx, { auth: wrong })), { phase: 'auth', code: 535 });
  mx.set({});
  assert.deepEqual(summary(await connectTo(mx, { auth })), { phase: 'auth', cause: 'garbage' });
  mx.set({ auth, phases: { auth: {} } });
  const silent = await connectTo(mx, { auth, timeouts: { auth: SILENCE_MS } });
  assert.deepEqual(summary(silent), { phase: 'auth', cause: 'timeout' });
});

test('a password is not sent in plain text', async () => {
  const auth = { user: 'jo', pass: 'right' };
  await using mx = await startFakeMx({ auth });
  // 0.0.0.0 reaches this machine, too, but is not a loopback address.
  const result = await connectTo(mx, { auth, address: '0.0.0.0' });
  assert.deepEqual(summary(result), { phase: 'auth', cause: 'tls' });
  assert.ok(
    mx.sessions[0]?.lines.every((line) => !line.includes('AUTH ') || line.startsWith('S:')),
  );
});

test('an EHLO name with a line break throws', async () => {
  await using mx = await startFakeMx();
  await assert.rejects(
    connectTo(mx, { heloName: 'a.test\r\nMAIL FROM:<x@y.test>' }),
    /cannot be written/,
  );
});

function idleClose(connection: SmtpConnection): Promise<void> {
  return new Promise((resolve) => {
    connection.onIdleClose = resolve;
  });
}

test('one connection carries many messages', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  for (let i = 0; i < 50; i++) {
    assert.deepEqual(summary(await send(connection)), { phase: 'data', code: 250 });
    assert.equal(connection.isReusable, true);
  }
  assert.equal(connection.messagesSent, 50);
  assert.equal(mx.messages.length, 50);
  assert.equal(mx.connections, 1);
});

test('a connection carries one message at a time', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  const first = send(connection);
  assert.equal(connection.isReusable, false);
  await assert.rejects(send(connection), /busy/);
  assert.deepEqual(summary(await first), { phase: 'data', code: 250 });
});

test('an idle connection that the server ends is not used again', async () => {
  await using mx = await startFakeMx();
  const endings: ((socket: Socket) => unknown)[] = [
    (socket) => socket.end(),
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.write('421 4.4.2 Idle for too long\r\n'),
    (socket) => socket.write('250 by the way\r\n'),
    (socket) => socket.write('2'),
  ];
  for (const end of endings) {
    using connection = await openTo(mx);
    await send(connection);
    const closed = idleClose(connection);
    end(mx.sessions.at(-1)!.socket);
    await closed;
    assert.equal(connection.isReusable, false);
    const result = await send(connection);
    assert.ok(result.kind === 'failed' && result.phase === 'mail' && !result.inDoubt);
  }
});

test('a connection that ends during a message is reported by the result', async () => {
  await using mx = await startFakeMx({ phases: { rcpt: { drop: 'rst' } } });
  using connection = await openTo(mx);
  let idleCloses = 0;
  connection.onIdleClose = () => idleCloses++;
  assert.deepEqual(summary(await send(connection)), { phase: 'rcpt', cause: 'closed' });
  assert.equal(idleCloses, 0);
});

test('closing sends QUIT without notifying the owner', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  let idleCloses = 0;
  connection.onIdleClose = () => idleCloses++;
  await connection.close();
  assert.ok(mx.sessions[0]?.lines.includes('C: QUIT'));
  await waitFor(() => mx.sessions[0]?.ended, { what: 'the end of the session' });
  assert.equal(idleCloses, 0);
  assert.equal(connection.isReusable, false);
  await connection.close();
});

test('closing does not wait for the reply to QUIT', async () => {
  await using mx = await startFakeMx({ phases: { quit: {} } });
  using connection = await openTo(mx, { timeouts: { quit: SILENCE_MS } });
  await connection.close();
  assert.equal(connection.isReusable, false);
});

test('dropping a connection ends the message on it as failed', async () => {
  await using mx = await startFakeMx({ phases: { mail: {} } });
  using connection = await openTo(mx);
  const result = send(connection);
  connection.destroy();
  assert.deepEqual(summary(await result), { phase: 'mail', cause: 'closed' });
});
