import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { startFakeMx } from '../../../test/support/fake-mx.ts';
import { openTo, send, SILENCE_MS, summary } from '../../../test/support/smtp.ts';
import { waitFor } from '../../../test/support/wait.ts';
import type { SmtpConnection } from './connection.ts';

function idleClose(connection: SmtpConnection): Promise<void> {
  return new Promise((resolve) => {
    connection.onIdleClose = resolve;
  });
}

test('one connection carries many messages', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  for (let i = 0; i < 50; i++) {
    assert.deepEqual(summary(await send(connection)), { phase: 'dot', code: 250 });
    assert.equal(connection.reusable, true);
  }
  assert.equal(connection.messagesSent, 50);
  assert.equal(mx.messages.length, 50);
  assert.equal(mx.connections, 1);
});

test('a connection carries one message at a time', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  const first = send(connection);
  assert.equal(connection.reusable, false);
  await assert.rejects(send(connection), /busy/);
  assert.deepEqual(summary(await first), { phase: 'dot', code: 250 });
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
    assert.equal(connection.reusable, false);
    const result = await send(connection);
    assert.ok(result.kind === 'failed' && result.phase === 'mail' && !result.inDoubt);
  }
});

test('a connection that ends during a message tells it by the result, not as idle', async () => {
  await using mx = await startFakeMx({ phases: { rcpt: { drop: 'rst' } } });
  using connection = await openTo(mx);
  let toldIdle = 0;
  connection.onIdleClose = () => toldIdle++;
  assert.deepEqual(summary(await send(connection)), { phase: 'rcpt', cause: 'closed' });
  assert.equal(toldIdle, 0);
});

test('closing says QUIT and does not tell the owner what it did itself', async () => {
  await using mx = await startFakeMx();
  using connection = await openTo(mx);
  let toldIdle = 0;
  connection.onIdleClose = () => toldIdle++;
  await connection.close();
  assert.ok(mx.sessions[0]?.lines.includes('C: QUIT'));
  await waitFor(() => mx.sessions[0]?.ended, { what: 'the end of the session' });
  assert.equal(toldIdle, 0);
  assert.equal(connection.reusable, false);
  await connection.close();
});

test('a server that does not answer QUIT is not waited for', async () => {
  await using mx = await startFakeMx({ phases: { quit: {} } });
  using connection = await openTo(mx, { timeouts: { quit: SILENCE_MS } });
  await connection.close();
  assert.equal(connection.reusable, false);
});

test('dropping a connection ends the message on it as failed', async () => {
  await using mx = await startFakeMx({ phases: { mail: {} } });
  using connection = await openTo(mx);
  const result = send(connection);
  connection.destroy();
  assert.deepEqual(summary(await result), { phase: 'mail', cause: 'closed' });
});
