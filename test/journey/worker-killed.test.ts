/**
 * One of two workers is killed while its messages hang at a mail server: its supervisor frees them at
 * once, and the living one sends them. That nobody had to wait for a takeover (a beat that stood still
 * for 15 s) is certain, because here a takeover always fails.
 */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { arrivals, assertSettled, duplicates, runLoad } from '../support/load.ts';
import { waitForArrivals, FROM, newScene, waitForEmptyQueue, to } from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';

/** Every supervisor stumbles over its first takeover, and over no other work. */
const NO_RECLAIM = 'reclaim_before_commit=throw';

test('the mail of a killed worker is sent at once by the remaining worker', async () => {
  await using scene = await newScene({
    args: ['--workers', '2'],
    env: { LETTERHAUS_FAILPOINTS: NO_RECLAIM },
  });
  const { service, mx, key } = scene;
  const release = Promise.withResolvers<void>();
  mx.set({ phases: { data_command: { after: release.promise, reply: '354 Send the message' } } });
  const ids: string[] = [];
  const hanging = () => mx.sessions.filter(({ lines }) => lines.includes('C: DATA'));
  const workers = () =>
    service.sql(
      `select nodes.id, nodes.pid, array_agg(queue.email_id) as emails
         from nodes join queue on queue.holder = nodes.id group by nodes.id, nodes.pid`,
    );
  // The system chooses the worker of a request: wait until each has leased mail, and some has come to DATA.
  await waitFor(
    async () => {
      ids.push(...(await runLoad(service, { key, count: 16, from: FROM, to })).accepted);
      return hanging().length > 0 && (await workers()).length === 2;
    },
    { what: 'both workers to lease mail' },
  );
  const [victim] = await workers();
  process.kill(victim.pid, 'SIGKILL');
  mx.set({});
  release.resolve();
  const left = 'select from queue where holder = $1 union all select from nodes where id = $1';
  await waitFor(async () => (await service.sql(left, [victim.id])).length === 0, {
    what: 'the dead worker to lease nothing',
  });
  await waitForArrivals(mx, ids);
  await waitForEmptyQueue(service);
  await assertSettled(service, ids);
  assert.equal(duplicates(arrivals(mx)), 0, 'no dot had been written');
  await service.logged(/a worker died/);
  assert.doesNotMatch(service.logs, /stopped its heartbeat|failpoint|no longer exist/);
});

test('a connection handed to a dying worker is closed, so that its client retries', async () => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  const { service } = scene;
  const [victim] = await service.sql('select pid from nodes order by id limit 1');
  process.kill(victim.pid, 'SIGSTOP');
  const { port } = new URL(service.url);
  const clients = Array.from({ length: 4 }, () => connect(Number(port), '127.0.0.1'));
  const closed = new Set<Socket>();
  for (const client of clients) {
    client.on('error', () => {}).on('close', () => closed.add(client));
    client.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    client.resume();
  }
  await waitFor(() => closed.size === 3, { what: 'the living worker to answer all but one' });
  process.kill(victim.pid, 'SIGKILL');
  await waitFor(() => closed.size === 4, { what: 'the last connection to be closed' });
});
