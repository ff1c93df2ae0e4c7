/** Templates of other services: translated over HTTP, imported by command line, and sent with. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertFailure } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { temporaryFolder } from '../support/embedded.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

type Body = ApiResponse['body'];

const translate = (body: object) => service.request('POST', '/v1/templates/translate', { body });

const SOURCE = {
  subject: 'Order {{order.number}}',
  html: '<p>Hi {{#if name}}{{name}}{{else}}friend{{/if}}</p>\n{{#each items}}\n<li>{{this.title}} {{{this.note}}}</li>\n{{/each}}\n',
};

test('a translated template is stored, previewed and reads as the original did', async () => {
  const { status, body } = await translate({ syntax: 'handlebars', ...SOURCE });
  assert.equal(status, 200);
  assert.deepEqual([body.problems, body.translated], [[], 9]);
  const { subject, html, variables } = body;
  const made = await service.request('POST', '/v1/templates', {
    body: { name: 'Order', alias: 'order', subject, html, variables },
  });
  assert.equal(made.status, 201, made.text);
  const items = [{ title: '<Tea>', note: '<b>hot</b>' }, { title: 'Cup' }];
  const preview = await service.request('POST', '/v1/templates/order/preview', {
    body: { variables: { order: { number: 7 }, items } },
  });
  assert.deepEqual(preview.body, {
    object: 'rendered_template',
    subject: 'Order 7',
    html: '<p>Hi friend</p>\n<li>&lt;Tea&gt; <b>hot</b></li>\n<li>Cup </li>\n',
    text: null,
  });
});

test('text without a translation is reported with part and line, and nothing is stored', async () => {
  const before = (await service.request('GET', '/v1/templates')).body.data.length;
  const { status, body } = await translate({
    syntax: 'handlebars',
    subject: '{{upper name}}',
    html: 'a\n{{> footer}}\n{{name}}',
  });
  assert.equal(status, 200);
  assert.deepEqual(
    body.problems.map(({ field, line }: Body) => [field, line]),
    [
      ['subject', 1],
      ['html', 2],
    ],
  );
  assert.equal(body.html, 'a\n{{ name }}');
  assert.equal((await service.request('GET', '/v1/templates')).body.data.length, before);
  const many = await translate({ syntax: 'handlebars', text: '{{x}}'.repeat(3_000) });
  assert.match(many.body.problems[0].message, /has more than 2000 tags/);
  assertFailure(await translate({ syntax: 'erb', html: 'x' }), 422, 'validation_error', /syntax/);
  assertFailure(await translate({ syntax: 'resend' }), 422, 'validation_error', /nothing to trans/);
  const long = await translate({ syntax: 'resend', html: 'x'.repeat(300_000) });
  assertFailure(long, 422, 'validation_error', /html/);
});

const folder = temporaryFolder();
const file = (name: string, content: string | object): string => {
  const path = join(folder, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
};
const run = (...args: string[]) =>
  service.cli('templates', 'import', '--environment', 'test', ...args);

test('the command line imports a file of Handlebars as a draft', async () => {
  const path = file('welcome.hbs', 'Hi {{name}}{{#if vip}}!{{/if}}');
  const options = ['--syntax', 'handlebars', '--subject', 'Hi {{name}}'];
  const made = await run(path, ...options, '--alias', 'welcome', '--variable', 'name:string=you');
  assert.equal(made.code, 0, made.stderr);
  assert.match(
    made.stdout,
    /^4 tags translated, 0 not\.\nVariables: name: string = "you", vip: bool/,
  );
  const { body } = await service.request('GET', '/v1/templates/welcome');
  assert.deepEqual([body.name, body.published_version], ['welcome.hbs', null]);
  assert.equal(body.html, 'Hi {{ name }}{% if vip and vip != empty and vip != 0 %}!{% endif %}');
  const nameless = await run(path, '--syntax', 'handlebars');
  assert.deepEqual([nameless.code, /--subject/.test(nameless.stderr)], [2, true]);
});

test('a template that cannot be translated as a whole is stored only with --partial', async () => {
  const path = file('half.hbs', 'Hi {{name}}\n{{formatDate at}}\n');
  const options = [path, '--syntax', 'handlebars', '--subject', 'x', '--alias', 'half'];
  const refused = await run(...options);
  assert.equal(refused.code, 1);
  assert.match(
    refused.stdout,
    /^html, line 2: the helper formatDate .*\n1 tags? translated, 1 not/,
  );
  assert.match(refused.stdout, /Nothing is stored: 1 place has no translation\. --partial/);
  const dry = await run(...options, '--dry-run', '--partial');
  assert.equal(dry.code, 1);
  assert.match(dry.stdout, /^Subject: x\n\nHi \{\{ name \}\}/);
  assert.equal((await service.request('GET', '/v1/templates/half')).status, 404);
  const partial = await run(...options, '--partial');
  assert.equal(partial.code, 0, partial.stderr);
  const { body } = await service.request('GET', '/v1/templates/half');
  assert.equal(body.html, 'Hi {{ name }}\n\n');
});

test('the JSON of the APIs of other services brings name, subject and contents', async () => {
  const exports: [string, object, string][] = [
    [
      'resend',
      {
        object: 'template',
        name: 'T',
        alias: 'from-resend',
        subject: 'S {{{NAME}}}',
        html: 'H {{{NAME}}}',
        text: 'P',
        variables: [{ key: 'NAME', type: 'string', fallback_value: 'you' }],
      },
      'H {{ NAME }}',
    ],
    [
      'handlebars',
      {
        name: 'T',
        versions: [
          { active: 0, subject: 'old', html_content: 'old' },
          { active: 1, name: 'v2', subject: 'S', html_content: 'H {{{x}}}', plain_content: 'P' },
        ],
      },
      'H {{ x | raw }}',
    ],
    [
      'handlebars',
      { template: { name: 'T', version: { template: 'H {{x}}', headers: { Subject: 'S' } } } },
      'H {{ x }}',
    ],
    [
      'handlebars',
      { TemplateName: 'T', TemplateContent: { Subject: 'S', Text: 'P', Html: 'H {{x}}' } },
      'H {{ x }}',
    ],
    [
      'handlebars',
      { Template: { TemplateName: 'T', SubjectPart: 'S', HtmlPart: 'H', TextPart: 'P' } },
      'H',
    ],
    ['handlebars', { Name: 'T', Alias: 'Not.Ours', Subject: 'S', HtmlBody: 'H' }, 'H'],
  ];
  for (const [syntax, content, html] of exports) {
    const path = file('export.json', content);
    const made = await run(path, '--syntax', syntax, '--json');
    assert.equal(made.code, 0, made.stderr);
    const { template } = JSON.parse(made.stdout);
    assert.equal(template.html, html);
    assert.match(template.name, /^(T|v2)$/);
    assert.match(template.subject, /^S/);
  }
  const { body } = await service.request('GET', '/v1/templates/from-resend');
  assert.deepEqual(body.variables, [{ name: 'NAME', type: 'string', default: 'you' }]);
});
