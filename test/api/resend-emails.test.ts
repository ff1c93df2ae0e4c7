/** The root mount: emails, sent and read with the official client of Resend. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Resend } from 'resend';
import { DAY_MS } from '../../src/lib/units.ts';
import { TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { failed, resendClient, succeeded } from '../support/resend.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const resend = resendClient(service);
const EMAIL = {
  from: 'Acme <hello@acme.test>',
  to: 'delivered@resend.dev',
  subject: 'Hello',
  html: '<p>Hello</p>',
};

test('the official client sends an email, and shows it when it was delivered', async () => {
  const sent = succeeded(
    await resend.emails.send({
      ...EMAIL,
      to: ['delivered@resend.dev'],
      cc: 'delivered+copy@resend.dev',
      replyTo: 'answers@acme.test',
      headers: { 'X-Entity-Ref-ID': '4711' },
      tags: [{ name: 'kind', value: 'receipt' }],
      attachments: [{ filename: 'a.txt', content: Buffer.from('attached') }],
    }),
  );
  assert.deepEqual(Object.keys(sent), ['id']);
  assert.match(sent.id, UUID_V7);
  await service.waitForStatus(sent.id, 'delivered');
  const { created_at, message_id, ...email } = succeeded(await resend.emails.get(sent.id));
  assert.match(created_at, TIME);
  assert.match(message_id, /^<[^<>@\s]+@acme\.test>$/);
  assert.deepEqual(email, {
    object: 'email',
    id: sent.id,
    to: ['delivered@resend.dev'],
    from: 'Acme <hello@acme.test>',
    subject: 'Hello',
    html: '<p>Hello</p>',
    text: null,
    cc: ['delivered+copy@resend.dev'],
    bcc: [],
    reply_to: ['answers@acme.test'],
    last_event: 'delivered',
    status: 'delivered',
    scheduled_at: null,
    tags: [{ name: 'kind', value: 'receipt' }],
    topic_id: null,
  });
  const content = await service.request('GET', `/v1/emails/${sent.id}/content`);
  assert.match(content.text, /^X-Entity-Ref-ID: 4711\r$/m);
  assert.match(content.text, new RegExp(Buffer.from('attached').toString('base64')));
});

test('emails are listed in pages, newest first', async () => {
  const ids: string[] = [];
  for (const _ of [1, 2, 3]) ids.unshift(succeeded(await resend.emails.send(EMAIL)).id);
  const first = succeeded(await resend.emails.list({ limit: 2 }));
  assert.deepEqual([first.object, first.has_more], ['list', true]);
  assert.deepEqual(
    first.data.map(({ id }) => id),
    ids.slice(0, 2),
  );
  const second = succeeded(await resend.emails.list({ limit: 1, after: ids[1]! }));
  assert.deepEqual(
    second.data.map(({ id }) => id),
    [ids[2]],
  );
  const back = succeeded(await resend.emails.list({ limit: 1, before: ids[1]! }));
  assert.equal(back.data[0]?.id, ids[0]);
  assert.deepEqual(Object.keys(first.data[0]!).toSorted(), [
    'bcc',
    'cc',
    'created_at',
    'from',
    'id',
    'last_event',
    'message_id',
    'reply_to',
    'scheduled_at',
    'status',
    'subject',
    'to',
  ]);
});

test('an email is scheduled, rescheduled and canceled', async () => {
  const scheduledAt = new Date(Date.now() + 31 * DAY_MS).toISOString();
  const tooFar = await resend.emails.send({ ...EMAIL, scheduledAt });
  failed(tooFar, 422, 'validation_error', /scheduled_at: is more than 30 days ahead/);
  const { id } = succeeded(await resend.emails.send({ ...EMAIL, scheduledAt: 'in 1 hour' }));
  const found = succeeded(await resend.emails.get(id));
  assert.equal(found.last_event, 'scheduled');
  const later = new Date(Date.parse(found.scheduled_at!) + 60_000).toISOString();
  const updated = succeeded(await resend.emails.update({ id, scheduledAt: later }));
  assert.deepEqual(updated, { object: 'email', id });
  assert.equal(succeeded(await resend.emails.get(id)).scheduled_at, later);
  assert.deepEqual(succeeded(await resend.emails.cancel(id)), { object: 'email', id });
  assert.equal(succeeded(await resend.emails.get(id)).last_event, 'canceled');
  failed(await resend.emails.cancel(id), 422, 'validation_error', /nothing left to cancel/);
});

test('a strict batch is sent as a whole or not at all', async () => {
  const sent = succeeded(await resend.batch.send([EMAIL, { ...EMAIL, subject: 'Second' }]));
  assert.equal(sent.data.length, 2);
  assert.deepEqual(Object.keys(sent), ['data']);
  const second = succeeded(await resend.emails.get(sent.data[1]!.id));
  assert.equal(second.subject, 'Second');
  const refused = await resend.batch.send([EMAIL, { ...EMAIL, to: 'nobody' }]);
  failed(refused, 422, 'validation_error', /^\[1\]\.to: /);
});

test('a permissive batch sends the valid emails and names the others', async () => {
  const { data, errors } = succeeded(
    await resend.batch.send([EMAIL, { ...EMAIL, to: 'nobody' }], {
      batchValidation: 'permissive',
    }),
  );
  assert.equal(data.length, 1);
  assert.deepEqual(
    errors.map(({ index }) => index),
    [1],
  );
  assert.match(errors[0]!.message, /to: "nobody" is not an email address/);
});

test('a request that is repeated with its idempotency key sends once', async () => {
  const options = { idempotencyKey: 'receipt-4711' };
  const first = succeeded(await resend.emails.send(EMAIL, options));
  assert.deepEqual(succeeded(await resend.emails.send(EMAIL, options)), first);
  const other = await resend.emails.send({ ...EMAIL, subject: 'Other' }, options);
  failed(other, 409, 'invalid_idempotent_request');
  const batch = () => resend.batch.send([EMAIL, EMAIL], { idempotencyKey: 'batch-4711' });
  assert.deepEqual(succeeded(await batch()), succeeded(await batch()));
  const tooLong = await resend.emails.send(EMAIL, { idempotencyKey: 'x'.repeat(257) });
  failed(tooLong, 400, 'invalid_idempotency_key');
});

test('an email to a suppressed address is accepted and ends suppressed', async () => {
  const address = { address: 'gone@list.test' };
  await service.request('POST', '/v1/suppressions', { body: address });
  const { id } = succeeded(await resend.emails.send({ ...EMAIL, to: 'gone@list.test' }));
  const email = await service.waitForStatus(id, 'suppressed');
  assert.match(email.completed_at, TIME);
  assert.equal(succeeded(await resend.emails.get(id)).last_event, 'suppressed');
  const [first, second] = (await service.request('GET', `/v1/emails/${id}/events`)).body.data;
  assert.deepEqual([first.type, second.type], ['email.queued', 'email.suppressed']);
  const mixed = { ...EMAIL, to: ['gone@list.test', 'delivered@simulator.test'] };
  const sent = succeeded(await resend.emails.send(mixed));
  const { recipients } = await service.waitForStatus(sent.id, 'suppressed');
  assert.deepEqual(
    recipients.map(({ status }: { status: string }) => status),
    ['suppressed', 'delivered'],
  );
});

test('failures have the names that the clients know', async () => {
  failed(await new Resend('lh_test_nonsense').emails.list(), 403, 'invalid_api_key');
  const wrong = { ...EMAIL, from: 'hello@unverified.test' };
  failed(await resend.emails.send(wrong), 403, 'validation_error', /not a verified domain/);
  failed(await resend.emails.send({ ...EMAIL, from: 'nobody' }), 422, 'invalid_from_address');
  const noSubject = { ...EMAIL, subject: undefined } as unknown as typeof EMAIL;
  failed(await resend.emails.send(noSubject), 422, 'missing_required_field');
  const attachments = [{ filename: 'a.txt', content: 'not base64!' }];
  const broken = await service.request('POST', '/emails', { body: { ...EMAIL, attachments } });
  assert.deepEqual([broken.status, broken.body.name], [422, 'invalid_attachment']);
  const topic = await resend.emails.send({ ...EMAIL, topicId: UNKNOWN_ID });
  failed(topic, 422, 'validation_error', /topic_id: this service has no topics/);
  failed(await resend.emails.get(UNKNOWN_ID), 404, 'not_found');
  failed(await resend.emails.get('nonsense'), 404, 'not_found');
});

test('a failure has Resend’s members, the request id, and no others', async () => {
  const response = await service.request('GET', `/emails/${UNKNOWN_ID}`);
  const { message, request_id, ...rest } = response.body;
  assert.deepEqual(rest, { statusCode: 404, name: 'not_found' });
  assert.match(message, /^There is no email with this id/);
  assert.equal(request_id, response.headers.get('x-request-id'));
  const noKey = await service.request('GET', '/emails', { key: null });
  assert.deepEqual([noKey.status, noKey.body.name], [401, 'missing_api_key']);
  const method = await service.request('PUT', '/emails');
  assert.deepEqual([method.status, method.body.name], [405, 'method_not_allowed']);
  const malformed = await service.request('POST', '/emails', { body: '{', headers: {} });
  assert.deepEqual([malformed.status, malformed.body.name], [400, 'validation_error']);
});

test('a key that may only send is refused where full access is needed', async () => {
  const { body } = await service.request('POST', '/v1/api-keys', {
    body: { name: 'sender', permission: 'sending_access' },
  });
  const sender = resendClient(service, body.key);
  const { id } = succeeded(await sender.emails.send(EMAIL));
  assert.equal(succeeded(await sender.emails.get(id)).id, id);
  const update = await sender.emails.update({ id, scheduledAt: 'in 1 min' });
  failed(update, 401, 'restricted_api_key');
});

test('operations outside of transactional email are refused by name', async () => {
  failed(await resend.contacts.list(), 404, 'not_found', /does not offer contacts/);
  failed(await resend.segments.list(), 404, 'not_found', /does not offer segments/);
  const broadcast = await resend.broadcasts.send('some-id');
  failed(broadcast, 404, 'not_found', /does not offer broadcasts/);
});

test('the paths of /v1 keep their own shape of failures', async () => {
  const response = await service.request('GET', `/v1/emails/${UNKNOWN_ID}`);
  assert.deepEqual(Object.keys(response.body), ['error']);
  const unknown = await service.request('GET', '/nothing');
  assert.deepEqual(Object.keys(unknown.body), ['error']);
});
