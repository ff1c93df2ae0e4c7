/**
 * Shows which endpoint's deliveries a worker claims next, without a database and without requests.
 * test/isolation/webhooks.test.ts shows what other projects notice.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EndpointClaim, EndpointQueue } from './endpoint-queue.ts';

const endpoint = (endpointId: string, lowWaterMs = 0, projectId = 'p') => ({
  projectId,
  endpointId,
  lowWaterMs,
});
const quickly = { hasWaited: false };

/** Returns a full claim, as for an endpoint with an endless backlog. */
const full = (claims: readonly EndpointClaim[]) =>
  claims.flatMap(({ endpointId, lowWaterMs, max }) =>
    Array.from({ length: max }, () => ({ endpointId, dueAtMs: lowWaterMs + 1 })),
  );

const maxOf = (endpoints: EndpointQueue, endpointId: string) =>
  endpoints.planClaims(64).find((planClaims) => planClaims.endpointId === endpointId)?.max ?? 0;

test('an endpoint that does not respond has at most two running attempts', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('dead'));
  const claims = endpoints.planClaims(64);
  assert.deepEqual(claims, [{ ...endpoint('dead'), max: 2 }]);
  endpoints.recordClaim(claims, full(claims));
  endpoints.add(endpoint('dead'));
  assert.deepEqual(endpoints.planClaims(64), []);
  assert.equal(endpoints.canClaim, false);
});

test('fast successes widen the window of an endpoint, slow ones do not, failures halve it', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('a'));
  for (let round = 0; round < 8; round += 1) {
    const claims = endpoints.planClaims(64);
    endpoints.recordClaim(claims, full(claims));
    for (const one of full(claims)) endpoints.recordEnd(one, 'quick', quickly);
  }
  assert.equal(maxOf(endpoints, 'a'), 32);
  const claims = endpoints.planClaims(64);
  endpoints.recordClaim(claims, full(claims));
  endpoints.recordEnd({ endpointId: 'a' }, 'slow', quickly);
  assert.equal(maxOf(endpoints, 'a'), 1);
  for (let failed = 0; failed < 31; failed += 1)
    endpoints.recordEnd({ endpointId: 'a' }, 'failed', quickly);
  assert.equal(maxOf(endpoints, 'a'), 1);
});

test('endpoints are served in rotation when slots are scarce', () => {
  const endpoints = new EndpointQueue();
  for (const name of ['a', 'b', 'c']) endpoints.add(endpoint(name));
  const claims = Array.from({ length: 3 }, () =>
    endpoints.planClaims(2).map(({ endpointId }) => endpointId),
  );
  assert.deepEqual(claims, [
    ['a', 'b'],
    ['c', 'a'],
    ['b', 'c'],
  ]);
  assert.deepEqual(endpoints.planClaims(0), []);
});

test('an endpoint with fewer due deliveries than requested is skipped until something is due', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('a', 10));
  const claims = endpoints.planClaims(64);
  endpoints.recordClaim(claims, [{ endpointId: 'a', dueAtMs: 15 }]);
  assert.deepEqual(endpoints.planClaims(64), []);
  endpoints.add(endpoint('a', 5));
  assert.deepEqual(endpoints.planClaims(64), [{ ...endpoint('a', 5), max: 1 }]);
});

test('an endpoint with more deliveries continues at its position unless an older one appears', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('a', 10));
  const claims = endpoints.planClaims(64);
  endpoints.recordClaim(
    claims,
    claims.flatMap(({ max }) =>
      Array.from({ length: max }, () => ({ endpointId: 'a', dueAtMs: 50 })),
    ),
  );
  endpoints.recordEnd({ endpointId: 'a' }, 'quick', quickly);
  assert.equal(endpoints.planClaims(64)[0]?.lowWaterMs, 50);
  endpoints.add(endpoint('a', -Infinity));
  assert.equal(endpoints.planClaims(64)[0]?.lowWaterMs, -Infinity);
});

/** Then all claimed attempts stay without a response for a second. */
function allWait(endpoints: EndpointQueue, max: number): number {
  const claims = endpoints.planClaims(max);
  const claimed = full(claims);
  endpoints.recordClaim(claims, claimed);
  for (const one of claimed) endpoints.markWaiting(one);
  return claimed.length;
}

test('projects are served in turn, first the one with the fewest running attempts', () => {
  const endpoints = new EndpointQueue();
  for (let at = 0; at < 100; at += 1) endpoints.add(endpoint(`many${at}`, 0, 'large'));
  const claims = endpoints.planClaims(64);
  endpoints.recordClaim(claims, full(claims));
  for (const name of ['one', 'two']) endpoints.add(endpoint(name, 0, 'small'));
  assert.deepEqual(
    endpoints.planClaims(2).map(({ endpointId }) => endpointId),
    ['one', 'two'],
  );
});

test('waiting attempts are limited for each project, and others can claim', () => {
  const endpoints = new EndpointQueue();
  for (let at = 0; at < 350; at += 1) endpoints.add(endpoint(`slow${at}`, 0, 'large'));
  let waiting = 0;
  for (let round = 0; round < 20; round += 1) waiting += allWait(endpoints, 64);
  assert.ok(waiting >= 250 && waiting < 250 + 64, `${waiting} wait`);
  assert.equal(endpoints.canClaim, false);
  endpoints.add(endpoint('other', 0, 'small'));
  assert.deepEqual(
    endpoints.planClaims(64).map(({ endpointId }) => endpointId),
    ['other'],
  );
});

test('a quick endpoint can claim while slow endpoints of its project cannot', () => {
  const endpoints = new EndpointQueue();
  endpoints.add(endpoint('good'));
  const claims = endpoints.planClaims(1);
  endpoints.recordClaim(claims, [{ endpointId: 'good', dueAtMs: 1 }]);
  endpoints.recordEnd({ endpointId: 'good' }, 'quick', quickly);
  endpoints.recordClaim(endpoints.planClaims(1), []);
  for (let at = 0; at < 350; at += 1) endpoints.add(endpoint(`slow${at}`));
  for (let round = 0; round < 20; round += 1) allWait(endpoints, 64);
  assert.equal(endpoints.canClaim, false);
  endpoints.add(endpoint('good'));
  assert.deepEqual(
    endpoints.planClaims(64).map(({ endpointId }) => endpointId),
    ['good'],
  );
});

test('every project can claim while many others wait', () => {
  const endpoints = new EndpointQueue();
  for (let project = 0; project < 6; project += 1) {
    for (let at = 0; at < 200; at += 1) {
      endpoints.add(endpoint(`slow${project}-${at}`, 0, `large${project}`));
    }
  }
  for (let round = 0; round < 60; round += 1) allWait(endpoints, 64);
  assert.equal(endpoints.canClaim, false);
  endpoints.add(endpoint('other', 0, 'small'));
  assert.equal(endpoints.canClaim, true);
});

test('large deliveries of one project leave capacity to other projects', () => {
  const endpoints = new EndpointQueue();
  for (let at = 0; at < 100; at += 1) endpoints.add(endpoint(`large${at}`, 0, 'large'));
  const claims = endpoints.planClaims(64);
  const data = 'x'.repeat(100_000);
  endpoints.recordClaim(
    claims,
    full(claims).map((one) => ({ ...one, data })),
  );
  assert.equal(endpoints.canClaim, false);
  endpoints.add(endpoint('other', 0, 'small'));
  assert.equal(endpoints.canClaim, true);
});
