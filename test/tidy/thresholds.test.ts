/** The alarms of deploy/prometheus and the documents have the thresholds of src/core/thresholds.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BACKUP_AGE,
  CERTIFICATE_ENDS,
  CLOCK_SKEW,
  DEFERRED_SHARE,
  DISK_FREE,
  FIRST_ATTEMPT_WAITS,
  FROZEN_AGE,
  judgeCertificate,
  MAIL_WAITS,
} from '../../src/core/thresholds.ts';
import { DAY_MS, GIB, HOUR_MS, MINUTE_MS } from '../../src/lib/units.ts';
import { readFiles } from './source.ts';

const RULES = readFiles(['deploy/prometheus/*.rules.yml'])
  .map(({ text }) => text)
  .join('');

type Comparison = {
  alarm: string;
  severity: 'ticket' | 'page';
  pattern: RegExp;
  expected: number;
};

const COMPARISONS: readonly Comparison[] = [
  ...(['soon', 'urgent'] as const).flatMap((level): Comparison[] => {
    const severity = level === 'soon' ? 'ticket' : 'page';
    const { withinMs, lifeShare } = CERTIFICATE_ENDS[level];
    const alarm = { alarm: 'CertificateEnds', severity } as const;
    return [
      { ...alarm, pattern: /time\(\) < ([\d* ]+)$/m, expected: withinMs / 1_000 },
      { ...alarm, pattern: /lifetime_seconds \/ (\d+)$/m, expected: 1 / lifeShare },
    ];
  }),
  {
    alarm: 'ClockSkew',
    severity: 'ticket',
    pattern: /skew_seconds\) > (\d+)/,
    expected: CLOCK_SKEW.soonMs / 1_000,
  },
  {
    alarm: 'DiskWillFill',
    severity: 'ticket',
    pattern: /free_bytes < ([\d*^ ]+)/,
    expected: DISK_FREE.soonBytes,
  },
  {
    alarm: 'DiskFull',
    severity: 'page',
    pattern: /free_bytes < ([\d*^ ]+)/,
    expected: DISK_FREE.urgentBytes,
  },
  {
    alarm: 'BackupTooOld',
    severity: 'ticket',
    pattern: /time\(\) - (\d+) \* .*backup_interval_seconds/,
    expected: BACKUP_AGE.soonIntervals,
  },
  {
    alarm: 'MailWaits',
    severity: 'ticket',
    pattern: /due_seconds.* > (\d+)/,
    expected: MAIL_WAITS.soonMs / 1_000,
  },
  {
    alarm: 'FirstAttemptLate',
    severity: 'ticket',
    pattern: /\[10m\]\)\)\) > (\d+)/,
    expected: FIRST_ATTEMPT_WAITS.soonMs / 1_000,
  },
  {
    alarm: 'MostlyDeferred',
    severity: 'ticket',
    pattern: /> ([\d.]+) \* sum/,
    expected: DEFERRED_SHARE.soon,
  },
  {
    alarm: 'MostlyDeferred',
    severity: 'ticket',
    pattern: /\[30m\]\)\) > (\d+)/,
    expected: DEFERRED_SHARE.attemptsMin,
  },
  {
    alarm: 'DatabaseWraparound',
    severity: 'ticket',
    pattern: /transaction_age\) > (\w+)/,
    expected: FROZEN_AGE.soon,
  },
];

function differences(rules: string): string[] {
  const alarms = rules.split(/^ {6}- alert: Letterhaus/m).slice(1);
  return COMPARISONS.flatMap(({ alarm, severity, pattern, expected }) => {
    const found = alarms.find(
      (text) => text.startsWith(`${alarm}\n`) && text.includes(`severity: ${severity}`),
    );
    const [, number = ''] = pattern.exec(found ?? '') ?? [];
    const value = valueOf(number);
    return value === expected ? [] : [`${alarm} (${severity}): ${value}, not ${expected}`];
  });
}

/** `2 * 2^30` and `5e8` as Prometheus reads them. */
function valueOf(number: string): number {
  return number
    .split('*')
    .map((factor) => factor.split('^').map(Number))
    .reduce((product, [base = NaN, exponent = 1]) => product * base ** exponent, 1);
}

test('the alarms have the thresholds of the doctor and of the conditions', () => {
  assert.deepEqual(differences(RULES), []);
  assert.deepEqual(differences(RULES.replace('< 2 * 2^30', '< 3 * 2^30')), [
    `DiskFull (page): ${3 * GIB}, not ${2 * GIB}`,
  ]);
  assert.equal(differences('').length, COMPARISONS.length);
});

const WORDS = new Map([
  [1 / 6, 'a sixth'],
  [1 / 20, 'a twentieth'],
  [MINUTE_MS, 'minute'],
  [5 * MINUTE_MS, 'five'],
  [30 * MINUTE_MS, 'half an hour'],
  [HOUR_MS, 'an hour'],
  [4 * HOUR_MS, 'four hours'],
  [7 * DAY_MS, 'a week'],
  [2, 'two intervals'],
]);
const word = (value: number): string => WORDS.get(value) ?? assert.fail(`${value} has no word`);
const gib = (bytes: number): string => `${bytes / GIB} GiB`;
const days = (ms: number): string => `${ms / DAY_MS} days`;

const { soon, urgent } = CERTIFICATE_ENDS;
const SENTENCES: readonly [file: string, says: string][] = [
  [
    'docs/doctor.md',
    `less than ${word(soon.lifeShare)} of its life left, and at most ${days(soon.withinMs)}`,
  ],
  [
    'docs/doctor.md',
    `less than ${word(urgent.lifeShare)}, and at most ${days(urgent.withinMs)}, it is red`,
  ],
  [
    'docs/tls.md',
    `less than ${word(soon.lifeShare)} of its life left, and at most ${days(soon.withinMs)}`,
  ],
  [
    'docs/monitoring.md',
    `less than ${word(soon.lifeShare)} of its life left, and at most ${days(soon.withinMs)}`,
  ],
  [
    'docs/alarms/certificate-ends.md',
    `less than ${word(soon.lifeShare)} of its life left, and at most ${days(soon.withinMs)}`,
  ],
  [
    'docs/alarms/certificate-ends.md',
    `less than ${word(urgent.lifeShare)} is left, and at most ${days(urgent.withinMs)}`,
  ],
  [
    'docs/doctor.md',
    `A ${word(CLOCK_SKEW.soonMs)} of difference is yellow, ${word(CLOCK_SKEW.urgentMs)} are red`,
  ],
  ['docs/doctor.md', `${word(CLOCK_SKEW.refusedMs)} of difference stops accepting`],
  ['docs/alarms/clock-skew.md', `differs by more than a ${word(CLOCK_SKEW.soonMs)}`],
  ['docs/alarms/clock-skew.md', `From ${word(CLOCK_SKEW.refusedMs)} on the node accepts no mail`],
  ['docs/monitoring.md', `differs from the database's by more than a ${word(CLOCK_SKEW.soonMs)}`],
  [
    'docs/doctor.md',
    `Below ${gib(DISK_FREE.soonBytes)} is yellow, below ${gib(DISK_FREE.urgentBytes)} red`,
  ],
  ['docs/doctor.md', `refuses mail below ${gib(DISK_FREE.refusedBytes)} of free space`],
  ['docs/alarms/disk-will-fill.md', `has less than ${gib(DISK_FREE.soonBytes)} left`],
  ['docs/alarms/disk-full.md', `Less than ${gib(DISK_FREE.urgentBytes)} is free`],
  [
    'docs/alarms/disk-full.md',
    `Below ${gib(DISK_FREE.refusedBytes)} on the disk of the database no mail is accepted`,
  ],
  ['docs/monitoring.md', `less than ${gib(DISK_FREE.refusedBytes)} is free for the database`],
  [
    'docs/doctor.md',
    `more than ${word(BACKUP_AGE.soonIntervals)} is yellow, and with more than ${word(BACKUP_AGE.urgentMs)} red`,
  ],
  ['docs/alarms/backup-too-old.md', `older than ${word(BACKUP_AGE.soonIntervals)}`],
  ['docs/monitoring.md', `the newest good backup is older than ${word(BACKUP_AGE.soonIntervals)}`],
  [
    'docs/doctor.md',
    `due for ${word(MAIL_WAITS.soonMs)} is yellow, for ${word(MAIL_WAITS.urgentMs)} red`,
  ],
  ['docs/alarms/mail-waits.md', `has waited for more than ${word(MAIL_WAITS.soonMs)}`],
];

test('the documents have the thresholds of the doctor and of the conditions', () => {
  const texts = new Map(
    readFiles(['docs/doctor.md', 'docs/tls.md', 'docs/monitoring.md', 'docs/alarms/*.md']).map(
      ({ path, text }) => [path, text.replaceAll(/\s+/g, ' ')],
    ),
  );
  const missing = SENTENCES.filter(([file, says]) => texts.get(file)?.includes(says) !== true);
  assert.deepEqual(missing, []);
});

test('a certificate is judged by its life, so that one of a week is not reported at once', () => {
  const judge = (lifeDays: number, leftDays: number) =>
    judgeCertificate({ lifeMs: lifeDays * DAY_MS, leftMs: leftDays * DAY_MS });
  // Each is renewed when a third of its life is left.
  for (const lifeDays of [6, 45, 63, 90]) assert.equal(judge(lifeDays, lifeDays / 4), 'good');
  assert.deepEqual([judge(365, 22), judge(365, 20), judge(365, 2)], ['good', 'soon', 'urgent']);
  assert.deepEqual([judge(45, 8), judge(45, 7), judge(45, 2)], ['good', 'soon', 'urgent']);
  assert.deepEqual([judge(6, 0.9), judge(6, 0.2), judge(6, -1)], ['soon', 'urgent', 'urgent']);
});
