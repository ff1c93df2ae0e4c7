/** The schedules of retries, which are compared with the tables of the documentation. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  MAIL_LIFETIME_S,
  MAIL_RETRY_WAITS_MS,
  mailRetryDelayMs,
  parseRetryWaitMs,
  simulatedRetryDelayMs,
  webhookRetryDelayMs,
} from './retry.ts';
import { MINUTE_MS } from '../lib/units.ts';

/** The middle of the random range: no jitter. */
const EVEN = 0.5;

/** Returns a page of the documentation, on one line. */
function readPage(name: string): string {
  const path = join(import.meta.dirname, '../../docs', name);
  return readFileSync(path, 'utf8').replaceAll(/\s+/g, ' ');
}

test('the retry schedule of mail matches docs/delivery.md, and its last wait repeats', () => {
  const minutes = MAIL_RETRY_WAITS_MS.map((waitMs) => waitMs / MINUTE_MS);
  const short = minutes.filter((wait) => wait < 60).join(', ');
  const long = minutes.filter((wait) => wait >= 60).map((wait) => wait / 60);
  const schedule = `after ${short} minutes, ${long.join(', ')} hours, then every ${long.at(-1)} hours`;
  assert.ok(readPage('delivery.md').includes(schedule), schedule);
  const delays = minutes.map((_, index) => mailRetryDelayMs(index + 1, EVEN));
  assert.deepEqual(delays, MAIL_RETRY_WAITS_MS);
  const { length } = MAIL_RETRY_WAITS_MS;
  assert.equal(mailRetryDelayMs(length + 1, EVEN), MAIL_RETRY_WAITS_MS.at(-1));
});

test('a wait varies by at most 15 %, so that emails that failed together are not retried together', () => {
  assert.equal(mailRetryDelayMs(1, 0), 51_000);
  assert.equal(mailRetryDelayMs(1, 0.999_999), 69_000);
});

test('the waits can be configured, and a slow deferral waits for at least half an hour', () => {
  const waitsMs = [10_000, 2 * 60 * MINUTE_MS];
  const waits = (slowly: boolean) =>
    [1, 2, 3].map((n) => mailRetryDelayMs(n, EVEN, { waitsMs, slowly }) / 1000);
  assert.deepEqual(waits(false), [10, 7200, 7200]);
  assert.deepEqual(waits(true), [1800, 7200, 7200]);
});

test('a wait is given in seconds, minutes or hours, from ten seconds to a day', () => {
  for (const [text, seconds] of [
    ['10s', 10],
    ['90s', 90],
    ['15m', 900],
    ['24h', 86_400],
  ] as const) {
    assert.equal(parseRetryWaitMs(text), seconds * 1000);
  }
  for (const text of ['', '9s', '25h', '5', '1d', '-1m', '1.5h', 'm']) {
    assert.equal(parseRetryWaitMs(text), null, text);
  }
});

test('with a test key retries come after seconds, with growing waits', () => {
  const seconds = [1, 2, 3, 4].map((n) => simulatedRetryDelayMs(n, EVEN) / 1000);
  assert.deepEqual(seconds, [2, 4, 8, 16]);
  assert.equal(simulatedRetryDelayMs(1_000, EVEN), 4 * 60 * MINUTE_MS);
});

test('mail expires after three days', () => {
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
