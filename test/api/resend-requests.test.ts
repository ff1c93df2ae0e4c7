/**
 * The root mount: requests in the forms of Resend's clients for other languages, each with its peculiarity, and the
 * parts of responses that these clients read.
 */
import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { UUID_V7 } from '../support/api.ts';
import { resendClient } from '../support/resend.ts';
import { startService } from '../support/service.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const FILE = Buffer.from('%PDF-1.7 is the beginning of a file');
const BASE64 = FILE.toString('base64');
const MINIMAL = { from: 'a@acme.test', to: ['delivered@resend.dev'], subject: 'Hi', text: 'Hi' };

type Case = { name: string; body: object; sent?: RegExp };

/** The body of `POST /emails`, and a line of the message that it becomes. */
const SENDING: Case[] = [
  {
    name: 'Go: reply_to is one string',
    body: { ...MINIMAL, reply_to: 'answers@acme.test' },
    sent: /^Reply-To: answers@acme\.test\r$/m,
  },
  {
    name: 'Go: bytes are numbers, and an inline file has inline_content_id',
    body: {
      ...MINIMAL,
      html: '<img src="cid:logo">',
      attachments: [
        { content: [...FILE], filename: 'a.pdf', content_type: '', inline_content_id: 'logo' },
      ],
    },
    sent: /^Content-ID: <logo>\r$/m,
  },
  {
    name: 'Rust: bytes are numbers, and the type is contentType',
    body: {
      ...MINIMAL,
      attachments: [{ content: [...FILE], filename: 'a', contentType: 'application/pdf' }],
    },
    sent: /^Content-Type: application\/pdf/m,
  },
  {
    name: 'older Node: a Buffer as JSON.stringify writes it',
    body: {
      ...MINIMAL,
      topic_id: null,
      attachments: [{ content: FILE.toJSON(), filename: 'a.pdf' }],
    },
    sent: new RegExp(`^${BASE64}\r$`, 'm'),
  },
  {
    name: 'PHP: bytes are base64, and empty maps are lists',
    body: {
      ...MINIMAL,
      headers: [],
      tags: [],
      attachments: [{ content: BASE64, filename: 'a.pdf' }],
    },
    sent: new RegExp(`^${BASE64}\r$`, 'm'),
  },
  {
    name: 'Laravel: nulls and empty lists stand for what is absent',
    body: {
      ...MINIMAL,
      html: null,
      cc: [],
      bcc: [],
      reply_to: [],
      headers: [],
      tags: [],
      attachments: [],
      scheduled_at: null,
    },
  },
  {
    name: 'Python: bytes are a list of numbers beside a content type',
    body: {
      ...MINIMAL,
      to: 'delivered@resend.dev',
      attachments: [{ content: [...FILE], filename: 'a.pdf', content_type: 'application/pdf' }],
    },
    sent: new RegExp(`^${BASE64}\r$`, 'm'),
  },
  {
    name: '.NET: lists everywhere, names in snake case',
    body: { ...MINIMAL, cc: ['delivered+cc@resend.dev'], reply_to: ['x@acme.test'], tags: null },
    sent: /^Cc: delivered\+cc@resend\.dev\r$/m,
  },
];

for (const { name, body, sent } of SENDING) {
  test(`an email is sent: ${name}`, async () => {
    const response = await service.request('POST', '/emails', { body });
    assert.equal(response.status, 200, response.text);
    assert.deepEqual(Object.keys(response.body), ['id']);
    assert.match(response.body.id, UUID_V7);
    const content = await service.request('GET', `/v1/emails/${response.body.id}/content`);
    assert.match(content.text, sent ?? /^Subject: Hi\r$/m);
  });
}

test('an email is sent: Go and Rust write empty strings beside a template', async () => {
  const template = { name: 'T', alias: 'greeting', subject: 'From it', html: '<p>{{{NAME}}}</p>' };
  const variables = [{ key: 'NAME', type: 'string', fallback_value: null }];
  const made = await service.request('POST', '/templates', { body: { ...template, variables } });
  assert.equal(made.status, 201, made.text);
  await service.request('POST', `/templates/${made.body.id}/publish`);
  const body = {
    from: 'a@acme.test',
    to: ['delivered@resend.dev'],
    subject: '',
    html: '',
    text: '',
    template: { id: 'greeting', variables: { NAME: 'Jo' } },
  };
  const response = await service.request('POST', '/emails', { body });
  assert.equal(response.status, 200, response.text);
  const email = await service.email(response.body.id);
  assert.deepEqual([email.subject, email.html], ['From it', '<p>Jo</p>']);
  const senderless = await service.request('POST', '/emails', { body: { ...body, from: '' } });
  assert.deepEqual([senderless.status, senderless.body.name], [422, 'invalid_from_address']);
});

test('an email is sent: Rust writes a subject beside a template, which replaces its own subject', async () => {
  const content = { name: 'Own', alias: 'own-subject', html: '<p>Hi</p>' };
  const made = await service.request('POST', '/templates', { body: content });
  assert.equal(made.status, 201, made.text);
  await service.request('POST', `/templates/${made.body.id}/publish`);
  assert.equal((await service.request('GET', '/templates/own-subject')).body.subject, null);
  const body = { ...MINIMAL, text: undefined, subject: 'Own', template: { id: 'own-subject' } };
  const { status, body: sent, text } = await service.request('POST', '/emails', { body });
  assert.equal(status, 200, text);
  assert.equal((await service.email(sent.id)).subject, 'Own');
  const none = await service.request('POST', '/emails', { body: { ...body, subject: '' } });
  assert.deepEqual([none.status, none.body.name], [422, 'missing_required_field']);
  assert.match(none.body.message, /^subject: is required, since the template has none/);
});

test('an email is sent: the first clients have the path in the singular', async () => {
  const { status, body } = await service.request('POST', '/email', { body: MINIMAL });
  assert.deepEqual([status, Object.keys(body)], [200, ['id']]);
  const wrong = await service.request('POST', '/email', { body: {} });
  assert.deepEqual([wrong.status, wrong.body.statusCode], [422, 422]);
});

test('an email is sent at a time in words, and an unclear time is refused with examples', async () => {
  const at = (scheduled_at: string) =>
    service.request('POST', '/emails', { body: { ...MINIMAL, scheduled_at } });
  const { body } = await at('tomorrow at 9am');
  const { scheduled_at } = await service.email(body.id);
  assert.match(scheduled_at, /T09:00:00\.000Z$/);
  const moved = { scheduled_at: 'in 2 hours' };
  const again = await service.request('PATCH', `/emails/${body.id}`, { body: moved });
  assert.equal(again.status, 200, again.text);
  const refused = [
    await at('when the moon is full'),
    await service.request('PATCH', `/emails/${body.id}`, { body: { scheduled_at: 'soon' } }),
    await service.request('POST', '/emails/batch', {
      body: [{ ...MINIMAL, scheduled_at: 'soon' }],
    }),
  ];
  for (const { status, body: failure } of refused) {
    assert.equal(status, 422);
    assert.match(failure.message, /scheduled_at: must be a time in ISO 8601 .*"tomorrow at 9am"/);
  }
});

test('Java: the names of constants are in capitals', async () => {
  const domain = { name: 'java.test', tls: 'ENFORCED', region: 'EU-WEST-1' };
  const made = await service.request('POST', '/domains', { body: domain });
  assert.deepEqual([made.status, made.body.tls], [201, 'enforced'], made.text);
  const changed = { tls: 'OPPORTUNISTIC', capabilities: { sending: 'ENABLED' } };
  const path = `/domains/${made.body.id}`;
  assert.equal((await service.request('PATCH', path, { body: changed })).status, 200);
  assert.equal((await service.request('GET', path)).body.tls, 'opportunistic');
  const key = { name: 'x', permission: 'SENDING_ACCESS' };
  assert.equal((await service.request('POST', '/api-keys', { body: key })).status, 201);
  const variables = [{ key: 'NAME', type: 'STRING' }];
  const template = { name: 'x', subject: 'x', html: '<p>{{{NAME}}}</p>', variables };
  assert.equal((await service.request('POST', '/templates', { body: template })).status, 201);
  assert.equal((await service.request('GET', '/suppressions?origin=BOUNCE')).status, 200);
  const metrics = '/emails/metrics?granularity=DAILY';
  assert.equal((await service.request('GET', metrics)).status, 200);
  const wrong = { tls: 'SOMETIMES' };
  assert.equal((await service.request('PATCH', path, { body: wrong })).status, 422);
});

test('the files of an email are listed, each with a link that needs no key', async () => {
  const attachments = [
    { content: BASE64, filename: 'übersicht.pdf' },
    { content: BASE64, filename: 'logo.png', content_id: 'logo' },
  ];
  const sending = { ...MINIMAL, html: '<img src="cid:logo">', attachments };
  const { body: sent } = await service.request('POST', '/emails', { body: sending });
  const path = `/emails/${sent.id}/attachments`;
  const { body: list } = await service.request('GET', path);
  const files = new Map<string, Record<string, string>>(
    list.data.map((one: { filename: string }) => [one.filename, one]),
  );
  const [pdf, logo] = [files.get('übersicht.pdf')!, files.get('logo.png')!];
  assert.equal(list.data.length, 2);
  assert.deepEqual([pdf['content_disposition'], pdf['size']], ['attachment', FILE.length]);
  assert.deepEqual([logo['content_disposition'], logo['content_id']], ['inline', 'logo']);
  const one = await service.request('GET', `${path}/${pdf['id']}`);
  assert.deepEqual([one.body.object, one.body.filename], ['attachment', 'übersicht.pdf']);
  const [first] = (await service.request('GET', `${path}?limit=1`)).body.data;
  const rest = (await service.request('GET', `${path}?limit=1&after=${first.id}`)).body;
  assert.deepEqual([rest.data.length, rest.has_more], [1, false]);
  const url = pdf['download_url']!;
  const download = await fetch(url);
  assert.deepEqual(Buffer.from(await download.arrayBuffer()), FILE);
  assert.match(download.headers.get('content-disposition') ?? '', /^attachment; .*%C3%BCbersicht/);
  for (const wrong of [url.replace(/.$/, '9'), url.replace('/s/', '/s/A')]) {
    assert.equal((await fetch(wrong)).status, 404);
  }
  const unknown = await service.request('GET', `${path}/${sent.id}`);
  assert.deepEqual([unknown.status, unknown.body.name], [404, 'not_found']);
  // The link shows the files, not the email.
  assert.equal((await fetch(url.replace(/\/attachments\/\d$/, ''))).status, 404);
});

test('an operation that is not offered gets a 404 that says so, at every path that a client has for it', async () => {
  const calls = [
    ['POST', '/domains/claims'],
    ['GET', '/domains/claims/x'],
    ['POST', '/domains/claim'],
    ['POST', '/domains/x/claim/verify'],
  ] as const;
  for (const [method, path] of calls) {
    const { status, body } = await service.request(method, path);
    assert.deepEqual([status, body.name], [404, 'not_found'], path);
    assert.match(body.message, /does not offer claims of domains/);
  }
});

test('a file of a megabyte may be a list of numbers', async () => {
  const file = Buffer.alloc(1024 * 1024, 'content of a big file ');
  const body = { ...MINIMAL, attachments: [{ content: [...file], filename: 'big.bin' }] };
  const response = await service.request('POST', '/emails', { body });
  assert.equal(response.status, 200, response.text);
  const content = await service.request('GET', `/v1/emails/${response.body.id}/content`);
  assert.ok(content.text.replaceAll('\r\n', '').includes(file.toString('base64')));
});

test('numbers that are no bytes are refused', async () => {
  const body = { ...MINIMAL, attachments: [{ content: [1, 256], filename: 'a' }] };
  const response = await service.request('POST', '/emails', { body });
  assert.deepEqual([response.status, response.body.name], [422, 'invalid_attachment']);
});

/** As the client writes it: the JSON type on every method, and a body that `fetch` would refuse. */
async function raw(
  method: string,
  path: string,
  body = '',
): Promise<{ status: number; body: never }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: never }>();
  const headers = {
    authorization: `Bearer ${service.testKey}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  request(service.url + path, { method, headers }, (response) => {
    json(response).then(
      (parsed) => resolve({ status: response.statusCode ?? 0, body: parsed as never }),
      reject,
    );
  })
    .on('error', reject)
    .end(body);
  return promise;
}

const scheduled = async (): Promise<string> => {
  const body = { ...MINIMAL, scheduled_at: 'in 2 days' };
  return (await service.request('POST', '/emails', { body })).body.id;
};

test('Node and Java: a POST without content has the JSON type and no body', async () => {
  const id = await scheduled();
  assert.deepEqual(await raw('POST', `/emails/${id}/cancel`), {
    status: 200,
    body: { object: 'email', id },
  });
});

test('Python: a GET has the body {}', async () => {
  const id = await scheduled();
  const response = await raw('GET', `/emails/${id}`, '{}');
  assert.equal(response.status, 200);
});

test('Ruby: a PATCH repeats the id in its body', async () => {
  const id = await scheduled();
  const body = JSON.stringify({ email_id: id, scheduled_at: 'in 3 days' });
  const response = await raw('PATCH', `/emails/${id}`, body);
  assert.deepEqual(response, { status: 200, body: { object: 'email', id } });
});

test('a base URL with a slash at its end leads to two slashes, which are one', async () => {
  const response = await service.request('POST', '//emails', { body: MINIMAL });
  assert.equal(response.status, 200, response.text);
  const unknown = await service.request('GET', '//emails/nonsense');
  assert.deepEqual([unknown.status, unknown.body.name], [404, 'not_found']);
});

test('Rust decodes cc and bcc, which are always there', async () => {
  const { body } = await service.request('POST', '/emails', { body: MINIMAL });
  const email = (await service.request('GET', `/emails/${body.id}`)).body;
  assert.deepEqual([email.cc, email.bcc], [[], []]);
});

test('the response to a DELETE has a body, and no success has a statusCode', async () => {
  const made = await service.request('POST', '/api-keys', { body: { name: 'x' } });
  assert.equal(made.status, 201);
  assert.ok(!('statusCode' in made.body));
  const removed = await service.request('DELETE', `/api-keys/${made.body.id}`);
  assert.equal(removed.status, 200);
  assert.ok(!('statusCode' in removed.body));
});

test('limits are stated in whole numbers, and a refusal says when to retry', async () => {
  await using limited = await startService({ env: { LETTERHAUS_LIMIT_SENDING: '2/60' } });
  await limited.cliJson('projects', 'set-limit', '1000000/1', '--environment', 'test');
  const usage = (await limited.request('GET', '/usage')).body;
  assert.deepEqual(
    [usage.emails.daily.limit, usage.emails.monthly.limit],
    [2_147_483_647, 2_147_483_647],
    'clients decode 32 bits',
  );
  await limited.cliJson('projects', 'set-limit', 'default', '--environment', 'test');
  const send = () => limited.request('POST', '/emails', { body: MINIMAL });
  const first = await send();
  assert.equal(first.headers.get('ratelimit-limit'), '2');
  assert.equal(first.headers.get('ratelimit-remaining'), '1');
  assert.match(first.headers.get('ratelimit-reset') ?? '', /^\d+$/);
  assert.equal(first.headers.get('ratelimit-policy'), '2;w=60');
  await send();
  const refused = await send();
  assert.deepEqual([refused.status, refused.body.name], [429, 'rate_limit_exceeded']);
  assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
  const client = resendClient(limited);
  const { error, headers } = await client.emails.send({ ...MINIMAL, to: 'delivered@resend.dev' });
  assert.deepEqual([error?.statusCode, error?.name], [429, 'rate_limit_exceeded']);
  assert.deepEqual([headers?.['ratelimit-limit'], headers?.['ratelimit-remaining']], ['2', '0']);
  const quotas = Object.keys(headers ?? {}).filter((name) => name.startsWith('x-resend-'));
  assert.deepEqual(quotas, [], 'there are no quotas');
});
