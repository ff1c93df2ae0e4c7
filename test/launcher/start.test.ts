/** A current clone: the launcher is transparent. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { makeClone } from './clone.ts';

const ECHO = `
console.log(JSON.stringify({ args: process.argv.slice(2), main: import.meta.main }));
process.exitCode = 7;
`;

/** Exits some time after a signal. The launcher has to wait for it. */
const DRAIN = `
const alive = setInterval(() => {}, 1000);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    console.log('received ' + signal);
    setTimeout(() => { console.log('drained'); process.exit(5); }, 100);
  });
}
console.log('ready');
`;

for (const node of ['other node', 'same node'] as const) {
  test(`arguments with spaces and the exit code pass through (${node})`, async () => {
    await using clone = await makeClone(ECHO, node);
    const run = clone.start(['start', 'a b', '', '--json']);
    assert.deepEqual(await run.ended, { code: 7, signal: null });
    assert.deepEqual(JSON.parse(run.stdout), { args: ['start', 'a b', '', '--json'], main: true });
    assert.equal(run.stderr, '');
    assert.deepEqual(await clone.npmCalls(), []);
  });

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    test(`${signal} reaches the service and the launcher waits for it (${node})`, async () => {
      await using clone = await makeClone(DRAIN, node);
      const run = clone.start();
      await run.said('ready');
      run.kill(signal);
      assert.deepEqual(await run.ended, { code: 5, signal: null });
      assert.equal(run.stdout, `ready\nreceived ${signal}\ndrained\n`);
    });
  }

  test(`a service killed by a signal is reported as killed by that signal (${node})`, async () => {
    await using clone = await makeClone(`process.kill(process.pid, 'SIGKILL');`, node);
    assert.deepEqual(await clone.start().ended, { code: null, signal: 'SIGKILL' });
  });
}

test('a second Ctrl-C while the service drains does not end the launcher first', async () => {
  await using clone = await makeClone(DRAIN, 'other node');
  const run = clone.start();
  await run.said('ready');
  run.kill('SIGINT');
  await run.said('received SIGINT');
  run.kill('SIGINT');
  assert.deepEqual(await run.ended, { code: 5, signal: null });
  assert.match(run.stdout, /drained/);
});

test('a tool from the packages runs with the bundled Node', async () => {
  await using clone = await makeClone('', 'same node');
  await mkdir(join(clone.root, 'node_modules/.bin'));
  await mkdir(join(clone.root, 'node_modules/tool'));
  await writeFile(join(clone.root, 'node_modules/tool/cli.js'), ECHO);
  await symlink('../tool/cli.js', join(clone.root, 'node_modules/.bin/tool'));
  const run = clone.start(['--bin', 'tool', '--fix', 'a b'], { launcher: 'bin/run.js' });
  assert.deepEqual(await run.ended, { code: 7, signal: null });
  assert.deepEqual(JSON.parse(run.stdout).args, ['--fix', 'a b']);
});

test('without a script to run, the usage is shown', async () => {
  await using clone = await makeClone('', 'same node');
  const run = clone.start([], { launcher: 'bin/run.js' });
  assert.deepEqual(await run.ended, { code: 2, signal: null });
  assert.match(run.stderr, /^usage: node bin\/run\.js <script\.ts>/);
});

test('on Windows one sentence says where Letterhaus runs', async () => {
  await using clone = await makeClone('', 'empty');
  const preload = `Object.defineProperty(process, 'platform', { value: 'win32' })`;
  const run = clone.start([], { preload });
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.match(run.stderr, /^letterhaus: There is no bundled Node for win32-.*inside WSL\.\n$/);
});

test(
  'on musl one sentence says what to use instead',
  { skip: process.platform !== 'linux' },
  async () => {
    await using clone = await makeClone('', 'empty');
    const preload = `process.report.getReport = () => ({ header: {} })`;
    const run = clone.start([], { preload });
    assert.deepEqual(await run.ended, { code: 1, signal: null });
    assert.match(run.stderr, /^letterhaus: This system uses musl .* Debian or Ubuntu\.\n$/);
    assert.deepEqual(await clone.npmCalls(), []);
  },
);

test('a Node that is too old is reported with the required version', async () => {
  await using clone = await makeClone('', 'empty');
  const preload = `Object.defineProperty(process.versions, 'node', { value: '18.20.4' })`;
  const run = clone.start([], { preload });
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.match(
    run.stderr,
    /^letterhaus: Node 18\.20\.4 is too old .* install Node 20 or newer\.\n$/,
  );
});

test('an installed clone needs no Node of the system, also through a link; without its own it uses that', async () => {
  await using clone = await makeClone(ECHO, 'same node');
  const bundled = join(clone.root, 'node_modules/.bin/node');
  const link = join(clone.root, 'letterhaus');
  await mkdir(dirname(bundled));
  await symlink(process.execPath, bundled);
  await symlink('bin/letterhaus', link);
  const run = (program: string, path: string) =>
    spawnSync(program, ['start', 'a b'], { encoding: 'utf8', env: { PATH: path } });
  const system = join(clone.root, 'system');
  await mkdir(system);
  for (const tool of ['readlink', 'sh'])
    await symlink(execFileSync('which', [tool], { encoding: 'utf8' }).trim(), join(system, tool));
  for (const program of [join(clone.root, 'bin/letterhaus'), link]) {
    const { status, stdout } = run(program, system);
    assert.deepEqual(JSON.parse(stdout), { args: ['start', 'a b'], main: true });
    assert.equal(status, 7);
  }
  await rm(bundled);
  assert.match(run(link, system).stderr, /node/, 'there is none');
  assert.equal(run(link, `${system}:${dirname(process.execPath)}`).status, 7);
});
