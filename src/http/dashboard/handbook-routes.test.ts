/** The files of the handbook over HTTP: by exact name, compressed, for strangers. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import fastify from 'fastify';
import { Handbook, registerHandbookRoutes } from './handbook-routes.ts';

const root = await mkdtemp(join(tmpdir(), 'letterhaus-handbook-'));
after(() => rm(root, { recursive: true, force: true }));
await writeFile(join(root, 'secret.html'), 'not a page');

function appWith(folder: string) {
  const app = fastify();
  app.decorate('rootFormat', null);
  registerHandbookRoutes(app, new Handbook(folder));
  return app;
}

async function write(folder: string, files: Record<string, string | Buffer>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), content);
  }
}

const built = join(root, 'built');
await write(built, {
  'index.html': 'first page',
  'sending.html': 'sending',
  'sending.html.br': brotliCompressSync('sending'),
  'sending.md': '# Sending',
  'alarms/down.html': 'down',
  '404.html': 'no such page',
  'assets/a-1234.js': 'script',
});
const app = appWith(built);
const browser = { accept: 'text/html,*/*' };

test('pages, their Markdown and their files are served by exact name', async () => {
  const bodyOf = async (url: string) => {
    const { statusCode, body } = await app.inject(url);
    return `${statusCode} ${body}`;
  };
  assert.equal(await bodyOf('/docs'), '200 first page');
  assert.equal(await bodyOf('/docs/sending'), '200 sending');
  assert.equal(await bodyOf('/docs/sending.md'), '200 # Sending');
  assert.equal(await bodyOf('/docs/alarms/down'), '200 down');
  assert.equal(await bodyOf('/docs/'), '200 first page');
  assert.equal(await bodyOf('/docs/sending/'), '200 sending');
  const asset = await app.inject('/docs/assets/a-1234.js');
  assert.equal(asset.headers['cache-control'], 'public, max-age=31536000, immutable');
  assert.equal(asset.headers['content-type'], 'text/javascript; charset=utf-8');
});

test('a page allows scripts and styles only as files of the service, and may not be framed', async () => {
  const { headers } = await app.inject('/docs/sending');
  const policy = String(headers['content-security-policy']);
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
});

test('a page comes compressed, and not again when the browser has it', async () => {
  const first = await app.inject({
    url: '/docs/sending',
    headers: { 'accept-encoding': 'gzip, br' },
  });
  assert.equal(first.headers['content-encoding'], 'br');
  const etag = String(first.headers['etag']);
  const again = await app.inject({ url: '/docs/sending', headers: { 'if-none-match': etag } });
  assert.equal(again.statusCode, 304);
  assert.equal(again.body, '');
});

test('no path leads out of the handbook', async () => {
  for (const path of [
    '../secret',
    '..%2fsecret',
    '%2e%2e/secret',
    '..%5csecret',
    'alarms/../../secret',
    '%00',
    '/etc/passwd',
  ]) {
    const { statusCode, body } = await app.inject(`/docs/${path}`);
    assert.equal(statusCode, 404, path);
    assert.doesNotMatch(body, /not a page|root:/, path);
  }
});

test('for an unknown address a browser gets a page, and a program the failure of the API', async () => {
  const page = await app.inject({ url: '/docs/none', headers: browser });
  assert.deepEqual([page.statusCode, page.body], [404, 'no such page']);
  const failure = await app.inject('/docs/none');
  assert.equal(failure.statusCode, 404);
  assert.equal(failure.json().error.code, 'not_found');
});

test('while the handbook is not built there is the API reference, and later the handbook', async () => {
  const folder = join(root, 'later');
  const late = appWith(folder);
  for (const url of ['/docs', '/docs/reference'])
    assert.match((await late.inject(url)).body, /<h3><a href="#sendEmail">/);
  assert.equal((await late.inject('/docs/sending')).statusCode, 503);
  await write(folder, { 'index.html': 'first page', '404.html': 'no such page' });
  assert.equal((await late.inject('/docs')).body, 'first page');
});
