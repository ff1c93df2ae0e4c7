/** Shows from which age the newest backup is overdue, and how ages are written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ageText, overdueCondition } from './backup-age.ts';
import { HOUR_MS } from '../lib/units.ts';

const NOW_MS = Date.parse('2026-11-25T12:00:00Z');

test('a backup is overdue when the newest is older than two intervals', () => {
  const look = (newestH: number | null, sinceH: number) =>
    overdueCondition('s3://backups/acme/', {
      newestMs: newestH === null ? null : NOW_MS - newestH * HOUR_MS,
      sinceMs: NOW_MS - sinceH * HOUR_MS,
      everyMs: 6 * HOUR_MS,
      nowMs: NOW_MS,
    });
  assert.equal(look(12, 100), null);
  assert.equal(look(null, 12), null);
  assert.equal(
    look(13, 0)?.message,
    'The newest good backup in s3://backups/acme/ is 13 hours old. One is due every 6 hours.',
  );
  assert.equal(
    look(null, 72)?.message,
    'There is no good backup in s3://backups/acme/ since the service started 3 days ago. One is due every 6 hours.',
  );
});

test('ages are in minutes, hours or days', () => {
  const minutes = [-5, 0, 1, 119, 121, 47 * 60, 49 * 60].map((count) => ageText(count * 60_000));
  assert.deepEqual(minutes, [
    '0 minutes',
    '0 minutes',
    '1 minute',
    '119 minutes',
    '2 hours',
    '47 hours',
    '2 days',
  ]);
});
