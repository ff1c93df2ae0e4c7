/** The root mount: webhooks, managed and verified with the official client of Resend. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { TIME, UUID_V7 } from '../support/api.ts';
import { failed, resendClient, succeeded } from '../support/resend.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';
import { type Received, startReceiver } from '../support/webhook-receiver.ts';

const service = await sharedService();

const resend = resendClient(service);
const EMAIL = { from: 'Acme <hello@acme.test>', subject: 'Hello', text: 'Hello' };

/** Verifies a request as the receiver of an application does. */
function verify({ body, headers }: Received, webhookSecret: string) {
  const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map(
    (name) => headers[`svix-${name}`]!,
  ) as [string, string, string];
  return resend.webhooks.verify({
    payload: body,
    headers: { id, timestamp, signature },
    webhookSecret,
  });
}

test('an endpoint gets Resend’s events, which its client verifies', async () => {
  await using receiver = await startReceiver();
  const { id, signing_secret: secret } = succeeded(
    await resend.webhooks.create({
      endpoint: receiver.url,
      events: ['email.sent', 'email.delivered', 'email.bounced'],
    }),
  );
  const tags = [{ name: 'kind', value: 'receipt' }];
  const to = ['delivered@resend.dev', 'bounced@resend.dev'];
  const sent = succeeded(await resend.emails.send({ ...EMAIL, to, tags }));
  const received = await receiver.waitForCount(3);
  const events = received.map((request) => verify(request, secret));
  const byType = new Map(events.map((event) => [event.type as string, event]));
  assert.deepEqual([...byType.keys()].toSorted(), [
    'email.bounced',
    'email.delivered',
    'email.sent',
  ]);
  const { created_at, message_id, ...data } = byType.get('email.sent')!.data as never as Record<
    string,
    string
  >;
  assert.match(created_at!, TIME);
  assert.match(message_id!, /^<.*@acme\.test>$/);
  const common = {
    email_id: sent.id,
    from: EMAIL.from,
    subject: 'Hello',
    tags: { kind: 'receipt' },
  };
  assert.deepEqual(data, { ...common, to });
  const { bounce, ...bounced } = byType.get('email.bounced')!.data as never as Record<
    string,
    never
  >;
  assert.deepEqual(bounced, { ...common, created_at, message_id, to: ['bounced@resend.dev'] });
  const { message, ...kind } = bounce as unknown as Record<string, string>;
  assert.deepEqual(kind, { type: 'Permanent', subType: 'NoEmail' });
  assert.match(message!, /5\.1\.1/);
  assert.throws(() => verify(received[0]!, `whsec_${Buffer.alloc(32).toString('base64')}`));
  succeeded(await resend.webhooks.remove(id));
});

test('an endpoint is shown, changed, listed and removed', async () => {
  await using receiver = await startReceiver();
  const created = await resend.webhooks.create({
    endpoint: receiver.url,
    events: ['domain.updated', 'email.sent', 'contact.created'],
  });
  const { id, signing_secret } = succeeded(created);
  assert.match(id, UUID_V7);
  assert.match(signing_secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const { created_at, ...shown } = succeeded(await resend.webhooks.get(id));
  assert.match(created_at, TIME);
  assert.deepEqual(shown, {
    object: 'webhook',
    id,
    endpoint: receiver.url,
    events: ['email.sent', 'domain.updated'],
    status: 'enabled',
    signing_secret,
  });
  const change = { events: ['suppression.added'], status: 'disabled' } as const;
  const updated = await resend.webhooks.update(id, { ...change, events: [...change.events] });
  assert.deepEqual(succeeded(updated), { object: 'webhook', id });
  const [listed] = succeeded(await resend.webhooks.list()).data;
  assert.deepEqual([listed?.id, listed?.events, listed?.status], [id, change.events, 'disabled']);
  assert.ok(!('signing_secret' in listed!));
  const rotated = succeeded(await resend.webhooks.rotateSigningSecret(id));
  assert.notEqual(rotated.signing_secret, signing_secret);
  assert.deepEqual(succeeded(await resend.webhooks.remove(id)), {
    object: 'webhook',
    id,
    deleted: true,
  });
  failed(await resend.webhooks.get(id), 404, 'not_found');
});

test('an endpoint without an event that can occur is refused', async () => {
  const create = (endpoint: string, events: string[]) =>
    resend.webhooks.create({ endpoint, events } as Parameters<typeof resend.webhooks.create>[0]);
  const url = 'https://acme.com/hooks';
  failed(await create(url, ['contact.created']), 422, 'validation_error', /at least one/);
  failed(await create(url, ['email.sended']), 422, 'validation_error', /"email\.sended" is not/);
  failed(await create('ftp://acme.com', ['email.sent']), 422, 'validation_error', /^endpoint: /);
});

test('deliveries to an endpoint are listed with their attempts, and sent again', async () => {
  // No attempt of the schedule comes between those of this test.
  await using receiver = await startReceiver({ status: 500, headers: { 'retry-after': '3600' } });
  const events = ['email.suppressed' as const];
  const { id: webhookId } = succeeded(
    await resend.webhooks.create({ endpoint: receiver.url, events }),
  );
  const address = { address: 'gone@list.test' };
  await service.request('POST', '/v1/suppressions', { body: address });
  succeeded(await resend.emails.send({ ...EMAIL, to: 'gone@list.test' }));
  await receiver.waitForCount(1);
  const event = await waitFor(
    async () => {
      const [first] = succeeded(await resend.webhooks.events.list({ webhookId })).data;
      return first?.status === 'attempting' ? first : undefined;
    },
    { what: 'a failed attempt' },
  );
  assert.equal(event.type, 'email.suppressed');
  const which = { webhookId, eventId: event.id };
  const { payload, next_attempt_at, ...detail } = succeeded(
    await resend.webhooks.events.get(which),
  );
  assert.deepEqual(detail, { object: 'webhook_event', ...event });
  assert.match(next_attempt_at!, TIME);
  assert.equal(JSON.stringify(payload), receiver.received[0]!.body);
  assert.equal(
    (payload.data as { suppressed?: { type: string } }).suppressed?.type,
    'OnAccountSuppressionList',
  );
  receiver.behaviour = 200;
  const replayed = succeeded(await resend.webhooks.events.replay(which));
  assert.deepEqual(replayed, { object: 'webhook_event', id: event.id });
  await waitFor(
    async () => succeeded(await resend.webhooks.events.get(which)).status === 'success',
    { what: 'the replay to succeed' },
  );
  const attempts = succeeded(await resend.webhooks.events.attempts.list(which)).data;
  assert.deepEqual(
    attempts.map((one) => one.http_status_code),
    [200, 500],
  );
  assert.equal(new Set(receiver.ids()).size, 1);
});

test('events of domains and suppressions have Resend’s shape as well', async () => {
  await using receiver = await startReceiver();
  const { signing_secret: secret } = succeeded(
    await resend.webhooks.create({
      endpoint: receiver.url,
      events: ['domain.created', 'domain.updated', 'suppression.added'],
    }),
  );
  const { id } = succeeded(await resend.domains.create({ name: 'events.test' }));
  succeeded(await resend.domains.verify(id));
  await service.request('POST', '/v1/suppressions', { body: { address: 'Jo@simulator.test' } });
  const received = await receiver.waitForCount(3);
  const byType = new Map(
    received
      .map((request) => verify(request, secret))
      .map((event) => [event.type as string, event.data]),
  );
  const { records, ...domain } = byType.get('domain.updated') as unknown as Record<string, unknown>;
  assert.deepEqual(
    { ...domain, created_at: '' },
    {
      id,
      name: 'events.test',
      status: 'verified',
      created_at: '',
      region: 'us-east-1',
      capabilities: { sending: 'enabled', receiving: 'disabled' },
      open_tracking: false,
      click_tracking: false,
    },
  );
  assert.equal((records as unknown[]).length, 4);
  const { id: entryId, ...entry } = byType.get('suppression.added') as unknown as Record<
    string,
    string
  >;
  assert.match(entryId!, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  assert.deepEqual(
    { ...entry, created_at: '' },
    { email: 'Jo@simulator.test', origin: 'manual', source_id: null, created_at: '' },
  );
});

test('an endpoint that was registered at /v1 keeps its shape and its secret', async () => {
  await using receiver = await startReceiver();
  const body = { url: receiver.url, events: ['email.queued'] };
  const { id } = (await service.request('POST', '/v1/webhooks', { body })).body;
  const shown = succeeded(await resend.webhooks.get(id));
  assert.deepEqual([shown.signing_secret, shown.events], ['', ['email.sent']]);
  succeeded(await resend.emails.send({ ...EMAIL, to: 'delivered@resend.dev' }));
  const [first] = await receiver.waitForCount(1);
  assert.equal(first?.event.type, 'email.queued');
});
