/** The report of the doctor, for people and for programs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reportJson, reportText } from './command-report.ts';
import { type Finding, green, red, unknown, worstOf } from './finding.ts';
import type { CheckReport } from './run-checks.ts';

const CLI = { program: 'letterhaus' };

function report(id: string, ...findings: Finding[]): CheckReport {
  const level = worstOf(findings.map((finding) => finding.level));
  return { id, title: `Title of ${id}`, level, findings };
}

test('checks with the same finding share one row, and programs get each of them', () => {
  const absent = unknown('There is no installation yet.', { remedy: 'Start it.' });
  const problem = { subject: 'a', meaning: 'Mail waits.', remedy: 'Start it.', command: 'start' };
  const reports = [
    report('database', absent),
    report('host_name', green('It is right.')),
    report('queue', absent, unknown('There is no installation yet.', { remedy: 'Wait.' })),
    report('clock', absent, absent),
    report('relay', red('It is gone.', problem), red('It is gone.', { ...problem, subject: 'b' })),
  ];
  assert.deepEqual(reportText(CLI, reports).split('\n').slice(0, -1), [
    'LEVEL     CHECK      FINDING',
    'red       relay      It is gone.',
    '                     Mail waits.',
    '                     Start it.',
    '                     $ start',
    'unknown   database   There is no installation yet.',
    '                     Other checks found the same: queue, clock.',
    '                     Start it.',
    'unknown   queue      There is no installation yet.',
    '                     Wait.',
    '',
    '1 red, 0 yellow, 3 unknown; 1 of 5 checks are green.',
  ]);
  const { findings } = reportJson(reports);
  assert.deepEqual(
    findings.map(({ check }) => check),
    ['relay', 'relay', 'database', 'queue', 'queue', 'clock', 'clock', 'host_name'],
  );
});
