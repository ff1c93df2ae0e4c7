/** Sending: each field with its rule, and how it appears in the message. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, TIME, UUID_V7 } from '../support/api.ts';
import { changing, header } from '../support/changing.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const { post, refused, accepted, message } = changing(service);

test('an accepted email has an id and the documented fields', async () => {
  const response = await post({});
  assert.equal(response.status, 202);
  const { id, created_at, ...rest } = response.body;
  assert.match(id, UUID_V7);
  assert.match(created_at, TIME);
  assert.deepEqual(rest, { object: 'email', status: 'queued' });
  const email = await service.waitForStatus(id, 'delivered');
  const { message_id, sent_at, completed_at, recipients, etag, ...fields } = email;
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.match(message_id, /^<[^<>@\s]+@acme\.test>$/);
  for (const time of [sent_at, completed_at]) assert.match(time, TIME);
  assert.deepEqual(fields, {
    object: 'email',
    id,
    from: 'Acme <hello@acme.test>',
    to: ['delivered@simulator.test'],
    cc: [],
    bcc: [],
    reply_to: [],
    subject: 'Hello',
    html: '<p>Hello</p>',
    text: null,
    tracking: { opens: false, clicks: false },
    status: 'delivered',
    last_event: 'email.delivered',
    created_at,
    scheduled_at: null,
    tags: [],
    metadata: {},
    environment: 'test',
  });
  const [{ smtp, ...recipient }, ...others] = recipients;
  assert.deepEqual(others, []);
  assert.deepEqual(recipient, {
    address: 'delivered@simulator.test',
    kind: 'to',
    status: 'delivered',
    attempts: 1,
    next_attempt_at: null,
    completed_at,
    reason: null,
  });
  assert.deepEqual(Object.keys(smtp).toSorted(), [
    'code',
    'enhanced_code',
    'ip',
    'message',
    'mx',
    'tls',
    'tls_policy',
  ]);
  assert.deepEqual([smtp.code, smtp.enhanced_code], [250, '2.0.0']);
});

test('from, to, subject and either html or text are required', async () => {
  for (const field of ['from', 'to', 'subject']) {
    await refused({ [field]: undefined }, new RegExp(`^${field}: .*required`));
    await refused({ [field]: null }, new RegExp(`^${field}: `));
  }
  await refused({ html: undefined }, /^html: .*required.*text/);
  await refused({ html: '', text: '' }, /^html: /);
});

test('a value of the wrong type is reported with its name and the expected type', async () => {
  for (const [change, wanted] of [
    [{ from: ['a@acme.test'] }, /^from: .*string/],
    [{ to: 7 }, /^to: .*string/],
    [{ to: ['a@b.test', { address: 'a@b.test' }] }, /^to\[1\]: .*string/],
    [{ cc: true }, /^cc: /],
    [{ subject: 1 }, /^subject: .*string/],
    [{ html: {} }, /^html: .*string/],
    [{ headers: ['X-A: b'] }, /^headers: .*object/],
    [{ headers: { 'X-A': 1 } }, /^headers\.X-A: .*string/],
    [{ attachments: {} }, /^attachments: .*array/],
    [{ attachments: ['a'] }, /^attachments\[0\]: .*object/],
    [{ tags: { a: 'b' } }, /^tags: .*array/],
    [{ tags: [{ name: 'a' }] }, /^tags\[0\]\.value: .*required/],
    [{ metadata: [] }, /^metadata: .*object/],
    [{ metadata: { user: 7 } }, /^metadata\.user: .*string/],
    [{ tracking: true }, /^tracking: .*object/],
    [{ tls: 'always' }, /^tls: .*opportunistic.*enforced/],
  ] as const) {
    await refused(change, wanted);
  }
  const list = await service.request('POST', '/v1/emails', { body: [EMAIL] });
  assertFailure(list, 422, 'validation_error', /object.*array/);
});

test('null in an optional field counts as absent', async () => {
  const names = ['text', 'cc', 'bcc', 'reply_to', 'headers', 'attachments', 'tags', 'metadata'];
  const more = ['expires_in', 'unsubscribe', 'tls', 'tracking', 'scheduled_at', 'template'];
  await accepted(Object.fromEntries([...names, ...more].map((name) => [name, null])));
});

test('a subject has 1 to 998 characters and no control characters', async () => {
  assert.equal((await message({ subject: 'Grüße 🎉' })).subject, 'Grüße 🎉');
  for (const subject of ['x', 'x'.repeat(998), 'ü'.repeat(998), '🎉'.repeat(998)]) {
    assert.equal((await message({ subject })).subject, subject);
  }
  await refused({ subject: '' }, /^subject: /);
  await refused({ subject: 'x'.repeat(999) }, /^subject: .*998/);
  await refused({ subject: '🎉'.repeat(999) }, /^subject: .*998/);
  for (const control of ['\r\n', '\n', '\r', '\t', '\u0000', '\u001b', '\u007f']) {
    await refused({ subject: `Hi${control}Bcc: a@b.test` }, /^subject: |NUL/);
  }
});

test('text is derived from html unless it is given, even if empty', async () => {
  const html = '<h1>Hi</h1><p>Some <b>bold</b> words &amp; more</p>';
  const derived = await message({ html });
  assert.equal(derived.html?.trim(), html);
  assert.match(derived.text ?? '', /Some bold words & more/);
  const given = await message({ html, text: 'Another text' });
  assert.equal(given.text?.trim(), 'Another text');
  const off = await message({ html, text: '' });
  assert.equal(off.html?.trim(), html);
  assert.doesNotMatch(off.raw, /text\/plain/i);
  const plain = await message({ html: undefined, text: 'Only text\n.\nFrom here' });
  assert.equal(plain.text?.trim(), 'Only text\n.\nFrom here');
  assert.doesNotMatch(plain.raw, /text\/html/i);
});

test('custom headers are added to the message and cannot replace headers of the service', async () => {
  const own = { 'X-Entity-Ref-ID': '4711', 'List-Id': 'Acme <list.acme.test>', 'X-Ümlaut': 'x' };
  await refused({ headers: own }, /^headers\.X-/);
  const parsed = await message({
    headers: { 'X-Entity-Ref-ID': '4711', 'X-Words': 'Grüße', Precedence: 'bulk' },
  });
  assert.deepEqual(header(parsed, 'X-Entity-Ref-ID'), ['4711']);
  assert.deepEqual(header(parsed, 'Precedence'), ['bulk']);
  const denied =
    'From Sender To Cc Bcc Reply-To Subject Date Message-ID Return-Path Received MIME-Version ' +
    'Authentication-Results Received-SPF DKIM-Signature DKIM-Anything ARC-Seal ARC-Message-Signature ' +
    'Content-Type Content-Transfer-Encoding Content-Disposition Content-Anything';
  for (const name of denied.split(' ')) {
    for (const spelled of [name, name.toLowerCase(), name.toUpperCase()]) {
      await refused({ headers: { [spelled]: 'x' } }, new RegExp(`^headers\\.${spelled}: `));
    }
  }
  for (const name of ['', 'X A', 'X:A', 'X-A:', ' X-A', 'X-A ']) {
    await refused({ headers: { [name]: 'x' } }, /^headers/);
  }
});

test('attachments arrive unchanged', async () => {
  const bytes = Buffer.from(Array.from({ length: 1_000 }, (_, n) => (n * 7) % 256));
  const parsed = await message({
    html: '<img src="cid:logo">',
    attachments: [
      { filename: 'Rechnung März.pdf', content: bytes.toString('base64') },
      { filename: 'data.bin', content: 'AAEC', content_type: 'application/x-acme' },
      { filename: 'logo.png', content: 'AAEC', content_id: 'logo' },
      { filename: 'empty.txt', content: '' },
    ],
  });
  const [pdf, data, logo, empty] = ['Rechnung März.pdf', 'data.bin', 'logo.png', 'empty.txt'].map(
    (name) => parsed.attachments.find(({ filename }) => filename === name),
  );
  assert.deepEqual(Buffer.from(pdf?.content as ArrayBuffer), bytes);
  assert.equal(pdf?.mimeType, 'application/pdf');
  assert.equal(data?.mimeType, 'application/x-acme');
  assert.deepEqual([logo?.contentId, logo?.disposition], ['<logo>', 'inline']);
  assert.equal((empty!.content as ArrayBuffer).byteLength, 0);
});

test('an attachment needs a name and bytes in base64', async () => {
  const attachments = (change: object) => ({
    attachments: [{ filename: 'a.txt', content: 'aGk=', ...change }],
  });
  await refused(attachments({ filename: undefined }), /^attachments\[0\]\.filename: /);
  await refused(attachments({ filename: '' }), /^attachments\[0\]\.filename: /);
  await refused(attachments({ content: undefined }), /^attachments\[0\]\.content: /);
  await refused(attachments({ content: 'not base64!' }), /^attachments\[0\]\.content: .*base64/);
  await refused(attachments({ content: 'a' }), /^attachments\[0\]\.content: .*base64/);
  await refused(attachments({ content_type: 'pdf' }), /^attachments\[0\]\.content_type: /);
  await refused(attachments({ content_id: 'a b' }), /^attachments\[0\]\.content_id: /);
});

test('tags are 1-256 of letters, digits, hyphen and underscore, at most 75', async () => {
  const tags = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ name: `name_${n}`, value: `Value-${n}` }));
  assert.deepEqual((await accepted({ tags: tags(75) })).tags, tags(75));
  const longest = [{ name: 'n'.repeat(256), value: 'v'.repeat(256) }];
  assert.deepEqual((await accepted({ tags: longest })).tags, longest);
  await refused({ tags: tags(76) }, /^tags: .*75/);
  for (const wrong of ['', 'a b', 'a:b', 'ü', 'a.b', 'x'.repeat(257)]) {
    await refused({ tags: [{ name: wrong, value: 'v' }] }, /^tags\[0\]\.name: /);
    await refused({ tags: [{ name: 'n', value: wrong }] }, /^tags\[0\]\.value: /);
  }
});

test('metadata is stored unchanged and included in events', async () => {
  const metadata = { user: '7', 'any name': 'any väluе\n"x"', empty: '' };
  const tags = [{ name: 'kind', value: 'welcome' }];
  const { id, metadata: kept } = await accepted({ metadata, tags });
  assert.deepEqual(kept, metadata);
  await service.waitForStatus(id, 'delivered');
  const { body } = await service.request('GET', `/v1/emails/${id}/events`);
  for (const { data } of body.data) assert.deepEqual([data.metadata, data.tags], [metadata, tags]);
});

test('expires_in is whole seconds between a minute and five days', async () => {
  for (const expires_in of [60, 432_000]) await accepted({ expires_in });
  for (const expires_in of [59, 432_001, 60.5, -1, 0, '60', 1e300]) {
    await refused({ expires_in }, /^expires_in: /);
  }
});

test('unsubscribe by an https URL makes the one-click headers', async () => {
  const unsubscribe = 'https://acme.test/unsubscribe?who=7&list=a';
  const parsed = await message({ unsubscribe });
  assert.deepEqual(header(parsed, 'List-Unsubscribe'), [`<${unsubscribe}>`]);
  assert.deepEqual(header(parsed, 'List-Unsubscribe-Post'), ['List-Unsubscribe=One-Click']);
  for (const wrong of ['http://acme.test/', 'mailto:a@acme.test', 'acme.test', 'https://']) {
    await refused({ unsubscribe: wrong }, /^unsubscribe: /);
  }
  await accepted({ unsubscribe: false });
});

test('values that switch a feature off, or choose the usual one, are accepted', async () => {
  await accepted({ tracking: { opens: false, clicks: false }, tls: 'enforced' });
  await accepted({ tls: 'opportunistic' });
});
