/** The table of `letterhaus stats`, for terminals of several widths. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_COUNTS } from './counts.ts';
import type { StatsReport } from './stats-report.ts';
import { statsText } from './command.ts';

/** Not a terminal, so the width is unlimited. */
const AT_WILL = { program: 'letterhaus' };
const { latencies: _latencies, ...zeros } = NO_COUNTS;
const TIME = { count: 900, p50_at_most_s: 1, p95_at_most_s: 5, p99_at_most_s: 300 };
const row = {
  ...zeros,
  value: null,
  name: null,
  emails: 1_000,
  recipients: 1_000,
  delivered: 900,
  bounced: 40,
  deferred: 7,
  complained: 2,
  time_to_delivery: TIME,
};
const report: StatsReport = {
  object: 'stats',
  from: '2026-11-20T00:00:00.000Z',
  to: '2026-11-22T00:00:00.000Z',
  granularity: 'day',
  zone: null,
  by: null,
  totals: [{ ...row, histogram: [] }],
  data: [{ ...row, period: '2026-11-21T00:00:00.000Z' }],
};

test('the table has a line for each day and their sum, without columns of zeros', () => {
  assert.equal(
    statsText(AT_WILL, report, 'live'),
    `2026-11-20 00:00 to 2026-11-22 00:00 (UTC), live

DAY          EMAILS   RECIPIENTS   DELIVERED   BOUNCED   DEFERRED   COMPLAINED   P95
2026-11-21   1000     1000         900         40        7          2            ≤ 5 s
total        1000     1000         900         40        7          2            ≤ 5 s`,
  );
});

test('the table fits the terminal and names the omitted columns', () => {
  const text = statsText({ ...AT_WILL, widthColumns: 70 }, report, 'live');
  const lines = text.split('\n');
  assert.ok(
    lines.every((line) => line.length <= 70),
    text,
  );
  assert.match(text, /DAY +EMAILS +RECIPIENTS +DELIVERED +BOUNCED +P95/);
  assert.equal(lines.at(-1), '(no room for DEFERRED, COMPLAINED; --json has all)');
});

test('by provider, columns without a provider are not shown', () => {
  const unknown = { emails: null, recipients: null, suppressed: null, canceled: null };
  const google = { ...row, ...unknown, value: 'google' };
  const text = statsText(
    AT_WILL,
    { ...report, by: 'provider', totals: [{ ...google, histogram: [] }] },
    'test',
  );
  assert.match(text, /^PROVIDER +DELIVERED +BOUNCED +DEFERRED +COMPLAINED +P95$/m);
  assert.match(text, /^google +900 +40 +7 +2 +≤ 5 s$/m);
});

test('without counts a sentence names the time and the environment', () => {
  assert.equal(
    statsText(AT_WILL, { ...report, totals: [], data: [] }, 'live'),
    'Nothing was counted from 2026-11-20 00:00 to 2026-11-22 00:00 (UTC) in the live environment.',
  );
});
