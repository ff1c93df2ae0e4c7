/** The TypeScript client: every operation of the service, typed from its schemas, against the service. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { inspect } from 'node:util';
import { sessionTypesOf, typesOf } from '../../scripts/openapi-types.ts';
import {
  type AttachmentContent,
  ConnectionError,
  Letterhaus,
  LetterhausError,
  RedirectError,
  SignatureError,
  verifyWebhook,
} from '../../sdk/src/index.ts';
import { OPERATIONS } from '../../sdk/src/api.ts';
import { UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const service = await sharedService();
const letterhaus = new Letterhaus({ baseUrl: service.url, apiKey: service.testKey });

const EMAIL = {
  from: 'Acme <hello@acme.test>',
  to: 'delivered@simulator.test',
  subject: 'Hello',
  html: '<p>Hello</p>',
};

test('the types of the SDK and the dashboard are those of the service (else: npm run openapi)', async () => {
  const document = JSON.parse(await source('docs/openapi.json'));
  assert.equal(await source('sdk/src/api.ts'), typesOf(document));
  assert.equal(await source('web/src/api/session-operations.ts'), sessionTypesOf(document));
});

test('every operation of the service has a method', async () => {
  const client = [
    await source('sdk/src/client.ts'),
    await source('sdk/src/administration.ts'),
  ].join();
  const stream = await source('sdk/src/event-stream.ts');
  for (const id of Object.keys(OPERATIONS)) {
    assert.match(client + stream, new RegExp(`'${id}'`), `${id} has no method`);
  }
});

test('the codes of failures are those of the service', async () => {
  const known = await source('sdk/src/errors.ts');
  const codes = [
    ...(await source('src/core/refusals.ts')).matchAll(/^ {2}'([a-z_]+)',$/gm),
    ...(await source('src/http/errors.ts')).matchAll(/^ {2}\| '([a-z_]+)'/gm),
  ].map(([, code]) => code);
  assert.ok(codes.length >= 15);
  for (const code of codes) assert.match(known, new RegExp(String.raw`\| '${code}'`));
});

test('an email is sent, read, and followed to its delivery', async () => {
  const { id, status } = await letterhaus.emails.send({
    ...EMAIL,
    tags: [{ name: 'a', value: 'b' }],
  });
  assert.match(id, UUID_V7);
  assert.equal(status, 'queued');
  await service.waitForStatus(id, 'delivered');
  const email = await letterhaus.emails.get(id);
  assert.deepEqual(email.to, ['delivered@simulator.test']);
  const types = await collected(letterhaus.emails.events(id), ({ type }) => type);
  assert.deepEqual(types, ['email.queued', 'email.delivered']);
  const content = new TextDecoder().decode(await letterhaus.emails.content(id));
  assert.match(content, /^Subject: Hello\r$/m);
  assert.equal((await letterhaus.emails.diagnose(id)).id, id);
});

test('a dry run reports what would happen and sends nothing', async () => {
  const before = await count(letterhaus.emails.list());
  const run = await letterhaus.emails.dryRun(EMAIL);
  assert.equal(run.object, 'dry_run');
  assert.equal(await count(letterhaus.emails.list()), before);
});

test('a batch is accepted as a whole, or only its valid emails', async () => {
  const bad = { ...EMAIL, to: 'nobody' };
  await assert.rejects(letterhaus.emails.sendBatch([EMAIL, bad]), /^LetterhausError: .*\b1\b/);
  const sent = await letterhaus.emails.sendBatch([EMAIL, bad], { validation: 'permissive' });
  assert.equal(sent.data.length, 1);
  assert.deepEqual(
    sent.errors.map(({ index }) => index),
    [1],
  );
});

test('a list is read page after page', async () => {
  const ids: string[] = [];
  for (let sent = 0; sent < 5; sent += 1) ids.unshift((await letterhaus.emails.send(EMAIL)).id);
  const page = await letterhaus.emails.list({ limit: 2 }).page();
  assert.deepEqual(
    page.data.map(({ id }) => id),
    ids.slice(0, 2),
  );
  assert.equal(page.has_more, true);
  const all = await collected(letterhaus.emails.list({ limit: 2 }), ({ id }) => id);
  assert.deepEqual(all.slice(0, 5), ids);
  assert.equal(new Set(all).size, all.length);
});

test('suppressions are listed, exported and imported', async () => {
  const addresses = ['a+1@example.com', 'b@example.com', 'c@example.com'];
  for (const address of addresses) await letterhaus.suppressions.create({ address });
  const listed = await collected(letterhaus.suppressions.list({ limit: 1 }), (one) => one.address);
  assert.deepEqual(listed.toSorted(), addresses);
  assert.equal((await letterhaus.suppressions.get('a+1@example.com')).reason, 'manual');
  const csv = await letterhaus.suppressions.export();
  for (const address of addresses) await letterhaus.suppressions.delete(address);
  const { added } = await letterhaus.suppressions.import(csv);
  assert.equal(added, 3);
  const stream = await letterhaus.suppressions.exportStream();
  const again = await letterhaus.suppressions.import(stream);
  assert.deepEqual([again.added, again.already_there], [0, 3]);
  const list = 'email,created\nd@example.com,1443651125\n';
  const { format } = await letterhaus.suppressions.import(list, { reason: 'unsubscribe' });
  assert.equal(format, 'sendgrid');
});

test('a scheduled email is moved and canceled', async () => {
  const later = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
  const { id } = await letterhaus.emails.send({ ...EMAIL, scheduled_at: later(1) });
  const moved = await letterhaus.emails.reschedule(id, { scheduled_at: later(2) });
  assert.equal(moved.status, 'scheduled');
  assert.equal((await letterhaus.emails.cancel(id)).status, 'canceled');
});

test('an email is shared by a link', async () => {
  const { id } = await letterhaus.emails.send(EMAIL);
  const { url, expires_at } = await letterhaus.emails.share(id, { expires_in: 3_600 });
  assert.ok(Date.parse(expires_at) <= Date.now() + 3_600_000);
  assert.equal((await fetch(url)).status, 200);
  assert.ok((await letterhaus.emails.share(id)).expires_at > expires_at);
});

test('a refusal is an error with its status, code, fields and request id', async () => {
  const refused = await letterhaus.emails.send({ ...EMAIL, to: 'nobody' }).catch((error) => error);
  assert.ok(refused instanceof LetterhausError);
  assert.deepEqual([refused.status, refused.code], [422, 'validation_error']);
  assert.match(refused.request_id ?? '', UUID_V7);
  assert.equal(refused.details[0]?.field, 'to');
  const unknown = await letterhaus.emails.get(UNKNOWN_ID).catch((error) => error);
  assert.deepEqual([unknown.status, unknown.code], [404, 'not_found']);
  const stranger = new Letterhaus({ baseUrl: service.url, apiKey: 'lh_test_wrong' });
  const forbidden = await stranger.projects.list().catch((error) => error);
  assert.deepEqual([forbidden.status, forbidden.code], [401, 'authentication_error']);
});

test('a request whose response is lost is repeated, and the email is sent once', async () => {
  await using proxy = await startTcpProxy({ host: '127.0.0.1', port: portOf(service.url) });
  const client = behind(proxy.port);
  const sprung = proxy.trap({ text: 'Lost on the way', cutWhen: 'answered' });
  const { id } = await client.emails.send({ ...EMAIL, subject: 'Lost on the way' });
  await sprung;
  const sent = await collected(
    letterhaus.emails.list({ subject: 'Lost on the way' }),
    (one) => one.id,
  );
  assert.deepEqual(sent, [id]);
});

test('a request that is not idempotent is not repeated', async () => {
  await using proxy = await startTcpProxy({ host: '127.0.0.1', port: portOf(service.url) });
  const client = behind(proxy.port);
  const sprung = proxy.trap({ text: 'made-once', cutWhen: 'answered' });
  await assert.rejects(
    client.templates.create({ name: 'made-once', subject: 'x', html: 'x' }),
    ConnectionError,
  );
  await sprung;
  const names = await collected(letterhaus.templates.list(), ({ name }) => name);
  assert.equal(names.filter((name) => name === 'made-once').length, 1);
});

test('a request to a busy server is repeated after its Retry-After', async () => {
  const responses = [
    { status: 429, headers: { 'retry-after': '0' } },
    { status: 503, headers: { 'retry-after': '0' } },
    { status: 202, body: '{"object":"email","id":"1","status":"queued"}' },
  ];
  await using receiver = await startReceiver();
  receiver.behaviour = () => responses.shift()!;
  const client = new Letterhaus({ baseUrl: receiver.url, apiKey: 'lh_test_x' });
  assert.equal((await client.emails.send(EMAIL)).status, 'queued');
  assert.equal(receiver.received.length, 3);
});

test('a repeated request has the first body, even if the object has changed since', async () => {
  const to = ['delivered@simulator.test'];
  await using receiver = await startReceiver();
  receiver.behaviour = () => {
    to.push('other@simulator.test');
    return { status: 503, headers: { 'retry-after': '0' } };
  };
  const client = new Letterhaus({ baseUrl: receiver.url, apiKey: 'lh_test_x', maxRetries: 1 });
  await assert.rejects(client.emails.send({ ...EMAIL, to }), /503/);
  const [first, second] = receiver.received.map(({ body }) => body);
  assert.match(first ?? '', /delivered@simulator/);
  assert.equal(second, first);
});

test('after the last retry a busy server results in its error', async () => {
  await using receiver = await startReceiver();
  receiver.behaviour = { status: 503, headers: { 'retry-after': '0' } };
  const client = new Letterhaus({ baseUrl: receiver.url, apiKey: 'lh_test_x', maxRetries: 2 });
  const error = await client.emails.send(EMAIL).catch((reason) => reason);
  assert.deepEqual([error.name, error.status], ['LetterhausError', 503]);
  const keys = receiver.received.map(({ headers }) => headers['idempotency-key']);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
});

test('a redirect, which would send the key elsewhere, is neither followed nor repeated', async () => {
  await using elsewhere = await startReceiver();
  await using receiver = await startReceiver();
  const client = new Letterhaus({ baseUrl: receiver.url, apiKey: 'lh_test_x' });
  const places = [`${elsewhere.url}/in?token=secret`, '/v2/emails', undefined];
  for (const [index, status] of [301, 302, 303, 307, 308].entries()) {
    const location = places[index % places.length];
    receiver.behaviour = { status, ...(location !== undefined && { headers: { location } }) };
    const error = await client.emails.send(EMAIL).catch((reason: unknown) => reason);
    assert.ok(error instanceof RedirectError && error instanceof ConnectionError, String(status));
    assert.match(error.message, /redirect.*set baseUrl/);
    assert.equal(error.message.includes(new URL(elsewhere.url).origin), location === places[0]);
    assert.doesNotMatch(error.message, /secret|lh_test_x/);
    assert.equal(receiver.received.length, index + 1);
  }
  assert.equal(elsewhere.received.length, 0);
});

test('attachments may be bytes of every type of a runtime, and arrive unchanged', async () => {
  const bytes = Uint8Array.from({ length: 40_000 }, (_, index) => index * 7);
  const padded = new Uint8Array([1, ...bytes, 1]);
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
  shared.set(bytes);
  const contents: Record<string, AttachmentContent> = {
    base64: Buffer.from(bytes).toString('base64'),
    Buffer: Buffer.from(bytes),
    Uint8Array: bytes,
    part: padded.subarray(1, -1),
    DataView: new DataView(padded.buffer, 1, bytes.length),
    ArrayBuffer: bytes.buffer,
    SharedArrayBuffer: shared.buffer,
    Blob: new Blob([bytes], { type: 'image/png' }),
    one: bytes.subarray(0, 1),
    none: new Uint8Array(),
  };
  const named = Object.entries(contents).map(([filename, content]) => ({ filename, content }));
  const file = new File([bytes], 'photo.png', { type: 'image/png' });
  const attachments = [
    ...named,
    { content: file },
    { content: file, filename: 'other.bin', content_type: 'application/x-own' },
  ];
  const { id } = await letterhaus.emails.send({ ...EMAIL, attachments });
  const [batched] = (await letterhaus.emails.sendBatch([{ ...EMAIL, attachments }])).data;
  for (const sent of [id, batched!.id]) {
    const { attachments: found } = await letterhaus.emails.inspect(sent);
    const names = [...Object.keys(contents), 'photo.png', 'other.bin'];
    assert.deepEqual(
      found.map(({ filename }) => filename),
      names,
    );
    for (const [index, name] of names.entries()) {
      const arrived = await letterhaus.emails.attachment(sent, index + 1);
      const wanted = name === 'none' ? [] : name === 'one' ? bytes.subarray(0, 1) : bytes;
      assert.ok(Buffer.from(wanted).equals(arrived), name);
    }
    const types = found.map(({ content_type }) => content_type);
    assert.deepEqual(
      [types[7], ...types.slice(-2)],
      ['image/png', 'image/png', 'application/x-own'],
    );
  }
});

test('an attachment without bytes is refused with advice before the request', async () => {
  const rows: [what: string, content: unknown, says: RegExp][] = [
    ['a web stream', new Blob(['x']).stream(), /stream.*new Response\(stream\)\.arrayBuffer/],
    ['a stream of Node', Readable.from(['x']), /stream.*buffer\(stream\)/],
    ['a promise', Promise.resolve(Buffer.from('x')), /promise; await it/],
    ['numbers', [1, 2], /Buffer, Uint8Array.*not a plain object/],
    ['a Buffer that was JSON', Buffer.from('x').toJSON(), /not a plain object/],
    ['a number', 5, /must be base64/],
  ];
  for (const [what, content, says] of rows) {
    const email = { ...EMAIL, attachments: [{ filename: 'x', content: content as string }] };
    const error = await letterhaus.emails.send(email).catch((reason: unknown) => reason);
    assert.ok(error instanceof TypeError, what);
    assert.match(error.message, says, what);
    assert.match(error.message, /^attachments\[0\]\.content /, what);
    const batch = letterhaus.emails.sendBatch([EMAIL, email]);
    await assert.rejects(batch, /emails\[1\]\.attachments\[0\]\.content/, what);
  }
});

test('a call ends when its signal is aborted, or at its timeout', async () => {
  await using receiver = await startReceiver();
  receiver.behaviour = 'hang';
  const options = { baseUrl: receiver.url, apiKey: 'lh_test_x', maxRetries: 0 };
  const reason = new Error('changed my mind');
  const call = new Letterhaus(options).emails.send(EMAIL, { signal: AbortSignal.abort(reason) });
  await assert.rejects(call, reason);
  await assert.rejects(
    new Letterhaus({ ...options, timeoutMs: 50 }).emails.send(EMAIL),
    ConnectionError,
  );
});

test('the event stream yields every event once, even after a lost connection', async () => {
  await using proxy = await startTcpProxy({ host: '127.0.0.1', port: portOf(service.url) });
  const { cursor } = await lastPage();
  const end = new AbortController();
  const seen: string[] = [];
  const sent = [await letterhaus.emails.send(EMAIL), await letterhaus.emails.send(EMAIL)];
  const options = { after: cursor, types: 'email.queued', signal: end.signal };
  for await (const event of behind(proxy.port).events.stream(options)) {
    if (event.type === 'email.queued') seen.push(event.data.email_id);
    if (seen.length === 2) {
      proxy.cut();
      sent.push(await letterhaus.emails.send(EMAIL));
    }
    if (seen.length === 3) end.abort();
  }
  assert.deepEqual(
    seen,
    sent.map(({ id }) => id),
  );
});

test('events of domains and suppressions have the fields of their types', async () => {
  const { cursor } = await lastPage();
  const domain = await letterhaus.domains.create({ name: 'typed.test' });
  const address = 'typed@example.com';
  const created = await letterhaus.suppressions.create({ address });
  const { object: _, etag: _etag, ...suppression } = created;
  const wanted = new Set<string>(['domain.created', 'suppression.added']);
  const options = { after: cursor, types: [...wanted].join(',') };
  for await (const event of letterhaus.events.stream(options)) {
    if (event.type === 'domain.created' && event.data.name === domain.name) {
      assert.deepEqual(Object.keys(event.data), Object.keys(domain));
      wanted.delete(event.type);
    } else if (event.type === 'suppression.added' && event.data.address === address) {
      assert.deepEqual(event.data, suppression);
      wanted.delete(event.type);
    }
    if (wanted.size === 0) break;
  }
});

test('an event stream with a wrong key is an error, not a retry', async () => {
  const stranger = new Letterhaus({ baseUrl: service.url, apiKey: 'lh_test_wrong' });
  await assert.rejects(collected(stranger.events.stream(), String), LetterhausError);
});

test('a webhook of the service is verified; one that was altered or is old is not', async () => {
  await using receiver = await startReceiver();
  const webhook = await letterhaus.webhooks.create({ url: receiver.url });
  await letterhaus.webhooks.test(webhook.id);
  const [received] = await receiver.waitForCount(1);
  assert.ok(received);
  const secret = webhook.signing_secret;
  const given = { payload: received.body, headers: received.headers, secret };
  const event = await verifyWebhook(given);
  assert.deepEqual([event.type, event.id], ['webhook.test', received.id]);
  const bytes = new TextEncoder().encode(received.body);
  const other = `whsec_${Buffer.from('another secret').toString('base64')}`;
  await verifyWebhook({ ...given, payload: bytes, secret: [other, secret] });
  const headers = new Headers(received.headers);
  await verifyWebhook({ ...given, headers });
  const altered = received.body.replace('webhook.test', 'email.bounce');
  await assert.rejects(verifyWebhook({ ...given, payload: altered }), SignatureError);
  await assert.rejects(verifyWebhook({ ...given, secret: other }), SignatureError);
  await assert.rejects(verifyWebhook({ ...given, headers: {} }), SignatureError);
  await letterhaus.webhooks.delete(webhook.id);
});

test('a React element is sent as the html of the renderer', async () => {
  const renderReact = async ({ name }: { name: string }) => `<p>Hello ${name}</p>`;
  const client = new Letterhaus({ baseUrl: service.url, apiKey: service.testKey, renderReact });
  const { html: _, ...email } = EMAIL;
  const { id } = await client.emails.send({ ...email, react: { name: 'Jo' } });
  assert.match(new TextDecoder().decode(await client.emails.content(id)), /<p>Hello Jo<\/p>/);
  await assert.rejects(letterhaus.emails.send({ ...email, react: {} }), /renderReact is needed/);
});

test('a client without a key or an address names what is missing', () => {
  assert.throws(() => new Letterhaus({ baseUrl: service.url }), /LETTERHAUS_API_KEY/);
  assert.throws(() => new Letterhaus({ apiKey: 'lh_test_x' }), /LETTERHAUS_URL/);
});

test('a client never shows its key: printed, as JSON or in an error', async () => {
  const apiKey = 'lh_test_secret';
  const client = new Letterhaus({ baseUrl: service.url, apiKey, maxRetries: 0 });
  assert.doesNotMatch(inspect(client, { depth: null, showHidden: true }), /lh_test_secret/);
  assert.doesNotMatch(JSON.stringify(client), /lh_test_secret/);
  const refusal = await client.emails.get(UNKNOWN_ID).catch((error: unknown) => error);
  assert.doesNotMatch(inspect(refusal, { depth: null }), /lh_test_secret/);
  for (const broken of [`${apiKey}\nph_test_other`, `${apiKey}\u2014`]) {
    assert.throws(
      () => new Letterhaus({ baseUrl: service.url, apiKey: broken }),
      (error: Error) => !error.message.includes(apiKey) && error instanceof TypeError,
    );
  }
  const withPassword = () => new Letterhaus({ baseUrl: 'https://jo:hunter2@acme.test', apiKey });
  assert.throws(withPassword, (error: Error) => !error.message.includes('hunter2'));
});

test('a key from a file may end with a line break', async () => {
  const client = new Letterhaus({ baseUrl: service.url, apiKey: `${service.testKey}\n` });
  assert.equal((await client.emails.send(EMAIL)).object, 'email');
});

function behind(port: number): Letterhaus {
  return new Letterhaus({ baseUrl: `http://127.0.0.1:${port}`, apiKey: service.testKey });
}

function portOf(url: string): number {
  return Number(new URL(url).port);
}

async function collected<T, Out>(items: AsyncIterable<T>, of: (item: T) => Out): Promise<Out[]> {
  const found: Out[] = [];
  for await (const item of items) found.push(of(item));
  return found;
}

async function count(items: AsyncIterable<unknown>): Promise<number> {
  return (await collected(items, () => null)).length;
}

async function lastPage() {
  let page = await letterhaus.events.list({ limit: 100 });
  while (page.has_more) page = await letterhaus.events.list({ limit: 100, after: page.cursor });
  return page;
}

function source(path: string): Promise<string> {
  return readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
}
