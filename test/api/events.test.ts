/** The stream of events: pages, filters, cursors, and the response that stays open. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure, TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { openEventStream } from '../support/event-stream.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

type Body = ApiResponse['body'];

async function page(query: string, key = service.testKey): Promise<Body> {
  const response = await service.request('GET', `/v1/events?${query}`, { key });
  assert.equal(response.status, 200, response.text);
  return response.body;
}

/** The cursor after every event so far. Other databases of the server may hold the last ones back for an instant. */
async function latest(key?: string): Promise<string> {
  await waitFor(areAllShown, { what: 'every event to be in the stream' });
  return (await page('after=latest', key)).cursor;
}

async function areAllShown(): Promise<boolean> {
  const [row] = await service.sql(
    'select not exists (select from events where xact_id >= stream_horizon()) as shown',
  );
  return row.shown;
}

/** From a cursor on, once so many have come. */
async function eventsAfter(cursor: string, count: number, query = ''): Promise<Body[]> {
  const look = async () => {
    const { data } = await page(`after=${cursor}&${query}`);
    return data.length >= count && data;
  };
  return waitFor<Body[]>(look, { what: `${count} events` });
}

/** A project with full access to its test environment. */
async function otherProject(name: string): Promise<string> {
  await service.cliJson('projects', 'create', name);
  return (await service.cliJson('keys', 'create', '--environment', 'test', '--project', name)).key;
}

// Before there is a second project, which would have to be named.
const liveKey = await service.liveKey();

async function limitedKey(body: object): Promise<{ id: string; key: string }> {
  const response = await service.request('POST', '/v1/api-keys', { body: { name: 'k', ...body } });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

test('every event is returned once, in order, with the data and id of its webhook', async () => {
  const start = await latest();
  const id = await service.send({ metadata: { order: '4711' } });
  await service.waitForStatus(id, 'delivered');
  const [queued, delivered] = await eventsAfter(start, 2);
  const { body: timeline } = await service.request('GET', `/v1/emails/${id}/events`);
  for (const [index, event] of [queued, delivered].entries()) {
    const { object, id: eventId, type, created_at, number, cursor, data, ...more } = event;
    assert.deepEqual(more, {});
    assert.match(eventId, UUID_V7);
    assert.match(created_at, TIME);
    const same = timeline.data[index];
    assert.deepEqual(
      [object, eventId, type, created_at, number, data],
      ['event', same.id, same.type, same.created_at, same.number, same.data],
    );
    assert.ok(typeof cursor === 'string' && data.metadata.order === '4711');
  }
  assert.deepEqual([queued.type, delivered.type], ['email.queued', 'email.delivered']);
  const next = await eventsAfter(queued.cursor, 1);
  assert.deepEqual(next, [delivered], 'every event has the cursor to go on from');
});

test('pages are read by cursor to the end', async () => {
  const start = await latest();
  for (let n = 0; n < 3; n += 1) await service.waitForStatus(await service.send(), 'delivered');
  const whole = await eventsAfter(start, 6);
  const found: Body[] = [];
  let at: Body = { cursor: start, has_more: true };
  // A page may be held back for an instant by other databases of the server.
  while (at.has_more || found.length < whole.length) {
    at = await page(`after=${at.cursor}&limit=4`);
    assert.ok(at.data.length <= 4);
    found.push(...at.data);
  }
  assert.deepEqual(found, whole);
  const end = await page(`after=${at.cursor}`);
  assert.deepEqual([end.data, end.has_more], [[], false]);
  const all = await page('limit=1');
  assert.ok(all.data.length === 1 && all.has_more, 'without a cursor it begins with the oldest');
});

test('events can be filtered by type and email', async () => {
  const start = await latest();
  const [one, other] = [await service.send(), await service.send()];
  for (const id of [one, other]) await service.waitForStatus(id, 'delivered');
  const delivered = await eventsAfter(start, 2, 'types=email.delivered,email.bounced');
  const ids = delivered.map(({ data }): string => data.email_id);
  assert.deepEqual(ids.toSorted(), [one, other].toSorted());
  const about = await eventsAfter(start, 2, `email_id=${other}`);
  assert.deepEqual(
    about.map(({ type, number }) => [type, number]),
    [
      ['email.queued', 1],
      ['email.delivered', 2],
    ],
  );
  assert.deepEqual((await page(`email_id=${UNKNOWN_ID}`)).data, []);
});

test('invalid query parameters are reported by name', async () => {
  const cases: [query: string, status: number, says: RegExp][] = [
    [
      'types=email.deliverd',
      422,
      /^types: there is no event "email.deliverd"; did you mean email.delivered\?/,
    ],
    ['email_id=7', 422, /^email_id: is not the id of an email/],
    ['limit=0', 422, /^limit: /],
    ['after=nonsense', 422, /^after: is not a cursor of this project and environment/],
    ['before=x', 422, /before/],
  ];
  for (const [query, status, says] of cases) {
    assertFailure(
      await service.request('GET', `/v1/events?${query}`),
      status,
      'validation_error',
      says,
    );
  }
  const cursor = await latest();
  const cut = `after=${cursor.slice(0, -1)}`;
  assertFailure(await service.request('GET', `/v1/events?${cut}`), 422, 'validation_error');
});

test('a key reads the events of its project and environment, and no cursor of others', async () => {
  const cursor = await latest();
  await service.waitForStatus(await service.send(), 'delivered');
  const strangers = [await otherProject('Other'), liveKey];
  for (const key of strangers) {
    assert.deepEqual((await page('', key)).data, []);
    const response = await service.request('GET', `/v1/events?after=${cursor}`, { key });
    assertFailure(response, 422, 'validation_error', /not a cursor of this project/);
  }
  const { key } = await limitedKey({ permission: 'sending_access' });
  const refused = await service.request('GET', '/v1/events', { key });
  assertFailure(refused, 403, 'authorization_error');
});

test('a key for one domain reads events about that domain and its mail', async () => {
  for (const name of ['one.test', 'x.one.test']) {
    const { body } = await service.request('POST', '/v1/domains', { body: { name } });
    await service.request('POST', `/v1/domains/${body.id}/verify`);
  }
  const { key } = await limitedKey({ domain: 'one.test' });
  const start = await latest(key);
  const own = await service.send({ from: '"@one.test" <hello@one.test>' });
  const others = ['hello@x.one.test', '"a@one.test" <hello@acme.test>'];
  for (const from of others) await service.waitForStatus(await service.send({ from }), 'delivered');
  await service.request('POST', '/v1/suppressions', { body: { address: 'no@one.test' } });
  await service.waitForStatus(own, 'delivered');
  const seen = async () => (await page(`after=${start}`, key)).data as Body[];
  await waitFor(async () => (await seen()).length >= 2, { what: 'its own events' });
  assert.deepEqual(
    (await seen()).map(({ data }) => data.email_id),
    [own, own],
  );
  const about = (await page('', key)).data.map(({ type, data }: Body) => [type, data.name]);
  assert.deepEqual(about.slice(0, 2), [
    ['domain.created', 'one.test'],
    ['domain.verified', 'one.test'],
  ]);
});

test('a stream stays open, resumes after the last event, and has the events of the pages', async () => {
  const start = await latest();
  const first = await service.send();
  await service.waitForStatus(first, 'delivered');
  const options = { key: service.testKey };
  let lastEventId: string;
  {
    await using stream = await openEventStream(service.url, {
      ...options,
      path: `/v1/events?after=${start}`,
    });
    assert.equal(stream.status, 200);
    assert.match(stream.headers.get('content-type') ?? '', /^text\/event-stream\b/);
    assert.match(stream.headers.get('x-request-id') ?? '', UUID_V7);
    await stream.waitForCount(2);
    const second = await service.send();
    await service.waitForStatus(second, 'delivered');
    const events = await stream.waitForCount(4);
    const pages = await eventsAfter(start, 4);
    assert.deepEqual(
      events.map(({ data }) => data),
      pages,
    );
    assert.ok(events.every(({ id, type, data }) => id === data.cursor && type === data.type));
    lastEventId = events[2]!.id;
  }
  await using resumed = await openEventStream(service.url, { ...options, lastEventId });
  const [event] = await resumed.waitForCount(1);
  assert.deepEqual([event!.data.type, event!.data.cursor], ['email.delivered', event!.id]);
});

test('a filtered stream has only matching events', async () => {
  const path = '/v1/events?after=latest&types=email.bounced';
  await using stream = await openEventStream(service.url, { key: service.testKey, path });
  await service.waitForStatus(await service.send(), 'delivered');
  await service.send({ to: 'bounced+stream@simulator.test' });
  const [event] = await stream.waitForCount(1);
  assert.equal(event!.type, 'email.bounced');
});

test('a stream ends when its key is revoked', async () => {
  const { id, key } = await limitedKey({});
  await using stream = await openEventStream(service.url, { key });
  assert.equal(stream.status, 200);
  await service.request('DELETE', `/v1/api-keys/${id}`);
  await stream.waitForEnd();
  assert.match(stream.text, /: the key was revoked or changed\n\n$/);
  const again = await openEventStream(service.url, { key });
  assert.equal(again.status, 401);
});

test('a key has a limited number of streams', async () => {
  const { key } = await limitedKey({});
  const open = () => openEventStream(service.url, { key });
  const streams = await Promise.all(Array.from({ length: 10 }, open));
  assert.ok(streams.every(({ status }) => status === 200));
  const refused = await open();
  await refused.waitForEnd();
  assert.equal(refused.status, 503);
  assert.match(refused.text, /10 event streams of this key are open/);
  await streams[0]![Symbol.asyncDispose]();
  const isTaken = async (): Promise<boolean> => {
    const stream = await open();
    if (stream.status === 200) streams.push(stream);
    return stream.status === 200;
  };
  await waitFor(isTaken, { what: 'the place of the stream that ended' });
  for (const stream of streams) await stream[Symbol.asyncDispose]();
});

test('letterhaus events prints the events of the local service', async () => {
  await service.waitForStatus(await service.send(), 'delivered');
  await waitFor(areAllShown, { what: 'every event to be in the stream' });
  const key = ['--key', service.testKey];
  const { code, stdout } = await service.cli(
    'events',
    '--json',
    ...key,
    '--types',
    'email.delivered',
  );
  assert.equal(code, 0);
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line): Body => JSON.parse(line));
  const { data } = await page('types=email.delivered');
  assert.deepEqual(lines, data);
  const text = await service.cli('events', ...key, '--after', data.at(-2).cursor, '--limit', '1');
  assert.match(text.stdout, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}email\.\w+ +\S.*Hello\n$/);
  const wrong = await service.cli('events', ...key, '--after', 'nonsense');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /is not a cursor of this project/);
});

test('a stop ends streams before the timeout for slow requests', async () => {
  await using stream = await openEventStream(service.url, { key: service.testKey });
  assert.equal(await service.stop(), 0);
  await stream.waitForEnd();
  assert.match(stream.text, /: the service is stopping\n\n$/);
  assert.doesNotMatch(service.logs, /"level":[56]0/);
});
