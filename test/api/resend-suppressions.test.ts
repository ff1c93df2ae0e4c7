/** The root mount: suppressions and templates, managed with the official client of Resend. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { failed, resendClient, succeeded } from '../support/resend.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const resend = resendClient(service);
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

test('an address is suppressed, found by id and by address, and removed by either', async () => {
  const { object, id } = succeeded(await resend.suppressions.add({ email: 'Jo@acme.test' }));
  assert.equal(object, 'suppression');
  assert.match(id, UUID);
  const found = succeeded(await resend.suppressions.get('jo@acme.test'));
  assert.deepEqual(succeeded(await resend.suppressions.get(id)), found);
  const { created_at, ...entry } = found;
  assert.match(created_at, TIME);
  assert.deepEqual(entry, {
    object: 'suppression',
    id,
    email: 'Jo@acme.test',
    origin: 'manual',
    source_id: null,
  });
  const gone = { object: 'suppression', id, deleted: true };
  assert.deepEqual(succeeded(await resend.suppressions.remove(id)), gone);
  failed(await resend.suppressions.remove('jo@acme.test'), 404, 'not_found');
  failed(await resend.suppressions.get(UNKNOWN_ID), 404, 'not_found');
  failed(await resend.suppressions.add({ email: 'nobody' }), 422, 'validation_error', /^email: /);
});

test('addresses are added and removed in batches, and listed in pages by origin', async () => {
  const emails = ['a@list.test', 'b@list.test', 'c@list.test'];
  const added = succeeded(await resend.suppressions.batch.add({ emails })).data;
  assert.equal(new Set(added.map(({ id }) => id)).size, 3);
  const first = succeeded(await resend.suppressions.list({ limit: 2 }));
  assert.deepEqual(
    [first.has_more, first.data.map(({ email }) => email)],
    [true, emails.slice(0, 2)],
  );
  const next = succeeded(await resend.suppressions.list({ limit: 2, after: first.data[1]!.id }));
  assert.deepEqual(
    next.data.map(({ email }) => email),
    emails.slice(2),
  );
  assert.deepEqual(succeeded(await resend.suppressions.list({ origin: 'bounce' })).data, []);
  const body = { emails: ['d@list.test', 'nobody'] };
  failed(await resend.suppressions.batch.add(body), 422, 'validation_error', /emails\[1\]/);
  failed(await resend.suppressions.get('d@list.test'), 404, 'not_found');
  const ids = added.slice(0, 2).map(({ id }) => id);
  assert.equal(succeeded(await resend.suppressions.batch.remove({ ids })).data.length, 2);
  const rest = succeeded(await resend.suppressions.batch.remove({ emails }));
  assert.deepEqual(rest.data, [{ object: 'suppression', id: added[2]!.id, deleted: true }]);
});

test('an address that bounced is listed with the email that it bounced', async () => {
  const to = 'bounced@simulator.test';
  const email = { from: 'a@acme.test', to, subject: 'Hello', text: 'Hello' };
  const { id } = succeeded(await resend.emails.send(email));
  await service.waitForStatus(id, 'bounced');
  // An address of the simulator bounces every time, even when it is suppressed.
  const again = succeeded(await resend.emails.send(email));
  await service.waitForStatus(again.id, 'bounced');
  const [entry] = succeeded(await resend.suppressions.list({ origin: 'bounce' })).data;
  assert.deepEqual([entry?.email, entry?.origin, entry?.source_id], [to, 'bounce', id]);
});

test('a template is made in Resend’s language, published, and sent', async () => {
  const { id } = succeeded(
    await resend.templates
      .create({
        name: 'Order',
        alias: 'order',
        subject: 'Order {{{PRODUCT}}}',
        html: '<p>{{{PRODUCT}}} for {{{PRICE}}}</p>',
        variables: [
          { key: 'PRODUCT', type: 'string', fallbackValue: 'item' },
          { key: 'PRICE', type: 'number' },
        ],
      })
      .publish(),
  );
  assert.match(id, UUID_V7);
  const { variables, current_version_id, created_at, updated_at, published_at, ...template } =
    succeeded(await resend.templates.get('order'));
  for (const time of [created_at, updated_at, published_at!]) assert.match(time, TIME);
  assert.match(current_version_id, UUID);
  assert.deepEqual(template, {
    object: 'template',
    id,
    name: 'Order',
    alias: 'order',
    status: 'published',
    subject: 'Order {{{PRODUCT}}}',
    html: '<p>{{{PRODUCT}}} for {{{PRICE}}}</p>',
    text: null,
    from: null,
    reply_to: null,
    has_unpublished_versions: false,
  });
  assert.deepEqual(
    variables?.map(({ key, type, fallback_value }) => ({ key, type, fallback_value })),
    [
      { key: 'PRODUCT', type: 'string', fallback_value: 'item' },
      { key: 'PRICE', type: 'number', fallback_value: null },
    ],
  );
  const variablesOfEmail = { PRODUCT: 'Tea & cake', PRICE: 3 };
  const sent = succeeded(
    await resend.emails.send({
      from: 'a@acme.test',
      to: 'delivered@resend.dev',
      template: { id: 'order', variables: variablesOfEmail },
    }),
  );
  const email = succeeded(await resend.emails.get(sent.id));
  assert.deepEqual(
    [email.subject, email.html],
    ['Order Tea & cake', '<p>Tea &amp; cake for 3</p>'],
  );
});

test('a template is changed, duplicated, listed and removed', async () => {
  const template = { name: 'Note', subject: 'Note', html: '<p>Hello</p>' };
  const { id } = succeeded(await resend.templates.create(template).publish());
  succeeded(await resend.templates.update(id, { html: '<p>Hello again</p>' }));
  const changed = succeeded(await resend.templates.get(id));
  assert.deepEqual([changed.html, changed.has_unpublished_versions], ['<p>Hello again</p>', true]);
  const copy = succeeded(await resend.templates.duplicate(id));
  const copied = succeeded(await resend.templates.get(copy.id));
  assert.deepEqual(
    [copied.name, copied.status, copied.html],
    ['Note (copy)', 'draft', changed.html],
  );
  const listed = succeeded(await resend.templates.list({ limit: 1 }));
  assert.deepEqual([listed.data[0]?.id, listed.has_more], [copy.id, true]);
  const removed = { object: 'template', id: copy.id, deleted: true };
  assert.deepEqual(succeeded(await resend.templates.remove(copy.id)), removed);
  failed(await resend.templates.get(copy.id), 404, 'not_found');
  const withSender = await resend.templates.create({ ...template, from: 'a@acme.test' });
  failed(withSender, 422, 'invalid_from_address', /^from: is set for each email here/);
});
