/**
 * Two nodes on one database. One is killed, or frozen, both lose the database, or the clock jumps: what
 * was accepted arrives, and nobody sends what another has taken over. A silent node is declared dead
 * after 15 s, so that these wait side by side.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { arrivals, assertSettled, duplicates, runLoad } from '../support/load.ts';
import { waitForArrivals, FROM, newNodes, waitForEmptyQueue, to } from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';

const EMAILS = 300;

/** A small message goes out in one write with its dot, a large one in many before it. */
const BODIES = ['<p>Hello</p>', `<p>${'Hello '.repeat(40_000)}</p>`];

/** They are every 2 s: more than the 15 s after which a silent node is declared dead. */
const HEARTBEATS = 9;

describe('two nodes on one database', { concurrency: true }, () => {
  test('when one of two nodes is killed, the other sends its mail within 25 s and nothing is lost', async (t) => {
    await using scene = await newNodes();
    const { nodes, mx, key } = scene;
    const [victim, survivor] = nodes;
    const send = (index: number) => `${index % 2 === 0 ? 'a' : 'b'}${to(index)}`;
    let killed: Promise<void> | undefined;
    let killedAtMs = 0;
    const load = (service: typeof victim, onAccepted?: (count: number) => void) =>
      runLoad(service, {
        key,
        count: EMAILS,
        from: FROM,
        to: send,
        ...(onAccepted && { onAccepted }),
      });
    const loads = await Promise.all([
      load(victim, (count) => {
        if (count < EMAILS / 2) return;
        killedAtMs ||= performance.now();
        killed ??= victim.killGroup9();
      }),
      load(survivor),
    ]);
    await killed;
    const [broken, whole] = loads;
    assert.ok(broken.broken > 0, 'it was killed under load');
    assert.equal(whole.accepted.length, EMAILS, 'the other one noticed nothing');
    const accepted = loads.flatMap((one) => one.accepted);
    await waitForArrivals(mx, accepted);
    await waitForEmptyQueue(survivor);
    const tookMs = performance.now() - killedAtMs;
    t.diagnostic(
      `taken over and finished after ${Math.round(tookMs)} ms, ${duplicates(arrivals(mx))} duplicates`,
    );
    assert.ok(tookMs < 60_000, `it took ${tookMs} ms`);
    await assertSettled(survivor, accepted);
    // Only what was between its dot and its settled reply may come twice: on a busy machine, more.
    assert.ok(duplicates(arrivals(mx)) <= EMAILS / 5, `${duplicates(arrivals(mx))} duplicates`);
    const rows = await waitFor(async () => survivor.sql('select 1 from nodes'), {
      what: 'the nodes',
    });
    assert.equal(rows.length, 1, 'the dead one is forgotten');
  });

  test('the mail of a frozen node is reclaimed, and on resuming before the final dot it sends and writes nothing', async (t) => {
    const release = Promise.withResolvers<void>();
    const phases = { data_command: { after: release.promise, reply: '354 Send the message' } };
    await using scene = await newNodes({ phases });
    const { nodes, mx, key } = scene;
    const [frozen, other] = nodes;
    const ids = await Promise.all(
      BODIES.map((html, index) => frozen.send({ from: FROM, to: to(index), html }, { key })),
    );
    const atData = () => mx.sessions.filter(({ lines }) => lines.includes('C: DATA'));
    await waitFor(() => atData().length === 2, { what: 'DATA of the first node' });
    const sessions = atData();
    const before = (await other.sql('select id from nodes')).map(({ id }) => id);
    process.kill(-frozen.pid, 'SIGSTOP');
    const frozenAtMs = performance.now();
    mx.set({});

    await waitFor(() => mx.messages.length === 2, { what: 'the other node' });
    await waitForEmptyQueue(other);
    t.diagnostic(`taken over after ${Math.round(performance.now() - frozenAtMs)} ms`);
    process.kill(-frozen.pid, 'SIGCONT');
    release.resolve();
    await waitFor(() => sessions.every(({ ended }) => ended), {
      what: 'the woken node to hang up',
    });
    assert.equal(mx.messages.length, 2, 'one copy of each');
    assert.ok(
      !sessions.some(({ lines }) => lines.some((line) => line.startsWith('C: ('))),
      'no dot',
    );

    const isBack = async () => {
      const present = await other.sql('select id from nodes');
      return present.length === 2 && present.some(({ id }) => !before.includes(id));
    };
    await waitFor(isBack, { what: 'the woken node to begin anew' });
    await assertSettled(other, ids);
    const types = await other.sql(
      `select type, count(*)::int from events where subject_id = any($1) group by 1 order by 1`,
      [ids],
    );
    assert.deepEqual(types, [
      { type: 'email.delivered', count: 2 },
      { type: 'email.queued', count: 2 },
    ]);
    const next = await frozen.send({ from: FROM, to: to(3) }, { key });
    await frozen.waitForStatus(next, 'delivered', { key });
  });

  test('a database outage of 18 s ends no node, and mail delivered meanwhile is settled and not sent again', async (t) => {
    const release = Promise.withResolvers<void>();
    await using scene = await newNodes({
      phases: { data: { after: release.promise, reply: '250 2.0.0 Taken' } },
    });
    const { nodes, mx, key, database } = scene;
    // Two connections per node wait for their replies, and so do the emails behind them.
    const ids = await Promise.all(
      [...nodes, ...nodes, ...nodes, ...nodes].map((node, index) =>
        node.send({ from: FROM, to: to(index) }, { key }),
      ),
    );
    await waitFor(() => mx.messages.length === 4, { what: 'four messages up to their dots' });
    const before = await nodes[0].sql('select id from nodes order by id');

    await database.proxy.refuse();
    release.resolve();
    const responses = await Promise.all(
      nodes.map((node) =>
        node.request('POST', '/v1/emails', {
          key,
          body: { from: FROM, to: to(9), subject: 'Hello', text: 'Hello' },
        }),
      ),
    );
    for (const response of responses) {
      assert.equal(response.status, 503);
      assert.match(response.body.error.message, /nothing was accepted/);
      assert.ok(Number(response.headers.get('retry-after')) > 0);
    }
    const missed = (logs: string): number => logs.split('no heartbeat').length - 1;
    await waitFor(() => nodes.every(({ logs }) => missed(logs) >= HEARTBEATS), {
      what: `${HEARTBEATS} missed heartbeats of each node`,
    });

    await database.proxy.heal();
    const healedAtMs = performance.now();
    await waitForEmptyQueue(nodes[0]);
    t.diagnostic(`settled ${Math.round(performance.now() - healedAtMs)} ms after the outage`);
    await assertSettled(nodes[0], ids);
    const next = await nodes[1].send({ from: FROM, to: to(3) }, { key });
    await nodes[1].waitForStatus(next, 'delivered', { key });
    t.diagnostic(`delivering ${Math.round(performance.now() - healedAtMs)} ms after the outage`);
    assert.equal(duplicates(arrivals(mx)), 0);
    assert.deepEqual(await nodes[0].sql('select id from nodes order by id'), before);
    for (const { logs } of nodes)
      assert.doesNotMatch(logs, /stopped its heartbeat|was expired while/);
  });

  for (const hours of [1, -1]) {
    const jump = hours > 0 ? 'forward' : 'back';
    test(`when a clock jumps ${jump} by an hour, no mail is reclaimed, lost or sent twice`, async () => {
      const release = Promise.withResolvers<void>();
      await using scene = await newNodes({
        phases: { data: { after: release.promise, reply: '250 2.0.0 Taken' } },
      });
      const { nodes, mx, key } = scene;
      const ids = await Promise.all(
        [...nodes, ...nodes, ...nodes, ...nodes].map((node, index) =>
          node.send({ from: FROM, to: to(index) }, { key }),
        ),
      );
      await waitFor(() => mx.messages.length === 4, { what: 'four messages up to their dots' });
      const leases = 'select email_id, holder, claim from queue order by email_id';
      const before = await nodes[0].sql(leases);
      const readHeartbeats = async (): Promise<Map<string, number>> => {
        const rows = await nodes[0].sql('select id, beat::int from nodes');
        return new Map(rows.map(({ id, beat }) => [id, beat]));
      };

      const atJump = await readHeartbeats();
      await nodes[0].clock.advance({ hours });
      await waitFor(
        async () => {
          const now = await readHeartbeats();
          return [...atJump].every(([id, beat]) => (now.get(id) ?? 0) >= beat + HEARTBEATS);
        },
        { what: `${HEARTBEATS} heartbeats of each node`, timeoutMs: 60_000 },
      );
      assert.deepEqual(await nodes[0].sql(leases), before, 'every node keeps its leases');
      release.resolve();
      const { accepted } = await runLoad(nodes[1], { key, count: 30, from: FROM, to });
      assert.equal(accepted.length, 30);
      await waitForArrivals(mx, [...ids, ...accepted]);
      await waitForEmptyQueue(nodes[0]);
      await assertSettled(nodes[0], [...ids, ...accepted]);
      assert.equal(duplicates(arrivals(mx)), 0);
      assert.deepEqual(
        [...(await readHeartbeats()).keys()].toSorted(),
        [...atJump.keys()].toSorted(),
      );
      for (const { logs } of nodes)
        assert.doesNotMatch(logs, /stopped its heartbeat|was expired while/);
    });
  }
});
