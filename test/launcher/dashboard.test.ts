/**
 * The launcher builds the dashboard before the first start, once for each state of its sources. A failed build stops no
 * start.
 */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { addDashboard, type Clone, makeClone } from './clone.ts';

const SERVICE = `console.log('served');`;

async function builtText(clone: Clone): Promise<string> {
  return readFile(join(clone.root, 'web/dist/main.js'), 'utf8');
}

test('the first start builds it, a later one only when its sources have changed', async () => {
  await using clone = await makeClone(SERVICE, 'other node');
  await addDashboard(clone);
  const start = async (): Promise<string> => {
    const run = clone.start(['start']);
    assert.deepEqual(await run.ended, { code: 0, signal: null });
    assert.equal(run.stdout, 'served\n');
    return run.stderr;
  };
  assert.match(await start(), /building the dashboard/);
  assert.equal(await builtText(clone), 'first');
  assert.equal(await start(), '');
  await writeFile(join(clone.root, 'web/src/main.js'), 'second');
  assert.match(await start(), /building the dashboard/);
  assert.equal(await builtText(clone), 'second');
  const left = (await readdir(join(clone.root, 'web'))).filter((name) => name.startsWith('.build'));
  assert.deepEqual(left, []);
});

test('other commands do not build it', async () => {
  await using clone = await makeClone(SERVICE, 'other node');
  await addDashboard(clone);
  const run = clone.start(['domains', 'list']);
  assert.deepEqual(await run.ended, { code: 0, signal: null });
  assert.equal(run.stderr, '');
});

test('two starts at once both serve, and leave one whole dashboard', async () => {
  await using clone = await makeClone(SERVICE, 'other node');
  await addDashboard(clone);
  const ends = await Promise.all([clone.start(['start']).ended, clone.start(['start']).ended]);
  assert.deepEqual(ends, [
    { code: 0, signal: null },
    { code: 0, signal: null },
  ]);
  assert.equal(await builtText(clone), 'first');
});

test('when it cannot be built, one line says so and the service starts', async () => {
  await using clone = await makeClone(SERVICE, 'other node');
  await addDashboard(clone, 'process.exitCode = 3;');
  const run = clone.start(['start']);
  assert.deepEqual(await run.ended, { code: 0, signal: null });
  assert.equal(run.stdout, 'served\n');
  assert.match(run.stderr, /the dashboard could not be built; the service starts without it\n$/);
});

test('a clone without the packages that build it says what to run, and starts', async () => {
  await using clone = await makeClone(SERVICE, 'service');
  await addDashboard(clone);
  const run = clone.start(['start']);
  assert.deepEqual(await run.ended, { code: 0, signal: null });
  assert.equal(run.stdout, 'served\n');
  assert.match(
    run.stderr,
    /^letterhaus: the dashboard is not built .*: run \S.*\/bin\/letterhaus install as the owner/,
  );
});
