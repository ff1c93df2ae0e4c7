/** The root mount: domains and API keys, managed with the official client of Resend. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { failed, resendClient, succeeded } from '../support/resend.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const resend = resendClient(service);

test('a domain is added, verified, changed, listed and removed', async () => {
  const added = succeeded(
    await resend.domains.create({ name: 'mail.added.test', region: 'eu-west-1' }),
  );
  assert.match(added.id, UUID_V7);
  assert.deepEqual([added.name, added.status], ['mail.added.test', 'not_started']);
  const { id } = added;
  const verified = succeeded(await resend.domains.verify(id));
  assert.equal(verified.id, id);
  const { records, created_at, ...domain } = succeeded(await resend.domains.get(id));
  assert.match(created_at, TIME);
  assert.deepEqual(
    { ...domain, advice: [] },
    {
      object: 'domain',
      id,
      name: 'mail.added.test',
      status: 'verified',
      region: 'us-east-1',
      capabilities: { sending: 'enabled', receiving: 'disabled' },
      open_tracking: false,
      click_tracking: false,
      tls: 'opportunistic',
      advice: [],
    },
  );
  assert.equal(records.length, 4);
  const update = await resend.domains.update({ id, tls: 'enforced', clickTracking: true });
  assert.deepEqual(succeeded(update), { object: 'domain', id });
  const native = await service.request('GET', `/v1/domains/${id}`);
  assert.equal(native.body.tls, 'enforced');
  assert.deepEqual(native.body.tracking, { opens: false, clicks: true });
  const list = succeeded(await resend.domains.list());
  assert.deepEqual([list.object, list.data[0]?.id, list.has_more], ['list', id, false]);
  assert.deepEqual(list.data[0]?.capabilities, { sending: 'enabled', receiving: 'disabled' });
  const removed = succeeded(await resend.domains.remove(id));
  assert.deepEqual(removed, { object: 'domain', id, deleted: true });
  failed(await resend.domains.get(id), 404, 'not_found');
});

test('the records of a domain are of the kinds that clients know, with names for a DNS panel', async () => {
  const { records } = succeeded(await resend.domains.create({ name: 'mail.records.test' }));
  for (const { record, name, ttl, status } of records) {
    assert.match(name, record === 'DKIM' ? /^lh[12]-.*\._domainkey\.mail$/ : /^send\.mail$/);
    assert.deepEqual([ttl, status], ['Auto', 'not_started']);
  }
  assert.deepEqual(records.map(({ record, type }) => `${record} ${type}`).toSorted(), [
    'DKIM TXT',
    'DKIM TXT',
    'SPF MX',
    'SPF TXT',
  ]);
  assert.deepEqual(
    records.flatMap((one) => ('priority' in one ? [one.priority] : [])),
    [10],
  );
});

test('tracking is switched on when a domain is added, and off later', async () => {
  const { id } = succeeded(
    await resend.domains.create({ name: 'tracked.test', openTracking: true, clickTracking: true }),
  );
  const shown = async () => {
    const { open_tracking, click_tracking } = succeeded(await resend.domains.get(id));
    return [open_tracking, click_tracking];
  };
  assert.deepEqual(await shown(), [true, true]);
  succeeded(await resend.domains.update({ id, clickTracking: false }));
  assert.deepEqual(await shown(), [true, false]);
});

test('settings that a domain cannot have here are refused, not ignored', async () => {
  const name = 'refused.test';
  for (const [settings, field] of [
    [{ customReturnPath: 'bounces' }, /custom_return_path/],
    [{ capabilities: { receiving: 'enabled' } }, /capabilities\.receiving/],
    [{ trackingSubdomain: 'links' }, /^tracking_subdomain: .*LETTERHAUS_TRACKING_URL/],
  ] as const) {
    failed(await resend.domains.create({ name, ...settings }), 422, 'validation_error', field);
  }
  const twice = { name: 'acme.test' };
  failed(await resend.domains.create(twice), 422, 'validation_error', /already/);
  const nameless = {} as unknown as { name: string };
  failed(await resend.domains.create(nameless), 422, 'missing_required_field', /^name: /);
  failed(await resend.domains.verify(UNKNOWN_ID), 404, 'not_found');
  const claim = await service.request('POST', '/domains/claim', { body: {} });
  assert.deepEqual([claim.status, claim.body.name], [404, 'not_found']);
});

test('an API key is made, listed, renamed and removed', async () => {
  const made = succeeded(await resend.apiKeys.create({ name: 'Receipts' }));
  assert.deepEqual(Object.keys(made).toSorted(), ['id', 'token']);
  const { id, token } = made;
  const used = resendClient(service, token);
  assert.equal(succeeded(await used.domains.list()).object, 'list');
  const listed = succeeded(await resend.apiKeys.list()).data.find((key) => key.id === id);
  assert.deepEqual(Object.keys(listed!), ['id', 'name', 'created_at', 'last_used_at']);
  assert.equal(listed?.name, 'Receipts');
  succeeded(await resend.apiKeys.update(id, { name: 'Renamed' }));
  const renamed = succeeded(await resend.apiKeys.list()).data.find((key) => key.id === id);
  assert.equal(renamed?.name, 'Renamed');
  succeeded(await resend.apiKeys.remove(id));
  failed(await used.domains.list(), 403, 'invalid_api_key');
  failed(await resend.apiKeys.remove(id), 404, 'not_found');
});

test('a key for one domain sends from no other', async () => {
  const other = succeeded(await resend.domains.create({ name: 'other.test' }));
  const { token } = succeeded(
    await resend.apiKeys.create({
      name: 'other',
      permission: 'sending_access',
      domain_id: other.id,
    }),
  );
  const sender = resendClient(service, token);
  const email = { to: 'delivered@resend.dev', subject: 'Hello', text: 'Hello' };
  const refused = await sender.emails.send({ ...email, from: 'a@acme.test' });
  failed(refused, 401, 'restricted_api_key', /may only send from other\.test/);
  const unknown = { name: 'x', permission: 'sending_access', domain_id: UNKNOWN_ID } as const;
  failed(await resend.apiKeys.create(unknown), 422, 'validation_error', /domain_id/);
});
