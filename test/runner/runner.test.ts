/** The runner can fail: each way in which a suite may quietly run less turns the step red. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runStep, type StepResult } from './run-step.ts';
import { chooseSteps } from './steps.ts';

const IMPORT = `import { test } from 'node:test';\n`;

test('passing tests are counted', async () => {
  const result = await runFile(`${IMPORT} test('a', () => {}); test('b', () => {});`);
  assert.equal(result.failure, null);
  assert.deepEqual(result.counts, { passed: 2, failed: 0, skipped: 0, emptyFiles: [] });
});

test('a failing test fails the step', async () => {
  const result = await runFile(`${IMPORT} test('a', () => {}); test('b', () => { throw 1; });`);
  assert.equal(result.failure, '1 failed. It ended with exit code 1.');
  assert.deepEqual([result.counts?.passed, result.counts?.failed], [1, 1]);
});

test('a file without tests fails the step', async () => {
  const result = await runFile(`export const nothing = 1;`);
  assert.match(result.failure ?? '', /^No tests in .*sample\.test\.ts\.$/);
  assert.equal(result.counts?.passed, 0);
});

test('a step without files fails', async () => {
  const step = { name: 's', about: '', kind: 'tests', files: [], globalSetup: null } as const;
  const result = await runStep({ ...step, files: [] }, false);
  assert.equal(result.failure, 'There are no test files.');
});

test('a skipped test fails the step where all tests can run', async () => {
  const result = await runFile(`${IMPORT} test('a', () => {}); test.skip('b', () => {});`);
  const complete = process.platform === 'linux' && process.arch === 'x64';
  assert.equal(result.failure, complete ? '1 skipped; here all tests run.' : null);
});

test('a process that is left behind fails the step, and is ended', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'posthorn-runner-'));
  const farewell = join(folder, 'farewell');
  const lingering = `trap 'echo asked to end > ${farewell}; exit' TERM; while :; do sleep 0.02; done`;
  const result = await runFile(`
    ${IMPORT}
    import { spawn } from 'node:child_process';
    test('a', () => {
      spawn('sh', ['-c', ${JSON.stringify(lingering)}], { stdio: 'ignore' }).unref();
    });`);
  assert.equal(result.failure, 'It left processes behind.');
  assert.equal(await readFile(farewell, 'utf8'), 'asked to end\n');
  await rm(folder, { recursive: true });
});

test('a tool that finds something fails its step', async () => {
  const step = { name: 's', about: '', kind: 'tool', command: ['tsc', '--nonsense'] } as const;
  const result = await runStep({ ...step, command: [...step.command] }, false);
  assert.match(result.failure ?? '', /^It ended with exit code/);
  assert.match(result.output, /nonsense/);
});

test('a part of a path chooses test files, and a typing error chooses nothing', () => {
  const chosen = chooseSteps([], ['runner/runner']);
  assert.ok(Array.isArray(chosen));
  assert.deepEqual(
    chosen.map((step) => [step.name, step.kind === 'tests' && step.files]),
    [['unit', ['test/runner/runner.test.ts']]],
  );
  assert.equal(chooseSteps([], ['no-such-file']), 'No test file matches no-such-file.');
  const refused = chooseSteps(['unti'], []);
  assert.ok(typeof refused === 'string');
  assert.match(refused, /^There is no step "unti"; there are format/);
});

test('"check" is everything that needs no service', () => {
  const chosen = chooseSteps(['check'], []);
  assert.ok(Array.isArray(chosen));
  assert.deepEqual(
    chosen.map((step) => step.name),
    ['format', 'types', 'lint', 'dead-code', 'tidy'],
  );
});

async function runFile(text: string): Promise<StepResult> {
  const folder = await mkdtemp(join(tmpdir(), 'posthorn-runner-'));
  try {
    const file = join(folder, 'sample.test.ts');
    await writeFile(file, text);
    return await runStep(
      { name: 'sample', about: '', kind: 'tests', files: [file], globalSetup: null },
      false,
    );
  } finally {
    await rm(folder, { recursive: true });
  }
}
