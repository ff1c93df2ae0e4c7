/** The log of webhook deliveries: filters, statistics, the replay of a selection, and tests with examples. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';
import { type Receiver, startReceiver, verified } from '../support/webhook-receiver.ts';

const service = await sharedService();

const get = async (path: string) => (await service.request('GET', path)).body;

async function registered(receiver: Receiver, body: object = {}) {
  const { url } = receiver;
  const created = await service.request('POST', '/v1/webhooks', { body: { url, ...body } });
  assert.equal(created.status, 201, created.text);
  const { id, signing_secret: secret } = created.body;
  return {
    id: String(id),
    secret: String(secret),
    path: `/v1/webhooks/${id}`,
    [Symbol.asyncDispose]: async () => {
      await service.request('DELETE', `/v1/webhooks/${id}`);
    },
  };
}

type Delivery = { id: string; type: string; recipient: string | null; email_id: string | null };

test('deliveries are found by recipient, email, response and time', async () => {
  await using receiver = await startReceiver(({ event }) =>
    event.type === 'email.bounced' ? { status: 503, body: 'busy' } : 204,
  );
  await using webhook = await registered(receiver, {
    events: ['email.delivered', 'email.bounced'],
  });
  const to = ['delivered+one@simulator.test', 'bounced+two@simulator.test'];
  const id = await service.send({ to });
  await service.send({ to: 'delivered+three@simulator.test' });
  await receiver.waitForCount(3);
  const list = async (query: string): Promise<Delivery[]> =>
    (await get(`${webhook.path}/deliveries?${query}`)).data;
  await waitFor(
    async () => (await list('code=none')).length + (await list('code=5xx')).length === 1,
    {
      what: 'the failed attempt',
    },
  );
  const recipientsOf = async (query: string) =>
    (await list(query))
      .map(({ recipient }) => String(recipient))
      .toSorted((a, b) => a.localeCompare(b));
  assert.deepEqual(await recipientsOf(`email_id=${id}`), to.toSorted());
  assert.deepEqual(
    await recipientsOf(`recipient=${encodeURIComponent('Delivered+One@simulator.test')}`),
    [to[0]],
  );
  assert.deepEqual(await recipientsOf('code=503'), [to[1]]);
  assert.deepEqual(await recipientsOf('code=5xx&status=pending'), [to[1]]);
  assert.deepEqual(await recipientsOf('code=500'), []);
  await waitFor(async () => (await list('code=2xx')).length === 2, { what: 'the successes' });
  const [first] = await list(`email_id=${id}&type=email.bounced`);
  assert.equal(first?.email_id, id);
  const now = new Date();
  const [before, later] = [now.getTime() - 3_600_000, now.getTime() + 3_600_000].map((ms) =>
    new Date(ms).toISOString(),
  );
  assert.equal((await list(`since=${before}&until=${later}`)).length, 3);
  assert.deepEqual(await list(`since=${later}`), []);
  assert.deepEqual(await list(`until=${before}`), []);
});

test('a filter that is not valid is refused with its field', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver);
  const wrong: [string, RegExp][] = [
    ['code=600', /^code: /],
    ['code=5x', /^code: /],
    ['recipient=nobody', /^recipient: /],
    ['email_id=7', /^email_id: /],
    ['since=yesterday', /^since: /],
    [`recipient=jo@example.com&email_id=${webhook.id}`, /^recipient: .*email_id/],
  ];
  for (const [query, message] of wrong) {
    const { status, body } = await service.request('GET', `${webhook.path}/deliveries?${query}`);
    assert.equal(status, 422, query);
    assert.match(body.error.message, message);
  }
});

test('a failing webhook has its last failure, and statistics group the failures by response', async () => {
  // No attempt of the schedule comes between those of this test.
  await using receiver = await startReceiver(({ event }) => ({
    status: 500,
    headers: { 'retry-after': '3600' },
    body: `{"error":"database is locked","row":${event.created_at.slice(-4, -1)}}`,
  }));
  await using webhook = await registered(receiver, { events: ['email.delivered'] });
  for (let sent = 0; sent < 2; sent += 1) await service.send();
  await receiver.waitForCount(2);
  const failing = await waitFor(
    async () => {
      const found = await get(webhook.path);
      return found.failures >= 2 && found;
    },
    { what: 'both failures' },
  );
  assert.equal(failing.last_failure.status, 500);
  assert.match(failing.last_failure.answer, /^\{"error":"database is locked"/);
  assert.ok(failing.last_failure.at >= failing.failing_since.slice(0, 10));
  const statistics = await get(`${webhook.path}/statistics?intervals=4`);
  const { delivered, failed, waiting, pending, failures, intervals } = statistics;
  assert.deepEqual([delivered, failed, waiting, pending], [0, 2, 0, 2]);
  assert.equal(failures.length, 1);
  assert.deepEqual([failures[0].status, failures[0].deliveries], [500, 2]);
  assert.match(failures[0].answer, /database is locked/);
  assert.deepEqual(
    intervals.map((one: { failed: number }) => one.failed),
    [0, 0, 0, 2],
  );
  assert.ok(statistics.next_attempt_at);
  assert.equal(statistics.is_partial, false);

  receiver.behaviour = 200;
  const deliveries: Delivery[] = (await get(`${webhook.path}/deliveries`)).data;
  const ids = deliveries.map(({ id }) => id);
  const replayed = await service.request('POST', `${webhook.path}/deliveries/replay`, {
    body: { ids: [...ids, webhook.id] },
  });
  assert.deepEqual([replayed.status, replayed.body.queued], [202, 2], replayed.text);
  await waitFor(
    async () => (await get(`${webhook.path}/deliveries?status=delivered`)).data.length === 2,
    {
      what: 'the replayed deliveries',
    },
  );
  const healthy = await get(webhook.path);
  assert.deepEqual(
    [healthy.failures, healthy.last_failure, healthy.suspended_until],
    [0, null, null],
  );
  const after = await get(`${webhook.path}/statistics`);
  assert.deepEqual([after.delivered, after.pending, after.failures.length], [2, 0, 0]);
  assert.ok(after.latency_p95_ms > 0);
});

test('a selection of deliveries has 1 to 500 ids', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver);
  for (const ids of [[], ['x'], Array.from({ length: 501 }, () => webhook.id)]) {
    const path = `${webhook.path}/deliveries/replay`;
    const { status, body } = await service.request('POST', path, { body: { ids } });
    assert.equal(status, 422);
    assert.match(body.error.message, /^ids/);
  }
});

test('a test sends an example of the chosen type, which is not in the event stream', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver, { events: ['domain.verified'] });
  const sendTest = (body: object) => service.request('POST', `${webhook.path}/test`, { body });
  const { status, body } = await sendTest({ type: 'email.bounced' });
  assert.equal(status, 200, JSON.stringify(body));
  const [received] = receiver.received;
  verified(webhook.secret, received!);
  assert.deepEqual(received!.event, body.payload);
  assert.deepEqual([body.type, body.payload.type], ['email.bounced', 'email.bounced']);
  assert.equal(received!.event.data.recipient, 'jo@example.com');
  const events = await get('/v1/events?types=email.bounced');
  assert.ok(!events.data.some(({ id }: { id: string }) => id === body.id));
  await service.request('POST', `${webhook.path}/deliveries/${body.id}/replay`);
  await receiver.waitForCount(2);
  assert.deepEqual(receiver.received[1]!.event, received!.event, 'a replay has the same bytes');
  assert.equal((await sendTest({ type: 'webhook.disabled' })).status, 422);
});

test('all matches of a filter are replayed by one request, which says how far it is', async () => {
  await using receiver = await startReceiver();
  await using webhook = await registered(receiver, { events: ['email.queued', 'email.delivered'] });
  const since = new Date(Date.now() - 60_000).toISOString();
  const sent = [await service.send({}), await service.send({})];
  await Promise.all(sent.map((id) => service.waitForStatus(id, 'delivered')));
  const delivered = async (type: string): Promise<number> =>
    (await get(`${webhook.path}/deliveries?status=delivered&type=${type}`)).data.length;
  await waitFor(
    async () => (await delivered('email.queued')) + (await delivered('email.delivered')) === 4,
    { what: 'the deliveries' },
  );
  const replay = async (filter: object) => {
    const body = { since, until: new Date(Date.now() + 60_000).toISOString(), ...filter };
    return service.request('POST', `${webhook.path}/replay`, { body });
  };
  const ended = async ({ status, text, body }: Awaited<ReturnType<typeof replay>>) => {
    assert.equal(status, 202, text);
    return waitFor(
      async () => {
        const found = await get(`${webhook.path}/replays/${body.id}`);
        return found.status === 'completed' && found;
      },
      { what: 'the end of the replay' },
    );
  };
  const received = receiver.received.length;
  const all = await ended(await replay({ type: 'email.delivered', code: '2xx' }));
  assert.deepEqual([all.type, all.code, all.total, all.queued], ['email.delivered', '2xx', 2, 2]);
  await waitFor(async () => receiver.received.length === received + 2, { what: 'the replays' });
  const again = receiver.received.slice(received);
  assert.ok(again.every(({ event }) => event.type === 'email.delivered'));
  const none = await ended(await replay({ code: 'none' }));
  assert.deepEqual([none.total, none.queued], [0, 0]);
  assert.equal((await replay({ code: 'many' })).status, 422);
  assert.equal((await replay({ type: 'moon' })).status, 422);
});
