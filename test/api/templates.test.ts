/**
 * Templates: creating, changing in versions, publishing and previewing them, and which requests are refused for whom.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

type Body = ApiResponse['body'];

const post = (path: string, body: object, key?: string) =>
  service.request('POST', path, { body, ...(key !== undefined && { key }) });
const patch = (path: string, body: object) => service.request('PATCH', path, { body });
const get = async (path: string): Promise<Body> => (await service.request('GET', path)).body;

const RECEIPT = {
  name: 'Receipt',
  subject: 'Your receipt, {{ name }}',
  html: '<p>Thank you, {{ name }}.</p>',
  variables: [{ name: 'name' }],
};

async function make(template: object = {}): Promise<Body> {
  const response = await post('/v1/templates', { ...RECEIPT, ...template });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

async function publish(id: string, body: object = {}): Promise<Body> {
  const response = await post(`/v1/templates/${id}/publish`, body);
  assert.equal(response.status, 200, response.text);
  return response.body;
}

/** Previews a template. @returns the rendered email, or the failure */
const preview = (id: string, variables: object, body: object = {}) =>
  post(`/v1/templates/${id}/preview`, { variables, ...body });

test('a template is made as a draft, and found by its id and its alias', async () => {
  const made = await make({ alias: 'receipt' });
  assert.match(made.id, UUID_V7);
  assert.match(made.created_at, TIME);
  const { id, created_at, updated_at, etag, ...rest } = made;
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.equal(updated_at, created_at);
  assert.deepEqual(rest, {
    object: 'template',
    name: 'Receipt',
    alias: 'receipt',
    latest_version: 1,
    published_version: null,
    environment: 'test',
    version: 1,
    subject: RECEIPT.subject,
    html: RECEIPT.html,
    text: null,
    variables: [{ name: 'name', type: 'string' }],
    published_at: null,
  });
  assert.deepEqual(await get(`/v1/templates/${id}`), made);
  assert.deepEqual(await get('/v1/templates/receipt'), made);
});

test('an alias is taken once', async () => {
  await make({ alias: 'welcome' });
  assertFailure(
    await post('/v1/templates', { ...RECEIPT, alias: 'welcome' }),
    409,
    'conflict',
    /welcome/,
  );
  const other = await make();
  const response = await patch(`/v1/templates/${other.id}`, { alias: 'welcome' });
  assertFailure(response, 409, 'conflict', /welcome/);
  for (const alias of ['', 'Welcome', '1st', 'a b', UNKNOWN_ID, 'a'.repeat(65)]) {
    const refused = await post('/v1/templates', { ...RECEIPT, alias });
    assertFailure(refused, 422, 'validation_error', /^alias: /);
  }
});

test('the list is newest first, in pages, without contents', async () => {
  const made = [await make(), await make(), await make()].map(({ id }) => id);
  const first = await get('/v1/templates?limit=2');
  assert.deepEqual(
    first.data.map(({ id }: Body) => id),
    [made[2], made[1]],
  );
  assert.equal(first.has_more, true);
  assert.equal('html' in first.data[0], false);
  const second = await get(`/v1/templates?limit=1&after=${made[1]}`);
  assert.equal(second.data[0].id, made[0]);
});

test('of two who change one template, the one who has not seen the other change is refused with If-Match', async () => {
  const { id, etag } = await make();
  const path = `/v1/templates/${id}`;
  const change = (subject: string, tag: string) =>
    service.request('PATCH', path, { body: { subject }, headers: { 'if-match': tag } });
  assert.equal((await service.request('GET', path)).headers.get('etag'), etag);
  const both = await Promise.all([change('One', etag), change('Two', etag)]);
  const [changed, refused] = both.toSorted((one, other) => one.status - other.status);
  assert.equal(changed!.status, 200, changed!.text);
  assert.equal(changed!.headers.get('etag'), changed!.body.etag);
  assertFailure(refused!, 412, 'precondition_failed', /read it again/i);
  assert.equal((await get(path)).subject, changed!.body.subject);

  await publish(id);
  for (const tag of [etag, changed!.body.etag, `W/${changed!.body.etag}`, 'none', '']) {
    assertFailure(await change('Three', tag), 412, 'precondition_failed', /has changed/);
  }
  const present = (await get(path)).etag;
  assert.equal((await get('/v1/templates?limit=1')).data[0].etag, undefined);
  assert.equal((await change('Three', `"other", ${present}`)).status, 200);
  assert.equal((await change('Four', '*')).status, 200);
  assert.equal((await patch(path, { subject: 'Five' })).status, 200);
  assert.equal((await change('Six', '"x"')).status, 412);
  const gone = await service.request('PATCH', `/v1/templates/${UNKNOWN_ID}`, {
    body: { subject: 'x' },
    headers: { 'if-match': present },
  });
  assertFailure(gone, 404, 'not_found');
});

test('a draft is changed in place, and publishing it makes the next version', async () => {
  const { id } = await make({ alias: 'versions' });
  const changed = await patch(`/v1/templates/${id}`, { subject: 'Hello {{ name }}' });
  assert.equal(changed.body.latest_version, 1, changed.text);
  assert.equal(changed.body.html, RECEIPT.html);

  const published = await publish('versions');
  assert.equal(published.published_version, 1);
  assert.match(published.published_at, TIME);
  const next = await patch('/v1/templates/versions', { subject: 'Goodbye {{ name }}' });
  const { latest_version, published_version, published_at } = next.body;
  assert.deepEqual([latest_version, published_version, published_at], [2, 1, null]);

  const { data } = await get(`/v1/templates/${id}/versions`);
  assert.deepEqual(
    data.map(({ version, subject }: Body) => [version, subject]),
    [
      [2, 'Goodbye {{ name }}'],
      [1, 'Hello {{ name }}'],
    ],
  );
  assert.equal((await get(`/v1/templates/${id}/versions/1`)).subject, 'Hello {{ name }}');
  const again = await publish(id, { version: 2 });
  assert.equal(again.published_version, 2);
  assert.equal((await publish(id, { version: 1 })).published_version, 1);
  assertFailure(await post(`/v1/templates/${id}/publish`, { version: 3 }), 404, 'not_found');
  for (const version of ['3', '0', '-1', 'x', '99999999999']) {
    const response = await service.request('GET', `/v1/templates/${id}/versions/${version}`);
    assertFailure(response, 404, 'not_found');
  }
});

test('a new name or alias makes no version', async () => {
  const { id } = await make({ alias: 'before' });
  await publish(id);
  const { body } = await patch(`/v1/templates/${id}`, { name: 'Other', alias: null });
  assert.deepEqual([body.name, body.alias, body.latest_version], ['Other', null, 1]);
  assertFailure(await service.request('GET', '/v1/templates/before'), 404, 'not_found');
});

test('a name that can be no alias is not found', async () => {
  for (const [method, path, body] of [
    ['GET', '/v1/templates/%00', undefined],
    ['PATCH', '/v1/templates/%00', {}],
    ['DELETE', '/v1/templates/%00', undefined],
  ] as const) {
    assertFailure(await service.request(method, path, { body }), 404, 'not_found');
  }
  const email = { from: 'hello@acme.test', to: 'delivered@simulator.test' };
  const sent = await post('/v1/emails', { ...email, template: { id: '\0', variables: {} } });
  assertFailure(sent, 422, 'validation_error');
});

test('of many versions the last 50 are kept, and the published one', async () => {
  const { id } = await make();
  await publish(id);
  for (let version = 2; version <= 54; version += 1) {
    await patch(`/v1/templates/${id}`, { subject: `Version ${version}` });
    if (version < 54) await publish(id);
  }
  await publish(id, { version: 10 });
  await publish(id, { version: 54 });
  await patch(`/v1/templates/${id}`, { subject: 'Version 55' });
  const { data } = await get(`/v1/templates/${id}/versions`);
  assert.equal(data.length, 50);
  assert.equal(data.at(-1).version, 6);
});

test('a deleted template is gone', async () => {
  const { id } = await make({ alias: 'gone' });
  const { body } = await service.request('DELETE', '/v1/templates/gone');
  assert.deepEqual(body, { object: 'template', id, deleted: true });
  assertFailure(await service.request('DELETE', `/v1/templates/${id}`), 404, 'not_found');
  assertFailure(await preview(id, {}), 404, 'not_found');
  await make({ alias: 'gone' });
});

test('a preview renders the latest version, and escapes variables in html', async () => {
  const { id } = await make({ text: 'Thank you, {{ name }}.' });
  const { status, body } = await preview(id, { name: '<b>Jo & "Co"</b>' });
  assert.equal(status, 200);
  assert.deepEqual(body, {
    object: 'rendered_template',
    subject: 'Your receipt, <b>Jo & "Co"</b>',
    html: '<p>Thank you, &lt;b&gt;Jo &amp; &#34;Co&#34;&lt;/b&gt;.</p>',
    text: 'Thank you, <b>Jo & "Co"</b>.',
  });
  await publish(id);
  await patch(`/v1/templates/${id}`, { text: null, html: '<i>{{ name | raw }}</i>' });
  const latest = await preview(id, { name: '<b>' });
  assert.deepEqual([latest.body.html, latest.body.text], ['<i><b></i>', null]);
  const first = await preview(id, { name: 'Jo' }, { version: 1 });
  assert.equal(first.body.text, 'Thank you, Jo.');
});

test('a preview renders a change before it is stored, and is refused for the same reasons as the change', async () => {
  const { id } = await make();
  const content = { html: '<p>{{ greeting }}, {{ name }}.</p>' };
  const undeclared = await preview(id, { name: 'Jo' }, { content });
  assertFailure(undeclared, 422, 'validation_error', /^html: uses greeting, which is not declared/);
  const variables = [{ name: 'name' }, { name: 'greeting', default: 'Hello' }];
  const { body } = await preview(id, { name: 'Jo' }, { content: { ...content, variables } });
  assert.deepEqual([body.subject, body.html], ['Your receipt, Jo', '<p>Hello, Jo.</p>']);
  const empty = await preview(id, { name: 'Jo' }, { content: { html: null } });
  assertFailure(empty, 422, 'validation_error', /^html: is required, unless there is text/);
  const renamed = await preview(id, { name: 'Jo' }, { content: { name: 'Other' } });
  assertFailure(renamed, 422, 'validation_error');
  const stored = await get(`/v1/templates/${id}`);
  assert.deepEqual([stored.html, stored.version], [RECEIPT.html, 1]);
});

test('templates are found by a part of their name or alias', async () => {
  const one = await make({ name: 'Reset of a password' });
  const other = await make({ name: 'Second factor', alias: 'reset-totp' });
  await make({ name: 'Welcome' });
  const found = async (q: string): Promise<string[]> =>
    (await get(`/v1/templates?q=${q}`)).data.map(({ id }: Body) => id);
  assert.deepEqual(await found('RESET'), [other.id, one.id]);
  assert.deepEqual(await found('of%20a'), [one.id]);
  assert.deepEqual(await found('%25'), []);
  assertFailure(await service.request('GET', '/v1/templates?q=%00'), 422, 'validation_error');
});

test('variables that are missing, unknown or of another type are named, all at once', async () => {
  const variables = [
    { name: 'name' },
    { name: 'count', type: 'number' },
    { name: 'items', type: 'list' },
    { name: 'note', default: 'none' },
  ];
  const { id } = await make({ variables, html: '{{ name }} {{ count }} {{ items }} {{ note }}' });
  const response = await preview(id, { count: '3', items: null, nmae: 'Jo' });
  assertFailure(response, 422, 'validation_error', /^variables\.nmae: .* \(and 3 more problems\)$/);
  assert.deepEqual(response.body.error.details, [
    { field: 'variables.nmae', message: 'is not a variable of this template; check the spelling' },
    { field: 'variables.name', message: 'is required' },
    { field: 'variables.count', message: 'must be a number, not a string' },
    { field: 'variables.items', message: 'is required' },
  ]);
  const { body } = await preview(id, { name: 'Jo', count: 3, items: [] });
  assert.equal(body.html, 'Jo 3  none');
});

test('null in an optional field counts as absent', async () => {
  const variables = [{ name: 'name', type: null, default: null }];
  const { id } = await make({ html: '{{ name }}', text: null, alias: null, variables });
  const { body } = await service.request('GET', `/v1/templates/${id}`);
  assert.deepEqual(body.variables, [{ name: 'name', type: 'string' }]);
  assertFailure(await preview(id, {}), 422, 'validation_error', /^variables\.name: is required$/);
  const nothing = { name: null, subject: null, variables: null };
  const changed = await service.request('PATCH', `/v1/templates/${id}`, { body: nothing });
  assert.deepEqual([changed.status, changed.body.subject], [200, body.subject], changed.text);
});

test('a member that an object does not have is named, with its place', async () => {
  const variables = [{ name: 'order', type: 'object' }];
  const html = '<p>\n{{ order.total }}</p>{% if order.note %}{{ order.note }}{% endif %}';
  const { id } = await make({ subject: 'Order', html, variables });
  const response = await preview(id, { order: { totl: 1 } });
  const message = /^template: its html uses order\.total, which has no value \(line 2, column 4\)$/;
  assertFailure(response, 422, 'validation_error', message);
  assert.equal((await preview(id, { order: { total: 1 } })).body.html, '<p>\n1</p>');
});

test('a template that cannot be parsed is refused when it is written, by field and place', async () => {
  const refused: [object, RegExp][] = [
    [{ html: '{% if name %}' }, /^html: .*not closed.* \(line 1, column 1\)$/],
    [{ html: '{{ name | nope }}' }, /^html: .*undefined filter: nope/],
    [{ html: '{% include "other" %}' }, /^html: .*tag "include" not found/],
    [{ html: '{{ nmae }}' }, /^html: uses nmae, which is not declared in variables$/],
    [{ subject: '{% for x in list %}{{ x }}{% endfor %}' }, /^subject: uses list, which is not/],
    [{ html: null }, /^html: is required, unless there is text$/],
    [{ html: 'x'.repeat(256 * 1024 + 1) }, /^html: /],
    [{ html: '{{ name }}'.repeat(2_001) }, /^html: has more than 2000 tags/],
    [{ subject: 'a\nb' }, /^subject: /],
    [{ variables: [{ name: 'name' }, { name: 'name' }] }, /^variables\[1\]\.name: .*twice/],
    [{ variables: [{ name: 'name' }, { name: 'forloop' }] }, /^variables\[1\]\.name: /],
    [{ variables: [{ name: 'name', type: 'number', default: 'x' }] }, /^variables\[0\]\.default: /],
    [{ variables: [{ name: '__proto__ ' }] }, /^variables\[0\]\.name: /],
    [{ nmae: 'x' }, /^nmae: /],
  ];
  const { id } = await make();
  const before = await get(`/v1/templates/${id}`);
  for (const [change, message] of refused) {
    const created = await post('/v1/templates', { ...RECEIPT, ...change });
    assertFailure(created, 422, 'validation_error', message);
    assertFailure(await patch(`/v1/templates/${id}`, change), 422, 'validation_error', message);
  }
  assert.deepEqual(await get(`/v1/templates/${id}`), before);
});

test('keys that may only send, or for one domain, manage no templates', async () => {
  const { id } = await make();
  const limits = [
    { permission: 'sending_access' },
    { permission: 'full_access', domain: 'acme.test' },
  ];
  for (const limit of limits) {
    const { body } = await post('/v1/api-keys', { name: 'limited', ...limit });
    const { key } = body;
    for (const [method, path] of [
      ['GET', '/v1/templates'],
      ['GET', `/v1/templates/${id}`],
      ['DELETE', `/v1/templates/${id}`],
      ['POST', `/v1/templates/${id}/preview`],
      ['POST', `/v1/templates/${id}/publish`],
    ] as const) {
      assertFailure(await service.request(method, path, { key }), 403, 'authorization_error');
    }
    assertFailure(await post('/v1/templates', RECEIPT, key), 403, 'authorization_error');
  }
});
