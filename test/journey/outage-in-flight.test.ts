/**
 * A database outage while messages are under way: outcomes wait in memory until they are written, and
 * no further message gets its final dot. A kill then repeats only messages that were between final
 * dot and commit when the outage began.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrivals, assertSettled, duplicates } from '../support/load.ts';
import { proxiedDatabase } from '../support/postgres.ts';
import { waitForArrivals, FROM, liveEnv, newPeers, waitForEmptyQueue } from '../support/scene.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

/** One message that was taken, one that stands before its dot, and an unavailable database. */
async function stage() {
  await using parts = new AsyncDisposableStack();
  const verdict = Promise.withResolvers<void>();
  const place = Promise.withResolvers<void>();
  const peers = parts.use(
    await newPeers({
      messageReplies: { taken: { after: verdict.promise, reply: '250 2.0.0 Taken' } },
      recipients: { late: { after: place.promise, reply: '250 2.1.5 Ok' } },
    }),
  );
  const { mx, dns } = peers;
  const database = parts.use(await proxiedDatabase());
  // Each missed beat has a line.
  const env = { ...liveEnv(peers), LETTERHAUS_LOG: 'debug' };
  const service = parts.use(await startService({ dns, database, env, args: ['--workers', '1'] }));
  await service.addLiveDomain('acme.example.org');
  const key = await service.liveKey();
  const ids = await Promise.all(
    ['taken', 'late'].map((name) =>
      service.send({ from: FROM, to: `${name}@receiver.example.org` }, { key }),
    ),
  );
  const isAtDot = (name: string): boolean =>
    mx.sessions.some(({ lines }) => lines.some((line) => line.startsWith(`C: RCPT TO:<${name}@`)));
  await waitFor(() => mx.messages.length === 1 && isAtDot('late'), {
    what: 'one message up to its dot and one up to its recipient',
  });

  await database.proxy.refuse();
  const missed = (): number => service.logs.split('no heartbeat').length - 1;
  /** The database was asked in vain meanwhile, for settling as well. */
  const missOneMoreHeartbeat = async (): Promise<void> => {
    const before = missed();
    await waitFor(() => missed() > before, { what: 'a missed heartbeat' });
  };
  verdict.resolve();
  await missOneMoreHeartbeat();
  place.resolve();
  await waitFor(() => mx.sessions.filter(({ lines }) => lines.some(isGoAhead)).length === 2, {
    what: 'the server to wait for the second message',
  });
  await missOneMoreHeartbeat();
  assert.equal(mx.messages.length, 1, 'the second message has not got its dot');
  mx.set({});
  const all = parts.move();
  return { mx, service, database, ids, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

const isGoAhead = (line: string): boolean => line.startsWith('S: 354');

test('a message that has not had its final dot when the database fails is sent after the database recovers', async () => {
  await using scene = await stage();
  const { mx, service, database, ids } = scene;
  await database.proxy.heal();
  await waitForArrivals(mx, ids);
  await waitForEmptyQueue(service);
  await assertSettled(service, ids);
  assert.equal(duplicates(arrivals(mx)), 0);
});

test('a kill during a database outage repeats only messages that were accepted by receivers before it', async () => {
  await using scene = await stage();
  const { mx, service, database, ids } = scene;
  await service.killGroup9();
  await database.proxy.heal();
  await service.restart();
  await waitForArrivals(mx, ids);
  await waitForEmptyQueue(service);
  await assertSettled(service, ids);
  assert.deepEqual(
    ids.map((id) => arrivals(mx).get(id)),
    [2, 1],
    'what was taken comes again, the other one for the first time',
  );
});
