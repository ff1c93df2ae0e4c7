import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EndpointAsk, EndpointQueue } from './fair-queue.ts';

const endpoint = (endpointId: string, lowWaterMs = 0) => ({
  projectId: 'p',
  endpointId,
  lowWaterMs,
});

/** Answers an ask as an endpoint with an endless backlog would. */
const full = (asks: readonly EndpointAsk[]) =>
  asks.flatMap(({ endpointId, lowWaterMs, room }) =>
    Array.from({ length: room }, () => ({ endpointId, dueAtMs: lowWaterMs + 1 })),
  );

const roomOf = (endpoints: EndpointQueue, endpointId: string) =>
  endpoints.ask(64).find((ask) => ask.endpointId === endpointId)?.room ?? 0;

test('an endpoint that does not respond has at most two attempts under way', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('dead'));
  const asks = endpoints.ask(64);
  assert.deepEqual(asks, [{ ...endpoint('dead'), room: 2 }]);
  endpoints.took(asks, full(asks));
  endpoints.add(endpoint('dead'));
  assert.deepEqual(endpoints.ask(64), []);
  assert.equal(endpoints.hasRoom, false);
});

test('fast successes widen the window of an endpoint, slow ones do not, failures halve it', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('a'));
  for (let round = 0; round < 8; round += 1) {
    const asks = endpoints.ask(64);
    endpoints.took(asks, full(asks));
    for (const { endpointId } of full(asks)) endpoints.finished(endpointId, 'quick');
  }
  assert.equal(roomOf(endpoints, 'a'), 32);
  const asks = endpoints.ask(64);
  endpoints.took(asks, full(asks));
  endpoints.finished('a', 'slow');
  assert.equal(roomOf(endpoints, 'a'), 1);
  for (let failed = 0; failed < 31; failed += 1) endpoints.finished('a', 'failed');
  assert.equal(roomOf(endpoints, 'a'), 1);
});

test('endpoints are served in rotation when there is not room for all', () => {
  const endpoints = new EndpointQueue();
  for (const name of ['a', 'b', 'c']) endpoints.add(endpoint(name));
  const claims = Array.from({ length: 3 }, () =>
    endpoints.ask(2).map(({ endpointId }) => endpointId),
  );
  assert.deepEqual(claims, [
    ['a', 'b'],
    ['c', 'a'],
    ['b', 'c'],
  ]);
  assert.deepEqual(endpoints.ask(0), []);
});

test('an endpoint with fewer due deliveries than requested is skipped until something is due', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('a', 10));
  const asks = endpoints.ask(64);
  endpoints.took(asks, [{ endpointId: 'a', dueAtMs: 15 }]);
  assert.deepEqual(endpoints.ask(64), []);
  endpoints.add(endpoint('a', 5));
  assert.deepEqual(endpoints.ask(64), [{ ...endpoint('a', 5), room: 1 }]);
});

test('an endpoint with more deliveries continues at its position unless an older one appears', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('a', 10));
  const asks = endpoints.ask(64);
  endpoints.took(
    asks,
    asks.flatMap(({ room }) =>
      Array.from({ length: room }, () => ({ endpointId: 'a', dueAtMs: 50 })),
    ),
  );
  endpoints.finished('a', 'quick');
  assert.equal(endpoints.ask(64)[0]?.lowWaterMs, 50);
  endpoints.add(endpoint('a', -Infinity));
  assert.equal(endpoints.ask(64)[0]?.lowWaterMs, -Infinity);
});
