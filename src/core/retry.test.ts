import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAIL_LIFETIME_S, mailRetryDelayMs, webhookRetryDelayMs } from './retry.ts';

const MINUTE_MS = 60_000;
/** In the middle: no jitter. */
const EVEN = 0.5;

test('mail is tried again after 1, 4, 10, 15, 30 min, 1, 2, 4 h, then every 4 h', () => {
  const minutes = Array.from({ length: 10 }, (_, index) =>
    Math.round(mailRetryDelayMs(index + 1, 'live', EVEN) / MINUTE_MS),
  );
  assert.deepEqual(minutes, [1, 4, 10, 15, 30, 60, 120, 240, 240, 240]);
});

test('a wait differs by at most 15 %, so that what failed together does not return together', () => {
  assert.equal(mailRetryDelayMs(1, 'live', 0), 51_000);
  assert.equal(mailRetryDelayMs(1, 'live', 0.999_999), 69_000);
});

test('a test key sees its retries after seconds, with growing waits', () => {
  const seconds = [1, 2, 3, 4].map((n) => mailRetryDelayMs(n, 'test', EVEN) / 1000);
  assert.deepEqual(seconds, [2, 4, 8, 16]);
  assert.equal(mailRetryDelayMs(1_000, 'test', EVEN), 4 * 60 * MINUTE_MS);
});

test('mail is given up after three days', () => {
  assert.equal(MAIL_LIFETIME_S, 72 * 3600);
});

test('a webhook has ten attempts over about three days', () => {
  const waits = Array.from({ length: 9 }, (_, index) => webhookRetryDelayMs(index + 1, EVEN));
  assert.deepEqual(
    waits.map((ms) => (ms ?? 0) / 1000),
    [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400],
  );
  assert.equal(webhookRetryDelayMs(10, EVEN), null);
});
