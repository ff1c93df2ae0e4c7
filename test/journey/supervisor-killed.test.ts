/** Only the supervisor is killed: its workers end at once, without an error. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { migratedDatabase } from '../support/postgres.ts';
import { startService, type Service } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const CONNECTIONS = 20;

/** Each is handed from the supervisor to a worker, which acknowledges it. */
async function openConnections(service: Service): Promise<Socket[]> {
  const port = Number(new URL(service.url).port);
  const sockets = Array.from({ length: CONNECTIONS }, () => connect({ port, host: '127.0.0.1' }));
  for (const socket of sockets) socket.on('error', () => {});
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

test('when the supervisor is killed, its workers end at once without an error', async () => {
  await using service = await startService({ args: ['--workers', '3'] });
  const workers = await service.workerPids();
  assert.equal(workers.length, 3);
  for (const pid of workers) process.kill(pid, 'SIGSTOP');
  const sockets = await openConnections(service);
  await service.kill9();
  for (const pid of workers) process.kill(pid, 'SIGCONT');
  await waitFor(() => service.isSilent, { what: 'the last worker to end' });
  for (const socket of sockets) socket.destroy();
  assert.doesNotMatch(service.logs, /^(?:node:|Warning|\w*Error)/m);
});

test('a start without a reachable database fails with one sentence and does not block a later start', async () => {
  await using database = await migratedDatabase();
  await using service = await startService({ database });
  assert.equal(await service.stop(), 0);
  await database.setReachable(false);
  const { code, stdout, stderr } = await service.cli('start');
  assert.equal(code, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /^letterhaus: the database cannot be reached: .*DATABASE_URL is right.*\n$/);
  await database.setReachable(true);
  await service.restart();
  assert.equal((await service.request('GET', '/readyz')).status, 200);
});
