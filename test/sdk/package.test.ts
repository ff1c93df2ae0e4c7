/** The published package is built, has no dependencies, and its README has examples that run. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { packSdk } from '../../scripts/package/sdk.ts';
import { startService } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const TSC = join(ROOT, 'node_modules/.bin/tsc');
const run = promisify(execFile);

/** Compiler options of a project that uses the package. */
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

test('the package of a release is built from its sources and needs only web standards', async () => {
  await mkdir(installed, { recursive: true });
  const archive = packSdk(folder);
  await run('tar', ['-xzf', archive, '-C', installed, '--strip-components=1']);
  const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  assert.deepEqual([manifest.dependencies, manifest.peerDependencies], [undefined, undefined]);
  const files = await readdir(join(installed, 'dist'));
  assert.ok(files.includes('index.js') && files.includes('index.d.ts'));
  for (const file of files.filter((name) => name.endsWith('.js'))) {
    const code = await readFile(join(installed, 'dist', file), 'utf8');
    const imported = [...code.matchAll(/^(?:import|export)\b.* from '([^']+)'/gm)];
    for (const [, name = ''] of imported) assert.match(name, /^\.\//);
    assert.doesNotMatch(code, /\bBuffer *[.(]|\brequire\(/);
  }
});

test('the package has source maps with its sources, and names its repository', async () => {
  const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  assert.equal(manifest.repository.directory, 'sdk');
  assert.ok(manifest.keywords.includes('transactional-email'));
  const files = await readdir(join(installed, 'dist'));
  for (const file of files.filter((name) => name.endsWith('.js'))) {
    const code = await readFile(join(installed, 'dist', file), 'utf8');
    assert.ok(code.trimEnd().endsWith(`//# sourceMappingURL=${file}.map`), file);
    const map = JSON.parse(await readFile(join(installed, 'dist', `${file}.map`), 'utf8'));
    const source = await readFile(join(ROOT, 'sdk/src', file.replace('.js', '.ts')), 'utf8');
    assert.deepEqual(map.sourcesContent, [source], file);
  }
});

/** Compiles only while `type` distinguishes the events, and each has its own data. */
const NARROWING = `
import { type EventType, Letterhaus, type StreamEvent, verifyWebhook, type WebhookEvent } from '@letterhaus/sdk';

export function about(event: WebhookEvent | StreamEvent): string {
  switch (event.type) {
    case 'email.queued':
      // @ts-expect-error: this event is about the whole email
      return event.data.recipient;
    case 'email.bounced':
      return event.data.recipient + event.data.reason.advice + String(event.data.smtp?.code ?? '');
    case 'email.opened':
      // @ts-expect-error: only clicks have it
      return event.data.click;
    case 'email.clicked':
      return event.data.click.link;
    case 'domain.verified':
      return event.data.name + event.data.records.map(({ record }) => record).join();
    case 'suppression.added':
      return event.data.address;
    case 'project.reputation_alert':
      return event.data.rate;
    case 'disk.low':
      return event.data.remedy ?? event.data.message;
    // @ts-expect-error: there is no such type
    case 'email.bounce':
      return '';
    case 'webhook.test':
      return event.data.webhook_id;
    default:
      return event.type satisfies EventType;
  }
}

export const links = async (letterhaus: Letterhaus): Promise<string[]> => {
  const found: string[] = [];
  for await (const event of letterhaus.events.stream({ types: 'email.clicked' })) {
    if (event.type === 'email.clicked') found.push(event.data.click.link, event.cursor);
  }
  return found;
};

export const recipient = async (request: Request): Promise<string | undefined> => {
  const { headers } = request;
  const event = await verifyWebhook({ payload: await request.text(), headers, secret: 'whsec_eA==' });
  return event.type === 'email.delivered' ? event.data.recipient : undefined;
};

export const attach = (letterhaus: Letterhaus, file: File, bytes: Uint8Array) =>
  letterhaus.emails.send({
    from: 'a@b.c',
    to: 'd@e.f',
    subject: 'x',
    text: 'x',
    attachments: [
      { content: file },
      { filename: 'a', content: bytes },
      { filename: 'b', content: 'YQ==' },
      { filename: 'c', path: 'https://acme.test/c' },
      // @ts-expect-error: bytes have no name
      { content: bytes },
    ],
  });
`;

test('the type of an event determines the type of its data', async () => {
  const project = join(folder, 'types');
  await mkdir(project);
  await writeFile(join(project, 'package.json'), '{"type": "module"}');
  await writeFile(join(project, 'narrowing.ts'), NARROWING);
  await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: STRICT }));
  await run(TSC, ['-p', project]);
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
