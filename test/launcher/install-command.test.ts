/** `letterhaus install`: a clone that a service can run, with the packages of the service alone. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { addDashboard, type Clone, makeClone } from './clone.ts';

const BIN = join(import.meta.dirname, '../../bin');

const SERVICE = `console.log('served');`;
const DONE = { code: 0, signal: null };

/** Returns the packages that each call of npm installed. */
async function selections(clone: Clone): Promise<string[]> {
  return (await clone.npmCalls()).map(({ args }) => {
    if (args.includes('--omit=dev')) return 'service';
    return args.includes('--workspace=web') ? 'dashboard' : 'all';
  });
}

async function installedClone(): Promise<Clone> {
  const clone = await makeClone(SERVICE, 'empty');
  await addDashboard(clone);
  await clone.finishNpm();
  assert.deepEqual(await clone.start(['install']).ended, DONE);
  return clone;
}

test('it builds the dashboard, keeps only the packages of the service, and prints how to start', async () => {
  await using clone = await makeClone(SERVICE, 'empty');
  await addDashboard(clone);
  await writeFile(join(clone.root, 'package.json'), '{ "type": "module", "version": "1.2.3" }');
  await clone.finishNpm();
  const run = clone.start(['install']);
  assert.deepEqual(await run.ended, DONE);
  assert.deepEqual(await selections(clone), ['dashboard', 'service']);
  assert.equal(await readFile(join(clone.root, 'web/dist/main.js'), 'utf8'), 'first');
  const steps = run.stderr
    .split('\n')
    .filter((line) => line.startsWith('letterhaus: '))
    .map((line) => line.replaceAll(clone.root, '.'));
  assert.deepEqual(steps, [
    'letterhaus: installing what builds the dashboard (500 MB in ./node_modules) ...',
    'letterhaus: building the dashboard ...',
    'letterhaus: installing the packages of the service, Node and PostgreSQL (250 MB in ./node_modules) ...',
  ]);
  assert.match(run.stdout, /^Letterhaus 1\.2\.3 is installed in .*a clone\.\n/);
  assert.ok(
    run.stdout.includes(`${clone.root}/node_modules/.bin/node ${clone.root}/bin/letterhaus start`),
  );
  assert.doesNotMatch(run.stdout, /served/, 'nothing is started');
});

test('an installed clone is left alone, starts without npm, and does not have to be writable', async () => {
  await using clone = await installedClone();
  await chmod(clone.root, 0o555);
  const again = clone.start(['install', '--json']);
  assert.deepEqual(await again.ended, DONE);
  assert.equal(JSON.parse(again.stdout).folder, clone.root);
  const run = clone.start(['start']);
  assert.deepEqual(await run.ended, DONE);
  assert.equal(run.stdout + run.stderr, 'served\n');
  assert.equal((await clone.npmCalls()).length, 2);
  await chmod(clone.root, 0o755);
});

test('an interrupted installation is repeated, without what it had already', async () => {
  await using clone = await makeClone(SERVICE, 'empty');
  await addDashboard(clone);
  const run = clone.start(['install']);
  await run.said('npm is installing');
  run.kill('SIGINT');
  assert.deepEqual(await run.ended, { code: null, signal: 'SIGINT' });
  assert.equal(run.stdout, '');
  await clone.finishNpm();
  assert.deepEqual(await clone.start(['install']).ended, DONE);
  assert.deepEqual(await selections(clone), ['dashboard', 'dashboard', 'service']);
});

test('two installations at once are one', async () => {
  await using clone = await makeClone(SERVICE, 'empty');
  await addDashboard(clone);
  const first = clone.start(['install']);
  await first.said('npm is installing');
  const second = clone.start(['install']);
  await second.said('another process is installing in this clone');
  await clone.finishNpm();
  for (const run of [first, second]) assert.deepEqual(await run.ended, DONE);
  assert.deepEqual(await selections(clone), ['dashboard', 'service']);
});

test('a start after an upgrade installs the packages of the service again, a tool all of them', async () => {
  await using clone = await installedClone();
  await writeFile(join(clone.root, 'package-lock.json'), '{ "lockfileVersion": 3, "new": true }');
  assert.deepEqual(await clone.start(['start']).ended, DONE);
  assert.deepEqual((await selections(clone)).slice(2), ['service']);
  await writeFile(join(clone.root, 'tool.js'), '');
  assert.deepEqual(await clone.start(['tool.js'], { launcher: 'bin/run.js' }).ended, DONE);
  assert.deepEqual((await selections(clone)).slice(3), ['all']);
});

test('when the dashboard cannot be built, the service is installed all the same, with exit code 1', async () => {
  await using clone = await makeClone(SERVICE, 'empty');
  await addDashboard(clone, 'process.exitCode = 3;');
  await clone.finishNpm();
  const run = clone.start(['install', '--json']);
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.equal(JSON.parse(run.stderr.trim().split('\n').at(-1)!).error.code, 'install_failed');
  assert.deepEqual(await selections(clone), ['dashboard', 'service']);
});

test('--help and a mistake install nothing', async () => {
  await using clone = await makeClone(SERVICE, 'empty');
  const help = clone.start(['install', '--help']);
  assert.deepEqual(await help.ended, DONE);
  assert.match(help.stdout, /^Usage: letterhaus install/);
  const mistake = clone.start(['install', '--production']);
  assert.deepEqual(await mistake.ended, { code: 2, signal: null });
  assert.match(mistake.stderr, /install does not take "--production" \(see --help\)/);
  assert.deepEqual(await clone.npmCalls(), []);
  assert.equal(existsSync(join(clone.root, 'node_modules')), false);
});

test('in a package of npm it removes the headers of Node, and leaves those of a Node that others share', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'letterhaus-published-')));
  try {
    for (const place of ['app/node_modules/letterhaus/node_modules', 'app/node_modules']) {
      const root = join(folder, 'app/node_modules/letterhaus');
      cpSync(BIN, join(root, 'bin'), { recursive: true });
      writeFileSync(join(root, 'package.json'), '{ "version": "1.2.3", "type": "module" }');
      const node = join(folder, place, `node-${process.platform}-${process.arch}`);
      const headers = join(node, 'include/node/node.h');
      for (const file of [headers, join(node, 'bin/node')]) {
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, '');
      }
      const { stdout } = await promisify(execFile)(join(root, 'bin/letterhaus'), ['install']);
      assert.match(stdout, /^Letterhaus 1\.2\.3 is installed in /);
      assert.equal(existsSync(headers), place === 'app/node_modules');
      rmSync(join(root, 'node_modules'), { recursive: true, force: true });
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
