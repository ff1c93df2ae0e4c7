/** Tests that the runner can fail: every way in which a suite may silently run fewer tests fails the step. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { chooseFor, MATTERS, NEAR } from './changed.ts';
import { reachedFrom } from './imports.ts';
import { type FileResult, runSteps, type StepResult } from './run.ts';
import { chooseSteps, ROOT, type Step } from './steps.ts';

const IMPORT = `import { test } from 'node:test';\n`;

test('passing tests are counted', async () => {
  const result = await runFile(`${IMPORT} test('a', () => {}); test('b', () => {});`);
  assert.equal(result.failure, null);
  assert.deepEqual(result.counts, { passed: 2, failed: 0, skipped: 0 });
});

test('a failing test fails the step', async () => {
  const result = await runFile(`${IMPORT} test('a', () => {}); test('b', () => { throw 1; });`);
  assert.match(result.failure ?? '', /sample\.test\.ts: 1 failed\. It ended with exit code 1\.$/);
  assert.deepEqual([result.counts?.passed, result.counts?.failed], [1, 1]);
});

test('a file without tests fails the step', async () => {
  const result = await runFile(`export const nothing = 1;`);
  assert.match(result.failure ?? '', /sample\.test\.ts: No test ran\.$/);
  assert.equal(result.counts?.passed, 0);
});

test('a step without files fails', async () => {
  const result = await run({ name: 's', about: '', kind: 'tests', files: [] });
  assert.equal(result.failure, 'There are no test files.');
});

test('a skipped test fails the step where all tests can run', async () => {
  const result = await runFile(`${IMPORT} test('a', () => {}); test.skip('b', () => {});`);
  const complete = process.platform === 'linux' && process.arch === 'x64';
  assert.match(`${result.failure}`, complete ? /: 1 skipped; here all tests run\.$/ : /^null$/);
});

test('a process that is left behind fails the step, and is ended', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'letterhaus-runner-'));
  const farewell = join(folder, 'farewell');
  const lingering = `trap 'echo asked to end > ${farewell}; exit' TERM; while :; do sleep 0.02; done`;
  const result = await runFile(`
    ${IMPORT}
    import { spawn } from 'node:child_process';
    test('a', () => {
      spawn('sh', ['-c', ${JSON.stringify(lingering)}], { stdio: 'ignore' }).unref();
    });`);
  assert.match(result.failure ?? '', /sample\.test\.ts: It left processes behind\.$/);
  assert.equal(await readFile(farewell, 'utf8'), 'asked to end\n');
  await rm(folder, { recursive: true });
});

test('of files that run alone, those of a group run at the same time, and no others', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'letterhaus-runner-'));
  try {
    const [before, one, two, three, four] = ['0', '1', '2', '3', '4'].map((name) =>
      join(folder, `${name}.test.ts`),
    ) as [string, string, string, string, string];
    const files = [one, two, three, four];
    for (const file of [before, ...files]) await writeFile(file, `${IMPORT} test('a', () => {});`);
    const steps: Step[] = [
      { name: 'alone', about: '', kind: 'tests', files, alone: { groups: [[one, three]] } },
      { name: 'sample', about: '', kind: 'tests', files: [before] },
    ];
    const ran = new Map<string, FileResult>();
    await runSteps(steps, { jobs: 2, onFile: (file) => ran.set(file.path, file) });
    const overlap = (a: string, b: string) =>
      ran.get(a)!.startedAtMs < ran.get(b)!.endedAtMs &&
      ran.get(b)!.startedAtMs < ran.get(a)!.endedAtMs;
    const pairs = [before, ...files].flatMap((a, index, all) =>
      all.slice(index + 1).map((b) => [a, b] as const),
    );
    assert.deepEqual(
      pairs.filter(([a, b]) => overlap(a, b)),
      [[one, three]],
    );
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('the files that run at the same time after all others are files of the step', () => {
  for (const step of everything()) {
    if (step.kind !== 'tests') continue;
    for (const file of step.alone?.groups.flat() ?? []) assert.ok(step.files.includes(file), file);
  }
});

test('files that share the service of the run have projects of their own', async () => {
  const root = JSON.stringify(`${ROOT}/`);
  const outputs = await outputsOf(
    ['one', 'other'].map(
      (subject) => `${IMPORT}
    import assert from 'node:assert/strict';
    const { sharedService } = await import(${root} + 'test/support/shared-service.ts');
    test('a', async () => {
      const service = await sharedService();
      await service.send({ subject: '${subject}' });
      const { data } = (await service.request('GET', '/v1/emails')).body;
      assert.deepEqual(data.map(({ subject }) => subject), ['${subject}']);
      console.log('the service is at ' + service.url);
    });`,
    ),
  );
  const urls = outputs.map((output) => /the service is at (\S+)/.exec(output)?.[1]);
  assert.ok(urls[0], outputs.join(''));
  assert.equal(urls[1], urls[0]);
});

test('a tool that finds something fails its step', async () => {
  const command: [string, string] = ['tsc', '--nonsense'];
  const result = await run({ name: 's', about: '', kind: 'tool', command });
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
    ['format', 'types', 'types-web', 'types-handbook', 'lint', 'dead-code', 'tidy'],
  );
});

test('a change runs the tests that need the changed file, and the checks', () => {
  const chosen = filesFor('test/support/fake-mx-session.ts');
  assert.ok(chosen.includes('test/support/fake-mx.test.ts'));
  assert.ok(chosen.includes('test/journey/refused.test.ts'));
  assert.ok(!chosen.includes('src/mail/dkim.test.ts'));
  const pure = filesFor('src/mail/dkim.ts');
  assert.ok(pure.includes('src/mail/dkim.test.ts'));
  assert.ok(!pure.includes('src/mail/address.test.ts'));
  for (const name of [
    'format',
    'types',
    'types-web',
    'types-handbook',
    'lint',
    'dead-code',
    'tidy',
  ]) {
    assert.ok(stepsFor('src/mail/dkim.ts').some((step) => step.name === name));
  }
});

test('a change of src runs the few tests of a whole service that its folder names', () => {
  const services = (path: string) =>
    filesFor(path).filter((file) => /^test\/(?:api|journey|isolation)\//.test(file));
  assert.deepEqual(services('src/webhooks/endpoints.ts'), MATTERS['src/webhooks']);
  // Their support files import this one, too.
  assert.deepEqual(services('src/database/database.ts'), MATTERS['src/database']?.toSorted());
  assert.deepEqual(services('src/new-folder/file.ts'), MATTERS['src']);
  assert.deepEqual(services('src/webhooks/endpoints.test.ts'), []);
  assert.ok(services('src/emails/scheduling-routes.ts').includes('test/api/scheduling.test.ts'));
  const all = filesOf(everything());
  for (const file of Object.values(MATTERS).flat()) assert.ok(all.includes(file), file);
});

test('a change runs the unit tests near it, not those that reach it over many files', () => {
  const chosen = filesFor('src/core/refusals.ts');
  const distances = everything()
    .flatMap((step) => (step.kind === 'tests' && step.name === 'unit' ? step.files : []))
    .map((file) => ({ file, distance: reachedFrom(file).get('src/core/refusals.ts') ?? Infinity }));
  const near = distances.filter(({ distance }) => distance <= NEAR);
  const far = distances.filter(({ distance }) => distance > NEAR && distance < Infinity);
  assert.ok(near.length > 0 && far.length > 0);
  assert.ok(near.every(({ file }) => chosen.includes(file)));
  assert.ok(!far.some(({ file }) => chosen.includes(file)));
});

test('a changed migration runs what uses a database, a changed lockfile runs everything', () => {
  const chosen = filesFor('migrations/0009.do.new.sql');
  assert.ok(chosen.includes('test/support/postgres.test.ts'));
  assert.ok(!chosen.includes('src/mail/dkim.test.ts'));
  assert.deepEqual(filesFor('package-lock.json'), filesOf(everything()));
  const tidy = everything().filter(({ name }) => name === 'tidy');
  assert.ok(filesOf(tidy).length > 1);
  assert.deepEqual(filesFor('docs/no-such-file.md'), filesOf(tidy));
});

test('only what a file imports or names counts, not what it takes types from', () => {
  const reached = reachedFrom('test/support/engine.ts');
  assert.ok(reached.has('test/support/engine-keeper.ts'));
  assert.ok(reached.has('src/database/embedded/engine.ts'));
  assert.deepEqual([...reachedFrom('test/runner/report.ts').keys()], ['test/runner/report.ts']);
});

function everything(): Step[] {
  const all = chooseSteps([], []);
  assert.ok(Array.isArray(all));
  return all;
}

function stepsFor(...changed: string[]): Step[] {
  return chooseFor(everything(), changed, 'main').steps;
}

function filesFor(...changed: string[]): string[] {
  return filesOf(stepsFor(...changed));
}

function filesOf(steps: readonly Step[]): string[] {
  return steps.flatMap((step) => (step.kind === 'tests' ? step.files : []));
}

async function run(step: Step): Promise<StepResult> {
  const [result] = await runSteps([step], { jobs: 1 });
  assert.ok(result);
  return result;
}

/** Runs test files with these texts; the run must succeed. @returns what each has written */
async function outputsOf(texts: readonly string[]): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'letterhaus-runner-'));
  try {
    const files = texts.map((_, index) => join(folder, `${index}.test.ts`));
    await Promise.all(files.map((file, index) => writeFile(file, texts[index]!)));
    const step: Step = { name: 'sample', about: '', kind: 'tests', files };
    const outputs = new Map<string, string>();
    const onFile = ({ path, output }: FileResult) => outputs.set(path, output);
    const [result] = await runSteps([step], { jobs: files.length, onFile });
    assert.equal(result?.failure, null, [...outputs.values()].join(''));
    return files.map((file) => outputs.get(file) ?? '');
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function runFile(text: string): Promise<StepResult> {
  const folder = await mkdtemp(join(tmpdir(), 'letterhaus-runner-'));
  try {
    const file = join(folder, 'sample.test.ts');
    await writeFile(file, text);
    return await run({ name: 'sample', about: '', kind: 'tests', files: [file] });
  } finally {
    await rm(folder, { recursive: true });
  }
}
