/** Emails from a template: single, in a batch, repeated, and refused. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, UNKNOWN_ID } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

type Body = ApiResponse['body'];

const TO = { from: 'Acme <hello@acme.test>', to: 'delivered@simulator.test' };

const post = (path: string, body: object, options: object = {}) =>
  service.request('POST', path, { body, ...options });

/** Made and published. */
async function published(template: object): Promise<string> {
  const made = await post('/v1/templates', {
    name: 'x',
    variables: [{ name: 'name' }],
    ...template,
  });
  assert.equal(made.status, 201, made.text);
  const { status, text } = await post(`/v1/templates/${made.body.id}/publish`, {});
  assert.equal(status, 200, text);
  return made.body.id;
}

const welcome = await published({
  alias: 'welcome',
  subject: 'Welcome, {{ name }}',
  html: '<p>Hello {{ name }}</p>',
  text: 'Hello {{ name }}',
});

const send = (template: object, more: object = {}, options: object = {}) =>
  post('/v1/emails', { ...TO, template, ...more }, options);

async function contentOf({ body }: ApiResponse): Promise<Body> {
  const { status, body: email } = await service.request('GET', `/v1/emails/${body.id}`);
  assert.equal(status, 200);
  return { subject: email.subject, html: email.html, text: email.text };
}

test('an email is made of the published version of a template, by its id or its alias', async () => {
  for (const id of [welcome, 'welcome']) {
    const response = await send({ id, variables: { name: 'Jo & <Co>' } });
    assert.equal(response.status, 202, response.text);
    assert.deepEqual(await contentOf(response), {
      subject: 'Welcome, Jo & <Co>',
      html: '<p>Hello Jo &amp; &lt;Co&gt;</p>',
      text: 'Hello Jo & <Co>',
    });
  }
});

test('fields of null or no characters beside a template count as absent', async () => {
  const template = { id: 'welcome', variables: { name: 'Jo' } };
  const response = await send(template, { subject: '', html: null, text: '' });
  assert.equal((await contentOf(response)).subject, 'Welcome, Jo');
});

test('the subject of an email takes the place of the template’s, and completes one without', async () => {
  const without = await published({ html: '<p>Hi {{ name }}</p>', subject: null });
  const empty = await published({ text: 'Hi {{ name }}', subject: '' });
  const variables = { name: 'Jo' };
  for (const id of ['welcome', without, empty]) {
    const subject = '{{ name }}, this is not Liquid';
    const response = await send({ id, variables }, { subject, reply_to: 'help@acme.test' });
    assert.equal(response.status, 202, response.text);
    const content = await contentOf(response);
    assert.equal(content.subject, subject);
    assert.match(content.html ?? content.text, /Jo/);
  }
  const shown = await service.request('GET', `/v1/templates/${without}`);
  assert.equal(shown.body.subject, '');
  const batch = [{ ...TO, subject: 'Own', template: { id: without, variables } }];
  const accepted = await post('/v1/emails/batch', batch);
  assert.equal((await contentOf({ ...accepted, body: accepted.body.data[0] })).subject, 'Own');
  const none = await send({ id: without, variables });
  assertFailure(
    none,
    422,
    'validation_error',
    /^subject: is required, since the template has none$/,
  );
  const broken = await send({ id: 'welcome', variables }, { subject: 'a\r\nBcc: b@c.d' });
  assertFailure(broken, 422, 'validation_error', /^subject: has control/);
});

test('an accepted email stays unchanged when its template is changed or deleted', async () => {
  const id = await published({ subject: 'First {{ name }}', text: 'First' });
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const response = await send({ id, variables: { name: 'Jo' } }, { scheduled_at });
  await service.request('PATCH', `/v1/templates/${id}`, { body: { subject: 'Second' } });
  await post(`/v1/templates/${id}/publish`, {});
  assert.equal((await contentOf(response)).subject, 'First Jo');
  const next = await send({ id, variables: { name: 'Jo' } });
  assert.equal((await contentOf(next)).subject, 'Second');
  await service.request('DELETE', `/v1/templates/${id}`);
  assert.equal((await contentOf(response)).subject, 'First Jo');
});

test('every worker uses a published version at once', async () => {
  const id = await published({ subject: 'Version 1', text: 'x', variables: [] });
  for (let version = 2; version <= 6; version += 1) {
    await service.request('PATCH', `/v1/templates/${id}`, {
      body: { subject: `Version ${version}` },
    });
    await post(`/v1/templates/${id}/publish`, {});
    const sent = await Promise.all([1, 2, 3, 4].map(() => send({ id })));
    for (const response of sent) {
      assert.equal((await contentOf(response)).subject, `Version ${version}`);
    }
  }
});

test('every fault in a template or its variables is named, and nothing is accepted', async () => {
  const draft = await post('/v1/templates', { name: 'x', subject: 'x', text: 'x' });
  const empty = await published({ subject: '{{ name }}', text: 'x' });
  const newest = async () => (await service.request('GET', '/v1/emails?limit=1')).body.data[0].id;
  const before = await newest();
  const variables = { name: 'Jo' };
  const refused: [object, RegExp][] = [
    [{ template: { id: 'welcome' } }, /^template\.variables\.name: is required$/],
    [
      { template: { id: 'welcome', variables: { nmae: 'x' } } },
      /^template\.variables\.nmae: is not a variable/,
    ],
    [
      { template: { id: 'welcome', variables: { name: 7 } } },
      /^template\.variables\.name: must be a string, not a number$/,
    ],
    [{ template: { id: UNKNOWN_ID, variables } }, /^template\.id: there is no template/],
    [{ template: { id: 'nothing', variables } }, /^template\.id: there is no template/],
    [{ template: { id: draft.body.id } }, /^template\.id: has no published version/],
    [{ template: { id: 'welcome', version: 1 } }, /^template\.version: is not a field/],
    [{ template: 'welcome' }, /^template: must be an object/],
    [
      { template: { id: 'welcome', variables }, html: 'Hi' },
      /^html: cannot be combined with a template/,
    ],
    [
      { template: { id: 'welcome', variables }, text: 'Hi' },
      /^text: cannot be combined with a template/,
    ],
    [{ template: { id: empty, variables: { name: '' } } }, /^template: its subject is empty/],
    [
      { template: { id: empty, variables: { name: 'a\r\nBcc: b@c.d' } } },
      /^template: its subject has control/,
    ],
    [
      { template: { id: empty, variables: { name: 'x'.repeat(999) } } },
      /^template: its subject is longer/,
    ],
    [{}, /^subject: is required/],
  ];
  for (const [more, message] of refused) {
    assertFailure(await post('/v1/emails', { ...TO, ...more }), 422, 'validation_error', message);
  }
  assert.equal(await newest(), before);
});

test('templates of another project or environment are not found', async () => {
  const key = await service.liveKey();
  const live = await send({ id: welcome, variables: { name: 'Jo' } }, {}, { key });
  assertFailure(live, 422, 'validation_error', /^template\.id: there is no template/);
});

test('a key that may only send uses the templates of its project', async () => {
  const { body } = await post('/v1/api-keys', { name: 'sender', permission: 'sending_access' });
  const response = await send({ id: 'welcome', variables: { name: 'Jo' } }, {}, { key: body.key });
  assert.equal(response.status, 202, response.text);
});

test('a repeated request gets the same response, even if the template is gone since', async () => {
  const id = await published({ subject: 'Hi {{ name }}', text: 'Hi' });
  const template = { id, variables: { name: 'Jo' } };
  const options = { headers: { 'idempotency-key': 'templated' } };
  const first = await send(template, {}, options);
  assert.equal(first.status, 202);
  const variables = [{ name: 'name' }, { name: 'more' }];
  await service.request('PATCH', `/v1/templates/${id}`, { body: { variables } });
  const changes = [
    () => post(`/v1/templates/${id}/publish`, {}),
    () => service.request('DELETE', `/v1/templates/${id}`),
  ];
  for (const change of changes) {
    await change();
    const again = await send(template, {}, options);
    assert.deepEqual([again.status, again.text], [200, first.text]);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    const other = await send({ id, variables: { name: 'Ann' } }, {}, options);
    assertFailure(other, 409, 'idempotency_conflict');
  }
  assertFailure(await send(template), 422, 'validation_error', /^template\.id: /);
});

test('each email of a batch has its own template and variables', async () => {
  const items = ['Jo', 'Ann'].map((name) => ({
    ...TO,
    template: { id: 'welcome', variables: { name } },
  }));
  const plain = { ...TO, subject: 'Plain', text: 'Plain' };
  const response = await post('/v1/emails/batch', [...items, plain]);
  assert.equal(response.status, 202, response.text);
  const subjects = await Promise.all(
    response.body.data.map(
      async ({ id }: Body) => (await service.request('GET', `/v1/emails/${id}`)).body.subject,
    ),
  );
  assert.deepEqual(subjects, ['Welcome, Jo', 'Welcome, Ann', 'Plain']);

  const wrong = { ...TO, template: { id: 'welcome' } };
  const strict = await post('/v1/emails/batch', [...items, wrong]);
  assertFailure(strict, 422, 'validation_error', /^\[2\]\.template\.variables\.name: is required/);
  const headers = { 'x-batch-validation': 'permissive' };
  const { body } = await post('/v1/emails/batch', [wrong, ...items], { headers });
  assert.equal(body.data.length, 2);
  assert.deepEqual([body.errors[0].index, body.errors.length], [0, 1]);
});

test('a repeated batch gets the same response, even if its template is gone since', async () => {
  for (const validation of ['strict', 'permissive']) {
    const id = await published({ subject: 'Hi {{ name }}', text: 'Hi' });
    const batch = [{ ...TO, template: { id, variables: { name: 'Jo' } } }];
    const headers = { 'idempotency-key': `batch ${validation}`, 'x-batch-validation': validation };
    const first = await post('/v1/emails/batch', batch, { headers });
    assert.equal(first.body.data.length, 1, first.text);
    await service.request('DELETE', `/v1/templates/${id}`);
    const again = await post('/v1/emails/batch', batch, { headers });
    assert.deepEqual([again.status, again.text], [200, first.text]);
  }
});

test('while hostile variables are refused, other requests get their response', async () => {
  const id = await published({
    subject: 'x',
    html: '{% for a in list %}{% for b in list %}{% for c in list %}{{ c }}{% endfor %}{% endfor %}{% endfor %}',
    variables: [{ name: 'list', type: 'list' }],
  });
  const list = Array.from({ length: 1_000 }, (_, index) => `item ${index}`);
  const email = { ...TO, template: { id, variables: { list } } };
  const state: { response: ApiResponse | null } = { response: null };
  const refusing = post(
    '/v1/emails/batch',
    Array.from({ length: 40 }, () => email),
  ).then((response) => (state.response = response));
  let answered = 0;
  for (; state.response === null; answered += 1) {
    const { status } = await service.request('GET', '/v1/projects');
    assert.equal(status, 200);
  }
  const message =
    /^\[0\]\.template: its html takes too much work to render.* \(and 39 more problems\)$/;
  assertFailure(await refusing, 422, 'validation_error', message);
  assert.ok(answered > 3, String(answered));
});

test('the templates of a batch have a common budget of work', async () => {
  const id = await published({
    subject: 'x',
    html: '{% for a in list %}{% for b in list %}{{ b }}{% endfor %}{% endfor %}',
    variables: [{ name: 'list', type: 'list' }],
  });
  const list = Array.from({ length: 70 }, () => 'x');
  const email = { ...TO, template: { id, variables: { list } } };
  const alone = await post('/v1/emails', email);
  assert.equal(alone.status, 202, alone.text);
  const batch = Array.from({ length: 100 }, () => email);
  const message = /template: the templates of this request take too much work.* send fewer emails/;
  const response = await post('/v1/emails/batch', batch);
  assertFailure(response, 422, 'validation_error', message);
});

test('the text that templates render is bounded like the body of a request', async () => {
  const id = await published({
    subject: 'x',
    html: `{% for a in (1..1000) %}${'x'.repeat(1_000)}{% endfor %}`,
    variables: [],
  });
  const email = { ...TO, template: { id } };
  const batch = Array.from({ length: 100 }, () => email);
  const response = await post('/v1/emails/batch', batch);
  const message = /^\[\d+\]\.template: the templates of this request make more than 45 MB/;
  assertFailure(response, 422, 'validation_error', message);
  // Half as many characters, each of two bytes.
  const wide = await published({
    subject: 'x',
    html: `{% for a in (1..500) %}${'ü'.repeat(1_000)}{% endfor %}`,
    variables: [],
  });
  const wideBatch = Array.from({ length: 60 }, () => ({ ...TO, template: { id: wide } }));
  assertFailure(await post('/v1/emails/batch', wideBatch), 422, 'validation_error', message);
});

test('domain, key and limit are checked before the template is rendered', async () => {
  const id = await published({
    subject: 'x',
    variables: [],
    html: '{% for a in (1..100000) %}{% for b in (1..100000) %}{{ a }}{% endfor %}{% endfor %}',
  });
  const email = { ...TO, template: { id } };
  const rendering = /takes too much work/;
  assertFailure(await post('/v1/emails', email), 422, 'validation_error', rendering);

  const elsewhere = await post('/v1/emails', { ...email, from: 'us@other.test' });
  assertFailure(elsewhere, 403, 'domain_not_verified');
  const misspelt = await post('/v1/emails', { ...email, to: 'jo' });
  assertFailure(misspelt, 422, 'validation_error', /^to: /);
  const { body } = await post('/v1/domains', { name: 'second.test' });
  const limited = await post('/v1/api-keys', { name: 'x', domain: body.name });
  const { key } = limited.body;
  assertFailure(await post('/v1/emails', email, { key }), 403, 'authorization_error');

  const set = (limit: string) =>
    service.cliJson('projects', 'set-limit', limit, '--environment', 'test');
  await set('1/60');
  await post('/v1/emails', { ...TO, subject: 'x', text: 'x' });
  for (const request of [email, [email]]) {
    const response = await post(
      Array.isArray(request) ? '/v1/emails/batch' : '/v1/emails',
      request,
    );
    assertFailure(response, 429, 'rate_limit_error');
    assert.ok(response.headers.get('retry-after'));
  }
  await set('default');
});
