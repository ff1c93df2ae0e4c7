/** Shows what a response, or the lack of one, means for a delivery and its endpoint. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GuardedResponse } from '../../net/http/guarded-client.ts';
import { outcomeOfResponse } from './response.ts';

const NOW_MS = Date.parse('2026-11-21T08:30:00Z');
const first = { attempts: 0, random: 0.5, nowMs: NOW_MS };

const answered = (status: number, retryAfter: string | null = null): GuardedResponse => ({
  kind: 'response',
  status,
  headers: { retryAfter, contentType: null },
  bodyStart: 'ok',
  bodyComplete: true,
  latencyMs: 12,
});

const failureTexts = (message: string) => ({ message, publicMessage: message });

test('every 2xx is a success', () => {
  for (const status of [200, 202, 204, 299]) {
    assert.equal(outcomeOfResponse(answered(status), first).kind, 'delivered');
  }
});

test('a redirect, an error and a missing response are retried after 5 s', () => {
  const failures: GuardedResponse[] = [
    ...[301, 307, 400, 401, 404, 500, 503].map((status) => answered(status)),
    {
      kind: 'failed',
      reason: 'timeout',
      ...failureTexts('no complete response within 15 s'),
      latencyMs: 1,
    },
  ];
  for (const failure of failures) {
    const { kind, retryMs } = outcomeOfResponse(failure, first);
    assert.deepEqual({ kind, retryMs }, { kind: 'failed', retryMs: 5_000 });
  }
});

test('the tenth failure is the last', () => {
  assert.ok(outcomeOfResponse(answered(500), { ...first, attempts: 8 }).retryMs !== null);
  assert.equal(outcomeOfResponse(answered(500), { ...first, attempts: 9 }).retryMs, null);
  assert.equal(outcomeOfResponse(answered(500, '60'), { ...first, attempts: 9 }).retryMs, null);
});

test('410 ends deliveries to the endpoint', () => {
  assert.equal(outcomeOfResponse(answered(410), first).kind, 'gone');
});

test('Retry-After lengthens the wait, in seconds or as a date, and never shortens it', () => {
  const waitMs = (retryAfter: string) =>
    outcomeOfResponse(answered(429, retryAfter), first).retryMs;
  assert.equal(waitMs('120'), 120_000);
  assert.equal(waitMs('Sat, 21 Nov 2026 08:32:00 GMT'), 120_000);
  assert.equal(waitMs('1'), 5_000);
  assert.equal(waitMs('Sat, 21 Nov 2020 08:32:00 GMT'), 5_000);
  assert.equal(waitMs('soon'), 5_000);
  assert.equal(waitMs('9999999999'), 24 * 3600_000);
});

test('an endpoint with Retry-After is suspended as a whole, for an hour at most', () => {
  const suspendMs = (status: number, after: string) =>
    outcomeOfResponse(answered(status, after), first).suspendMs;
  assert.equal(suspendMs(429, '90'), 90_000);
  assert.equal(suspendMs(503, '90000'), 3600_000);
  assert.equal(suspendMs(500, '90'), 0);
});

test('the log has the response, or the reason why there is none', () => {
  assert.deepEqual(outcomeOfResponse(answered(200), first).attempt, {
    status: 200,
    latency_ms: 12,
    answer: 'ok',
    error: null,
  });
  const message = 'example.com does not exist in DNS';
  const failure: GuardedResponse = {
    kind: 'failed',
    reason: 'dns',
    ...failureTexts(message),
    latencyMs: 3,
  };
  assert.equal(outcomeOfResponse(failure, first).attempt?.error, message);
});
