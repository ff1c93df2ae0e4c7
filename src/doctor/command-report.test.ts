/** The report of the doctor, for people and for programs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reportJson, reportText } from './command-report.ts';
import { type Finding, green, red, unknown, worstOf, yellow } from './finding.ts';
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
    '                     It concerns a, b.',
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

test('a finding that is the same for many domains is said once, with the names of the first', () => {
  const names = Array.from({ length: 20 }, (_, index) => `domain${index + 1}.test`);
  const withoutReports = (name: string): Finding =>
    yellow(`${name} has MTA-STS without TLS reports.`, {
      subject: `_smtp._tls.${name}`,
      meaning: 'You get no report.',
      remedy: `Publish a TXT record at _smtp._tls.${name}.`,
      command: `dig +short TXT _smtp._tls.${name}`,
    });
  const young = yellow('acme.test was registered 3 days ago.', {
    subject: 'acme.test',
    meaning: 'Receivers distrust it.',
    remedy: 'Wait.',
  });
  const reports = [
    report('domain_tls_reports', ...names.map(withoutReports)),
    report('age', young),
  ];
  assert.deepEqual(reportText(CLI, reports).split('\n').slice(1, -3), [
    'yellow   domain_tls_reports   domain1.test has MTA-STS without TLS reports.',
    '                              The same holds for domain2.test, domain3.test, domain4.test and 16 more.',
    '                              You get no report.',
    '                              Publish a TXT record at _smtp._tls.domain1.test.',
    '                              $ dig +short TXT _smtp._tls.domain1.test',
    'yellow   age                  acme.test was registered 3 days ago.',
    '                              Receivers distrust it.',
    '                              Wait.',
  ]);
  assert.equal(reportJson(reports).findings.length, 21, 'programs get each of them');
});

test('domains with different problems, and one domain alone, keep their own findings', () => {
  const missing = (name: string, host: string): Finding =>
    unknown(`${name} has no record for ${host}.`, { subject: name });
  const reports = [
    report('mx', missing('a.test', 'mx1.test'), missing('b.test', 'mx2.test')),
    report('dns', unknown('DNS gave no answer.', { subject: 'a.test' })),
    report('spf', unknown('DNS gave no answer.', { subject: 'b.test' })),
  ];
  assert.deepEqual(reportText(CLI, reports).split('\n').slice(1, -3), [
    'unknown   mx      a.test has no record for mx1.test.',
    'unknown   mx      b.test has no record for mx2.test.',
    'unknown   dns     DNS gave no answer.',
    '                  It concerns a.test, b.test.',
    '                  Other checks found the same: spf.',
  ]);
});
