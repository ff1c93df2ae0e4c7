/**
 * A clone whose packages are missing or old: the launcher installs them once before it starts, or says why it could
 * not.
 */
import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { withInstallLock } from '../../bin/install-lock.js';
import { makeClone, NODE_PATH } from './clone.ts';

const HELLO = `console.log('hello from the service');`;

test('the first start installs with a message, and then starts', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  await clone.finishNpm();
  const run = clone.start();
  assert.deepEqual(await run.ended, { code: 0, signal: null });
  assert.equal(run.stdout, 'hello from the service\n');
  assert.match(
    run.stderr,
    /^letterhaus: first start of this version: installing .* \(1000 MB in .*\/node_modules\) \.\.\.\n/,
  );

  const calls = await clone.npmCalls();
  assert.equal(calls.length, 1);
  assert.equal(calls[0]?.cwd, clone.root);
  const args = calls[0]?.args ?? [];
  assert.equal(args[0], 'ci');
  for (const flag of ['--ignore-scripts', '--include=dev', '--include=optional'])
    assert.ok(args.includes(flag), flag);
  assert.deepEqual(await leftovers(clone.root), []);

  await clone.start().ended;
  assert.equal((await clone.npmCalls()).length, 1, 'the second start has nothing to install');
});

test('a disk that is too small is named before npm runs, but not to a clone that has its packages', async () => {
  const preload = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
    fs.statfsSync = () => ({ bavail: 100000, bsize: 4096 }); syncBuiltinESMExports()`;
  await using clone = await makeClone(HELLO, 'empty');
  await clone.finishNpm();
  const run = clone.start([], { preload });
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.match(
    run.stderr,
    /The packages need 1000 MB in .*\/node_modules, and that disk has 409 MB free; make space, or put the clone/,
  );
  assert.equal((await clone.npmCalls()).length, 0);

  await mkdir(join(clone.root, 'node_modules'));
  assert.deepEqual(await clone.start([], { preload }).ended, { code: 0, signal: null });
});

test('a changed lockfile installs again', async () => {
  await using clone = await makeClone(HELLO, 'other node');
  await writeFile(join(clone.root, 'package-lock.json'), '{ "lockfileVersion": 3, "new": true }');
  await clone.finishNpm();
  assert.deepEqual(await clone.start().ended, { code: 0, signal: null });
  assert.equal((await clone.npmCalls()).length, 1);
});

test('settings of an outer npm that would change what is installed are dropped', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  await clone.finishNpm();
  const env = {
    npm_config_omit: 'optional',
    NPM_CONFIG_OMIT: 'dev',
    npm_config_workspace: 'runtime',
    npm_config_prefix: 'elsewhere',
    npm_config_globalconfig: '/elsewhere/etc/npmrc',
    npm_config_dry_run: 'true',
    'npm_config_package-lock': 'false',
    npm_config_https_proxy: 'http://proxy.test',
  };
  assert.deepEqual(await clone.start([], { env }).ended, { code: 0, signal: null });
  const settings = (await clone.npmCalls())[0]?.settings ?? {};
  assert.deepEqual(Object.keys(settings).toSorted(), [
    'npm_config_cache',
    'npm_config_https_proxy',
  ]);
});

test('a user without a home directory gets a temporary cache', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  await clone.finishNpm();
  const env = { npm_config_cache: '', HOME: '/dev/null/nobody' };
  assert.deepEqual(await clone.start([], { env }).ended, { code: 0, signal: null });
  const flag = (await clone.npmCalls())[0]?.args.at(-1) ?? '';
  assert.match(flag, /^--cache=.*letterhaus-npm-/);
  await assert.rejects(readdir(flag.slice('--cache='.length)), 'it is gone afterwards');
});

test('two concurrent starts install once, and both run', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  const first = clone.start();
  await first.said('npm is installing');
  const second = clone.start();
  await second.said('another process is installing in this clone');
  await clone.finishNpm();
  for (const run of [first, second]) {
    assert.deepEqual(await run.ended, { code: 0, signal: null });
    assert.equal(run.stdout, 'hello from the service\n');
  }
  assert.equal((await clone.npmCalls()).length, 1);
  assert.deepEqual(await leftovers(clone.root), []);
});

test('eight concurrent starts install once', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  await clone.finishNpm();
  const runs = Array.from({ length: 8 }, () => clone.start());
  for (const run of runs) assert.deepEqual(await run.ended, { code: 0, signal: null }, run.stderr);
  assert.equal((await clone.npmCalls()).length, 1);
  assert.deepEqual(await leftovers(clone.root), []);
});

test('releasing an install lock that was removed meanwhile is no error', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  const say = () => {};
  const done = await withInstallLock(clone.root, say, async () => {
    // The state after two others took the lock between the deletion of our name and that of the folder.
    await rm(join(clone.root, '.install-lock'), { recursive: true });
    return 'done';
  });
  assert.equal(done, 'done');
});

test('when the installing process is killed, the next start waits for its npm and then installs', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  const killed = clone.start();
  await killed.said('npm is installing');
  killed.kill('SIGKILL');
  const next = clone.start();
  await next.said('another process is installing in this clone');
  assert.equal((await clone.npmCalls()).length, 1);
  await clone.finishNpm();
  assert.deepEqual(await next.ended, { code: 0, signal: null });
  assert.equal((await clone.npmCalls()).length, 2);
  assert.deepEqual(await leftovers(clone.root), []);
});

test('a lock of a dead process does not block, even when its pid is reused', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  await mkdir(join(clone.root, '.install-lock'));
  await writeFile(join(clone.root, '.install-lock', `${process.pid}-1`), '');
  await writeFile(join(clone.root, '.install-lock', '999999999-5'), '');
  await clone.finishNpm();
  assert.deepEqual(await clone.start().ended, { code: 0, signal: null });
});

test('Ctrl-C while installing lets npm clean up and starts nothing', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  const run = clone.start();
  await run.said('npm is installing');
  run.kill('SIGINT');
  await run.said('npm is undoing');
  assert.deepEqual(await run.ended, { code: null, signal: 'SIGINT' });
  assert.equal(run.stdout, '');
  assert.deepEqual(await leftovers(clone.root), []);
});

test('a failed installation ends with one sentence and exit code 1, and is tried again', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  await clone.finishNpm(1);
  const run = clone.start();
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.match(run.stderr, /letterhaus: npm ci ended with exit code 1, .* start again\.\n$/);
  assert.equal(run.stdout, '');

  await clone.finishNpm();
  assert.deepEqual(await clone.start().ended, { code: 0, signal: null });
});

test('an installation without a working Node is reported as failed', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  const npm = join(clone.root, 'npm-cli.js');
  await writeFile(npm, '');
  const run = clone.start([], { env: { npm_execpath: npm } });
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.match(run.stderr, /letterhaus: The packages are installed, but .* does not run/);
});

test('a library of the system that Node lacks is named, with its package', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  const npm = join(clone.root, 'npm-cli.js');
  const node = join(clone.root, NODE_PATH);
  const loader = 'node: error while loading shared libraries: libatomic.so.1: cannot open';
  await writeFile(
    npm,
    `import { mkdirSync, writeFileSync } from 'node:fs';
     mkdirSync(${JSON.stringify(dirname(node))}, { recursive: true });
     writeFileSync(${JSON.stringify(node)}, "#!/bin/sh\\necho '${loader}' >&2\\nexit 127\\n", { mode: 0o755 });`,
  );
  const run = clone.start([], { env: { npm_execpath: npm } });
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.match(run.stderr, /does not run \(node: .*libatomic\.so\.1: cannot open\); .* libatomic1/);
});

test('started by another package manager, it uses the npm on PATH', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  await clone.finishNpm();
  const folder = join(clone.root, 'path');
  await mkdir(folder);
  const env = { npm_execpath: '/usr/lib/pnpm/pnpm.cjs', PATH: `${folder}:/usr/bin:/bin` };
  await writeFile(
    join(folder, 'npm'),
    `#!/bin/sh\nexec "${process.execPath}" "${clone.npm}" "$@"\n`,
  );
  await chmod(join(folder, 'npm'), 0o755);
  assert.deepEqual(await clone.start([], { env }).ended, { code: 0, signal: null });
  assert.equal((await clone.npmCalls()).length, 1);
});

test('without npm, one sentence says what to install', async () => {
  await using clone = await makeClone(HELLO, 'empty');
  const env = { npm_execpath: '', PATH: join(clone.root, 'nothing') };
  const run = clone.start([], { env });
  assert.deepEqual(await run.ended, { code: 1, signal: null });
  assert.match(
    run.stderr,
    /letterhaus: npm could not be started .* install Node with its npm\.\n$/,
  );
});

/** Files of the lock that are still there. */
async function leftovers(root: string): Promise<string[]> {
  return (await readdir(root)).filter((name) => name.startsWith('.install-lock'));
}
