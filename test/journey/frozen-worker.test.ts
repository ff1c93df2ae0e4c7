/**
 * A worker is frozen (SIGSTOP; a loop that does not end looks the same from outside). Its supervisor notices
 * that it does not answer, kills it before its lease has passed to another node, and starts another.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrivals, assertSettled, duplicates, runLoad } from '../support/load.ts';
import { waitForArrivals, FROM, newScene, waitForEmptyQueue, to } from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';

const KILLED = /a worker did not answer and is killed/;

test('a frozen worker is replaced under load: all requests get a response, and no mail is sent twice', async (t) => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  const { service, mx, key } = scene;
  const release = Promise.withResolvers<void>();
  mx.set({ phases: { data_command: { after: release.promise, reply: '354 Send the message' } } });
  const ids: string[] = [];
  const workers = () =>
    service.sql('select distinct id, pid from nodes join queue on queue.holder = nodes.id');
  await waitFor(
    async () => {
      ids.push(...(await runLoad(service, { key, count: 16, from: FROM, to })).accepted);
      return (await workers()).length === 2;
    },
    { what: 'both workers to lease mail' },
  );
  const [{ pid }] = await workers();
  process.kill(pid, 'SIGSTOP');
  const frozenAtMs = performance.now();
  mx.set({});
  release.resolve();

  // Requests that the frozen worker has taken hang until it is killed, and then break off.
  const under = await runLoad(service, { key, count: 200, from: FROM, to });
  await waitFor(() => KILLED.test(service.logs), { what: 'the kill' });
  t.diagnostic(`killed after ${Math.round(performance.now() - frozenAtMs)} ms`);
  await waitFor(
    async () => {
      const pids = await service.workerPids();
      const nodes = await service.sql('select pid from nodes');
      return pids.length === 2 && !pids.includes(pid) && nodes.length === 2;
    },
    { what: 'two workers again' },
  );
  const after = await runLoad(service, { key, count: 50, from: FROM, to });
  assert.equal(after.accepted.length, 50, 'every request gets a response again');
  assert.ok(under.accepted.length > 100, `${under.accepted.length} accepted meanwhile`);

  const accepted = [...ids, ...under.accepted, ...after.accepted];
  await waitForArrivals(mx, accepted);
  await waitForEmptyQueue(service);
  await assertSettled(service, accepted);
  assert.equal(duplicates(arrivals(mx)), 0, 'the frozen worker had written no dot');
  await service.logged(/docs\/scale\.md/);
  await service.counted(/^letterhaus_workers_killed_total 1$/m);
});

test('mail that waited for the reply to its final dot is sent once more, with the same Message-ID', async () => {
  await using scene = await newScene({ args: ['--workers', '1'] });
  const { service, mx, key } = scene;
  const never = new Promise<void>(() => {});
  mx.set({ phases: { data: { after: never, reply: '250 2.0.0 Taken' } } });
  const id = await service.send({ from: FROM, to: to(1) }, { key });
  await waitFor(() => mx.messages.length === 1, { what: 'the final dot' });
  const [pid] = await service.workerPids();
  process.kill(pid!, 'SIGSTOP');
  mx.set({});
  await waitFor(() => mx.messages.length === 2, { what: 'the second copy' });
  await service.waitForStatus(id, 'delivered', { key });
  await waitForEmptyQueue(service);
  assert.deepEqual([...arrivals(mx)], [[id, 2]]);
  await service.logged(KILLED);
});

test('a service that is stopped ends a frozen worker as well', async () => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  const { service } = scene;
  const [pid] = await service.workerPids();
  process.kill(pid!, 'SIGSTOP');
  assert.equal(await service.stop(), 0);
  await service.logged(KILLED);
});

test('after a pause of the whole machine no worker is killed', async () => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  const { service, key, mx } = scene;
  const before = await service.workerPids();
  process.kill(-service.pid, 'SIGSTOP');
  // By the clock of the database, which goes on.
  const [{ at }] = await service.sql('select clock_timestamp() as at');
  const hasPassed = `select clock_timestamp() - $1::timestamptz > interval '12 seconds' as passed`;
  await waitFor(async () => (await service.sql(hasPassed, [at]))[0].passed, {
    what: 'twelve seconds',
  });
  process.kill(-service.pid, 'SIGCONT');
  const { accepted } = await runLoad(service, { key, count: 50, from: FROM, to });
  assert.equal(accepted.length, 50);
  await waitForArrivals(mx, accepted);
  assert.deepEqual(await service.workerPids(), before);
  assert.doesNotMatch(service.logs, KILLED);
});
