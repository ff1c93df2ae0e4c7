/**
 * Processes that drop root, with real users: what they can still read. test/journey/privileges.test.ts has a whole
 * service.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import pino from 'pino';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { SOURCE, valueImportsOf } from '../../../test/tidy/source.ts';
import { SharedFiles } from './privileges.ts';

const USER = { uid: process.geteuid!(), gid: process.getegid!() };
const log = pino({ level: 'silent' });

test('a folder for certificates is created when needed and removed afterwards', () => {
  const folder = temporaryFolder();
  const parent = temporaryFolder();
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  writeFileSync(cert, 'certificate');
  writeFileSync(key, 'key');
  {
    using files = new SharedFiles(USER, { dataDir: folder, log, parent });
    assert.deepEqual(readdirSync(parent), [], 'no certificates, no folder');
    const copies = files.share({ cert, key });
    assert.deepEqual(
      [copies.cert, copies.key].map((file) => readFileSync(file, 'utf8')),
      ['certificate', 'key'],
    );
    assert.equal(readdirSync(parent).length, 1);
  }
  assert.deepEqual(readdirSync(parent), []);
});

test('copies of certificates left by killed processes are removed by the next start', async () => {
  const parent = temporaryFolder();
  const dataDir = temporaryFolder();
  const child = spawn(process.execPath, ['--version'], { stdio: 'ignore' });
  await once(child, 'exit');
  const elsewhere = 'letterhaus-tls-0123456789abcdef';
  for (const pid of [child.pid, process.pid]) mkdirSync(join(parent, `${elsewhere}-${pid}`));
  mkdirSync(join(parent, 'letterhaus-other'));
  using _files = new SharedFiles(USER, { dataDir, log, parent });
  // The folder of a running process stays.
  assert.deepEqual(
    readdirSync(parent).toSorted(),
    ['letterhaus-other', `${elsewhere}-${process.pid}`].toSorted(),
  );
});

/** Makes a request to itself after `loadLazyCode`, when no library can be read any more. */
const REQUEST_LATER = `
import { createServer } from 'node:http';
import { registerHooks } from 'node:module';
const [code, privileges, client] = process.argv.slice(1);
const { loadLazyCode } = await import(privileges);
const { guardedRequest } = await import(client);
await loadLazyCode(code);
registerHooks({
  load(url, context, next) {
    if (url.includes('/node_modules/')) throw new Error('EACCES');
    return next(url, context);
  },
});
const server = createServer((_request, response) => response.end('{}')).listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const answer = await guardedRequest({
  url: 'http://127.0.0.1:' + server.address().port, method: 'POST', headers: {}, body: '{}',
  guard: { allowPrivate: true, refusalReason: () => null }, allowHttp: true,
  world: { monotonicMs: () => performance.now() }, timeoutMs: 60_000, maxResponseBytes: 1_000,
}).catch((error) => ({ kind: error.message }));
process.stdout.write(answer.kind);
process.exit();
`;

test('code that others cannot read is loaded before privileges are dropped, other code on demand', () => {
  const folder = temporaryFolder();
  const file = join(folder, 'index.js');
  writeFileSync(file, '');
  const files = ['./privileges.ts', '../../net/http/guarded-client.ts'];
  const modules = files.map((name) => new URL(name, import.meta.url).href);
  const request = (code: string): string => {
    const args = ['--input-type=module', '-e', REQUEST_LATER, code, ...modules];
    return execFileSync(process.execPath, args, { encoding: 'utf8' });
  };
  chmodSync(file, 0o644);
  chmodSync(folder, 0o700);
  assert.equal(request(file), 'response', 'a folder that only its owner may enter');
  assert.equal(request('/etc/passwd'), 'EACCES', 'a file that everybody may read');
});

test('what a worker loads on demand is loaded before privileges are dropped', () => {
  const files = new Map(SOURCE.map((file) => [file.path, file]));
  const onDemandIn = (path: string): string[] => {
    const calls = files.get(path)?.text.matchAll(/(?<!typeof )\bimport\('([^']+)'\)/g) ?? [];
    return [...calls].map(([, name = '']) =>
      name.startsWith('.') ? posix.join(posix.dirname(path), name) : name,
    );
  };
  // The client and tracing load these two, which are called before as well.
  const loaded = new Set(['undici', '@opentelemetry/api']);
  const load = (path: string): void => {
    if (loaded.has(path)) return;
    loaded.add(path);
    const file = files.get(path);
    if (file !== undefined) valueImportsOf(file).forEach(load);
  };
  load('src/service/worker/worker.ts');
  // createServer loads it before `onLoaded`, which drops the privileges.
  load('src/service/worker/server-mail.ts');
  onDemandIn('src/service/machine/privileges.ts').forEach(load);
  assert.ok(loaded.size > 500, `${loaded.size} files and packages were found`);
  const late = [...loaded].flatMap((path) =>
    onDemandIn(path).flatMap((name) => (loaded.has(name) ? [] : [`${path} loads ${name}`])),
  );
  assert.deepEqual(late, []);
});
