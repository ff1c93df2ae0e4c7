/** The package as it is published: built, without dependencies, and doing what its README says. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startService } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const TSC = join(ROOT, 'node_modules/.bin/tsc');
const run = promisify(execFile);

/** Of a project that uses the package. */
const STRICT = {
  module: 'nodenext',
  target: 'es2024',
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  types: ['node'],
  typeRoots: [join(ROOT, 'node_modules/@types')],
};

const folder = await mkdtemp(join(tmpdir(), 'letterhaus-sdk-'));
after(() => rm(folder, { recursive: true }));
const installed = join(folder, 'node_modules/@letterhaus/sdk');

test('the package is built from its sources, and needs nothing but the standard of the web', async () => {
  await mkdir(installed, { recursive: true });
  await run(TSC, ['-p', join(ROOT, 'sdk'), '--outDir', join(installed, 'dist')]);
  await cp(join(ROOT, 'sdk/package.json'), join(installed, 'package.json'));
  const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  assert.deepEqual([manifest.dependencies, manifest.peerDependencies], [undefined, undefined]);
  const files = await readdir(join(installed, 'dist'));
  assert.ok(files.includes('index.js') && files.includes('index.d.ts'));
  for (const file of files.filter((name) => name.endsWith('.js'))) {
    const code = await readFile(join(installed, 'dist', file), 'utf8');
    const imported = [...code.matchAll(/^(?:import|export)\b.* from '([^']+)'/gm)];
    for (const [, name = ''] of imported) assert.match(name, /^\.\//);
    assert.doesNotMatch(code, /\bBuffer\b|\brequire\(/);
  }
});

test('every example of the README compiles and runs', async () => {
  const readme = await readFile(join(ROOT, 'sdk/README.md'), 'utf8');
  const examples = [...readme.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = '']) => code);
  assert.ok(examples.length >= 8);
  await writeFile(join(folder, 'package.json'), '{"type": "module"}');
  const files = examples.map((_, index) => join(folder, `example-${index}.ts`));
  await Promise.all(files.map((file, index) => writeFile(file, examples[index]!)));
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: STRICT }));
  await run(TSC, ['-p', folder]);
  await using service = await startService();
  const env = { ...service.env, LETTERHAUS_URL: service.url, LETTERHAUS_API_KEY: service.testKey };
  let printed = '';
  for (const file of files) {
    const { stdout, stderr } = await run(process.execPath, [file], { env, timeout: 60_000 });
    assert.equal(stderr, '', file);
    printed += stdout;
  }
  // Not email.bounced: an example reads events at once, and the simulator may answer later.
  for (const text of ['true', 'email.queued', 'validation_error', 'email.delivered']) {
    assert.ok(printed.includes(text), `${text} in ${printed}`);
  }
});
