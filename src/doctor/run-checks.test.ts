/** The run: each check ends, whatever happens in it. And the list of checks is complete in the documents. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { CheckContext } from './check-context.ts';
import { CHECKS } from './checks.ts';
import { green, red, yellow } from './finding.ts';
import { type Check, runChecks } from './run-checks.ts';

const CONTEXT = {} as CheckContext;

function check(id: string, run: Check['run']): Check {
  return { id, title: `Title of ${id}`, run };
}

const problem = { meaning: 'It hurts.', remedy: 'Mend it.' };

test('a check that throws, hangs or finds nothing is unknown with its reason, and other checks are not affected', async () => {
  const checks = [
    check('throws', () => {
      throw new Error('no such table.');
    }),
    check('rejects', () => Promise.reject(new Error('connection lost'))),
    check('hangs', () => new Promise(() => {})),
    check('empty', () => []),
    check('works', () => [green('All is well.')]),
  ];
  const reports = await runChecks(checks, CONTEXT, { timeoutMs: 50 });
  assert.deepEqual(
    reports.map(({ id, level, findings }) => [id, level, findings[0]?.found]),
    [
      ['throws', 'unknown', 'The check failed: no such table.'],
      ['rejects', 'unknown', 'The check failed: connection lost.'],
      ['hangs', 'unknown', 'The check did not end within 0.05 s.'],
      ['empty', 'unknown', 'The check found nothing to judge.'],
      ['works', 'green', 'All is well.'],
    ],
  );
});

test('a check has the level of its worst finding', async () => {
  const findings = [green('a'), yellow('b', problem), red('c', problem), green('d')];
  const [report] = await runChecks([check('mixed', () => findings)], CONTEXT);
  assert.equal(report?.level, 'red');
  assert.deepEqual(report?.findings, findings);
});

test('only a few checks run at the same time, and each beginning and end is reported', async () => {
  let running = 0;
  let most = 0;
  const slow = (id: string): Check =>
    check(id, async () => {
      most = Math.max(most, ++running);
      await new Promise(setImmediate);
      running -= 1;
      return [green('done')];
    });
  const ids = ['a', 'b', 'c', 'd', 'e'];
  const begun: string[] = [];
  const ended: string[] = [];
  await runChecks(ids.map(slow), CONTEXT, {
    parallel: 2,
    onBegin: (id) => begun.push(id),
    onEnd: ({ id }) => ended.push(id),
  });
  assert.equal(most, 2);
  assert.deepEqual([begun, ended], [ids, ids]);
});

test('every check has a section in docs/doctor.md, and every section a check', () => {
  const text = readFileSync(new URL('../../docs/doctor.md', import.meta.url), 'utf8');
  const sections = [...text.matchAll(/^### (\w+)$/gm)].map(([, id]) => id);
  assert.deepEqual(
    sections,
    CHECKS.map(({ id }) => id),
  );
  assert.equal(new Set(sections).size, sections.length);
});
