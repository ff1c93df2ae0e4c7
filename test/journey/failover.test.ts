/**
 * Two PostgreSQL servers with streaming replication, the primary killed under load and the standby
 * promoted: DATABASE_URL names both. How to run such a pair: docs/scale.md.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { arrivals, assertSettled, duplicates, type Load, runLoad } from '../support/load.ts';
import { type ReplicatedPair, startReplicatedPair } from '../support/replicated-postgres.ts';
import {
  waitForArrivals,
  FROM,
  liveEnv,
  newPeers,
  waitForEmptyQueue,
  to,
} from '../support/scene.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const EMAILS = 400;

/** They are every 2 s: more than the 15 s after which a silent node is declared dead. */
const HEARTBEATS = 9;

type Stage = {
  pair: ReplicatedPair;
  service: Service;
  key: string;
  mx: Awaited<ReturnType<typeof newPeers>>['mx'];
  /** The primary is killed, the standby promoted; what looks into tables looks there. */
  failOver(): Promise<void>;
};

async function newStage(options: { synchronous: boolean }): Promise<Stage> {
  const pair = await startReplicatedPair(options);
  after(() => pair[Symbol.asyncDispose]());
  const peers = await newPeers();
  after(() => peers[Symbol.asyncDispose]());
  const address = pair.primary.address('letterhaus');
  const service = await startService({
    dns: peers.dns,
    database: { url: pair.url, address, setReachable: () => Promise.reject(new Error('kill it')) },
    env: liveEnv(peers),
    args: ['--workers', '2'],
  });
  after(() => service[Symbol.asyncDispose]());
  await service.addLiveDomain('acme.example.org');
  return {
    pair,
    service,
    key: await service.liveKey(),
    mx: peers.mx,
    async failOver() {
      await pair.primary.kill9();
      await pair.promoteStandby();
      address.port = pair.standby.port;
    },
  };
}

/** A load during which `onAccepted` happens once for each number of accepted emails it names. */
async function loadWith(
  stage: Stage,
  steps: Readonly<Record<number, () => Promise<void>>>,
): Promise<Load> {
  const begun: Promise<void>[] = [];
  const waiting = new Map(Object.entries(steps).map(([count, step]) => [Number(count), step]));
  const load = await runLoad(stage.service, {
    key: stage.key,
    count: EMAILS,
    from: FROM,
    to,
    onAccepted: (count) => {
      for (const [at, step] of waiting) {
        if (count < at) continue;
        waiting.delete(at);
        begun.push(step());
      }
    },
  });
  await Promise.all(begun);
  assert.equal(waiting.size, 0, 'the load was long enough');
  assert.equal(load.broken, 0, 'every request got a response');
  for (const { status, text } of load.refused) assert.equal(status, 503, text);
  return load;
}

async function acceptsAgain({ service, key }: Stage): Promise<string> {
  const again = async () => {
    const body = { from: FROM, to: to(EMAILS), subject: 'Hello', text: 'Hello' };
    const response = await service.request('POST', '/v1/emails', { key, body });
    return response.status === 202 && { id: response.body.id as string };
  };
  const { id } = await waitFor(again, { what: 'emails to be accepted again', timeoutMs: 60_000 });
  return id;
}

// Takes a minute: the service looks twice, 30 s apart, at claims of a worker that does not know of them.
test('accepted mail survives the fail-over to a synchronous standby', async (t) => {
  const stage = await newStage({ synchronous: true });
  const load = await loadWith(stage, { [EMAILS / 2]: () => stage.failOver() });
  const accepted = [...load.accepted, await acceptsAgain(stage)];
  await waitForArrivals(stage.mx, accepted, 180_000);
  await waitForEmptyQueue(stage.service, 180_000);
  await assertSettled(stage.service, accepted);
  const twice = duplicates(arrivals(stage.mx));
  t.diagnostic(`${accepted.length} accepted, ${load.refused.length} refused, ${twice} twice`);
  const isSaid = () => /the database failed over/.test(stage.service.logs);
  await waitFor(isSaid, { what: 'the log to say that it failed over' });
});

test('commits that an asynchronous standby lacks are lost and logged, and the rest of the mail is sent', async (t) => {
  const stage = await newStage({ synchronous: false });
  const { pair, service, mx } = stage;
  const load = await loadWith(stage, {
    [EMAILS / 4]: () => pair.cutReplication(),
    [EMAILS / 2]: () => stage.failOver(),
  });
  const accepted = [...load.accepted, await acceptsAgain(stage)];
  const rows = await service.sql('select id from emails where id = any($1)', [accepted]);
  const kept = rows.map(({ id }) => id as string);
  const lost = accepted.filter((id) => !kept.includes(id));
  assert.ok(lost.length > 0, 'the fail-over lost something');
  await waitForArrivals(mx, kept, 180_000);
  await waitForEmptyQueue(service, 180_000);
  await assertSettled(service, kept);
  const twice = duplicates(arrivals(mx));
  t.diagnostic(`${accepted.length} accepted, ${lost.length} lost, ${twice} twice`);
  const isSaid = () => lost.every((id) => service.logs.includes(id));
  await waitFor(isSaid, { what: 'the log to name every lost email' });
});

test('when no commit ends for 18 s, and the database fails over, no node takes the mail of another', async () => {
  await using parts = new AsyncDisposableStack();
  const pair = parts.use(await startReplicatedPair({ synchronous: true }));
  const release = Promise.withResolvers<void>();
  const phases = { data: { after: release.promise, reply: '250 2.0.0 Taken' } };
  const peers = parts.use(await newPeers({ phases }));
  const address = pair.primary.address('letterhaus');
  const setReachable = () => Promise.reject(new Error('kill it'));
  const env = { LETTERHAUS_SECRET_KEY: 'a'.repeat(64), LETTERHAUS_LOG: 'debug' };
  const options = {
    dns: peers.dns,
    database: { url: pair.url, address, setReachable },
    env: liveEnv(peers, env),
  };
  const first = parts.use(await startService(options));
  await first.addLiveDomain('acme.example.org');
  const nodes = [first, parts.use(await startService(options))];
  const key = await first.liveKey();
  // Two connections per node wait for the reply to their dot.
  const ids = await Promise.all(
    [...nodes, ...nodes].map((node, index) => node.send({ from: FROM, to: to(index) }, { key })),
  );
  await waitFor(() => peers.mx.messages.length === ids.length, {
    what: 'messages with their dots',
  });
  const leases = 'select id from nodes order by id';
  const before = await first.sql(leases);

  await pair.cutReplication();
  const missed = (logs: string): number => logs.split('no heartbeat').length - 1;
  await waitFor(() => nodes.every(({ logs }) => missed(logs) >= HEARTBEATS), {
    what: `${HEARTBEATS} missed heartbeats of each node`,
    timeoutMs: 120_000,
  });
  // The second node reaches the new primary some polls of the first one later.
  const late = nodes[1]!;
  process.kill(-late.pid, 'SIGSTOP');
  await pair.primary.kill9();
  await pair.promoteStandby();
  address.port = pair.standby.port;
  const newest = 'select max(beat)::int as newest from nodes';
  const [atFailover] = await first.sql(newest);
  const areStored = async () => {
    const [now] = await first.sql(newest);
    return now!['newest'] >= atFailover!['newest'] + 3;
  };
  await waitFor(areStored, { what: 'heartbeats of the first node' });
  process.kill(-late.pid, 'SIGCONT');
  release.resolve();

  await waitForEmptyQueue(first, 180_000);
  await assertSettled(first, ids);
  assert.equal(duplicates(arrivals(peers.mx)), 0);
  assert.deepEqual(await first.sql(leases), before);
  for (const { logs } of nodes)
    assert.doesNotMatch(logs, /stopped its heartbeat|was expired while/);
});
