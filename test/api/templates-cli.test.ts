/** `letterhaus templates` and `letterhaus send --template`. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/embedded.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const folder = temporaryFolder();
const html = join(folder, 'receipt.html');
writeFileSync(html, '<p>Thank you, {{ name }}: {{ total }}</p>\n');

const templates = (command: string, ...args: string[]) =>
  service.cliJson('templates', command, '--environment', 'test', ...args);

test('a template is made, changed, previewed, published, sent with and removed', async () => {
  const variables = ['--variable', 'name', '--variable', 'total:number=0'];
  const content = ['--subject', 'Your receipt, {{ name }}', '--html-file', html];
  const named = ['--name', 'Receipt', '--alias', 'receipt'];
  const made = await templates('create', ...named, ...content, ...variables);
  assert.deepEqual(made.variables, [
    { name: 'name', type: 'string' },
    { name: 'total', type: 'number', default: 0 },
  ]);
  const { body } = await service.request('GET', '/v1/templates/receipt');
  assert.deepEqual(made, body);

  const changed = await templates('update', 'receipt', '--text', 'Thank you, {{ name }}.');
  assert.equal(changed.text, 'Thank you, {{ name }}.');
  const values = ['--variable', 'name=Jo', '--variable', 'total:=12.5'];
  const preview = await templates('preview', made.id, ...values);
  assert.deepEqual(preview, {
    object: 'rendered_template',
    subject: 'Your receipt, Jo',
    html: '<p>Thank you, Jo: 12.5</p>\n',
    text: 'Thank you, Jo.',
  });
  const file = join(folder, 'values.json');
  writeFileSync(file, '{"name": "Ann", "total": 7}');
  const other = await templates(
    'preview',
    made.id,
    '--variables-file',
    file,
    '--variable',
    'name=Jo',
  );
  assert.equal(other.html, '<p>Thank you, Jo: 7</p>\n');

  assert.equal((await templates('publish', 'receipt')).published_version, 1);
  const shown = await service.cli('templates', 'show', 'receipt', '--environment', 'test');
  assert.match(shown.stdout, /^variables +name: string, total: number = 0$/m);
  assert.match(shown.stdout, /^<p>Thank you, \{\{ name \}\}: \{\{ total \}\}<\/p>$/m);
  const listed = await service.cli('templates', 'list');
  assert.match(listed.stdout, /receipt +Receipt +test +version 1/);

  const addressed = ['--from', 'hello@acme.test', '--to', 'delivered@simulator.test'];
  const access = ['--key', service.testKey, '--url', service.url];
  const sent = await service.cliJson(
    'send',
    ...addressed,
    ...access,
    '--template',
    'receipt',
    ...values,
  );
  const { body: email } = await service.request('GET', `/v1/emails/${sent.id}`);
  assert.deepEqual([email.subject, email.text], ['Your receipt, Jo', 'Thank you, Jo.']);

  assert.equal((await templates('remove', 'receipt')).deleted, true);
  const gone = await service.cli('templates', 'show', 'receipt', '--environment', 'test');
  assert.equal(gone.code, 1);
  assert.match(gone.stderr, /no template with this id or alias/);
});

test('a refused command says why, with exit code 2 for wrong usage', async () => {
  const wrong: [string[], RegExp][] = [
    [['create', '--subject', 'x'], /needs --name/],
    [
      ['create', '--name', 'x', '--subject', '{{ a }}', '--text', 'x'],
      /subject: uses a, which is not declared/,
    ],
    [
      ['create', '--name', 'x', '--subject', 'x', '--html-file', join(folder, 'none')],
      /cannot be read/,
    ],
    [['create', '--variable', 'a:text'], /types: string, number/],
    [['preview', 'x', '--variable', 'a'], /name=text, or as name:=json/],
    [['preview', 'x', '--variable', 'a:=b'], /"b" is not JSON/],
    [['show', 'x', '--version', '0'], /A version is a number/],
  ];
  for (const [args, message] of wrong) {
    const { code, stderr } = await service.cli('templates', ...args);
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
  }
});

test('the help of each command has an example that it understands', async () => {
  for (const name of ['list', 'show', 'create', 'update', 'publish', 'preview', 'remove']) {
    const { stdout } = await service.cli('templates', name, '--help');
    assert.match(stdout, new RegExp(`Example:\\n  letterhaus templates ${name} `));
  }
});
