/** Requests by operation: what compiles, where they go, and the events of a stream. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call } from './client.ts';
import { takeEvents } from './stream/event-stream.ts';
import { methodOf, pathOf, queryText } from './operations.ts';

test('an operation has its method and its path, with encoded values', () => {
  assert.equal(methodOf('deleteSuppression'), 'DELETE');
  const path = pathOf('deleteSuppression', { address: 'a/b@acme.test' });
  assert.equal(path, '/v1/suppressions/a%2Fb%40acme.test');
  const replay = pathOf('getWebhookReplay', { id: 'w', replay_id: 'r' });
  assert.equal(replay, '/v1/webhooks/w/replays/r');
  assert.equal(queryText({ q: 'a b', after: undefined, status: '', limit: 0 }), '?q=a+b&limit=0');
  assert.equal(queryText({}), '');
});

test('a request that the API does not have does not compile', () => {
  const never = async (): Promise<void> => {
    // @ts-expect-error no such operation
    await call('getDomian');
    // @ts-expect-error its path needs an id
    await call('getDomain');
    // @ts-expect-error no such parameter in the path
    await call('getDomain', { path: { id: 'd', name: 'x' } });
    // @ts-expect-error no such parameter
    await call('listDomains', { query: { page: 1 } });
    // @ts-expect-error it takes no parameters
    await call('listViews', { query: { limit: 1 } });
    // @ts-expect-error no such value
    await call('getStats', { query: { granularity: 'minute' } });
    // @ts-expect-error the body has a name
    await call('createDomain', { body: {} });
    // @ts-expect-error no such field in the result
    void (await call('getDomain', { path: { id: 'd' } })).nmae;
    const domain = await call('getDomain', { path: { id: 'd' } });
    assert.ok(domain.name satisfies string);
  };
  assert.equal(typeof never, 'function');
});

test('events are taken from a stream as far as they are complete', () => {
  const event = (id: string) => `id: ${id}\nevent: e\ndata: {"id":\ndata: "${id}"}\n\n`;
  const first = takeEvents(`: ping\n\n${event('a')}${event('b').slice(0, 20)}`);
  assert.deepEqual([first.events, first.cursor], [[{ id: 'a' }], 'a']);
  const second = takeEvents(first.rest + event('b').slice(20));
  assert.deepEqual(second, { events: [{ id: 'b' }], cursor: 'b', rest: '' });
  const heartbeat = takeEvents(': heartbeat\nid: c\n\n');
  assert.deepEqual(heartbeat, { events: [], cursor: 'c', rest: '' });
});
