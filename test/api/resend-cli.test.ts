/** The root mount: the official command line of Resend works with only its base URL and key set. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { ResendCli } from '../support/resend-cli.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const service = await sharedService();
const resend = await ResendCli.at(service);
after(() => resend[Symbol.asyncDispose]());

const GUIDE = readFileSync(join(import.meta.dirname, '../../docs/moving-from-resend.md'), 'utf8');
const TO = 'delivered@resend.dev';
const MINIMAL = ['--from', 'a@acme.test', '--to', TO, '--subject', 'Hi', '--text', 'Hi'];

test('doctor accepts the service, its key and its domain', async () => {
  const { ok, checks } = await resend.json('doctor');
  assert.equal(ok, true);
  const domains = checks.find(({ name }: { name: string }) => name === 'Domains');
  assert.deepEqual(domains, {
    name: 'Domains',
    status: 'pass',
    message: '1 verified, 0 pending',
    detail: 'acme.test (verified)',
  });
});

test('doctor distinguishes a sending-only key from an invalid one', async () => {
  const created = ['api-keys', 'create', '--name', 'Sender', '--permission', 'sending_access'];
  const { token } = await resend.json(...created);
  const sender = await resend.run(['doctor'], token);
  assert.equal(sender.code, 0, sender.stderr);
  assert.match(sender.stdout, /"message": "Sending-only API key"/);
  const wrong = await resend.run(['doctor'], 'lh_test_nonsense');
  assert.equal(wrong.code, 1, wrong.stdout);
  assert.match(wrong.stdout, /keys begin with lh_live_ or lh_test_/);
});

test('an email is sent with everything it may have, shown and listed', async () => {
  const html = await resend.file('body.html', '<p>Hello</p>');
  const file = await resend.file('note.txt', 'attached');
  const command = ['emails', 'send', '--from', 'Acme <a@acme.test>', '--to', TO];
  const content = ['--subject', 'Hello', '--html-file', html, '--attachment', file];
  const rest = ['--cc', 'delivered+cc@resend.dev', '--reply-to', 'r@acme.test'];
  const named = ['--headers', 'X-Ref=4711', '--tags', 'kind=receipt', '--idempotency-key', 'once'];
  const send = () => resend.json(...command, ...content, ...rest, ...named);
  const { id } = await send();
  assert.match(id, UUID_V7);
  assert.deepEqual(await send(), { id }, 'the idempotency key is used again');
  await service.waitForStatus(id, 'delivered');
  const email = await resend.json('emails', 'get', id);
  assert.deepEqual(
    [email.from, email.to, email.cc, email.reply_to, email.subject, email.html, email.tags],
    [
      'Acme <a@acme.test>',
      [TO],
      ['delivered+cc@resend.dev'],
      ['r@acme.test'],
      'Hello',
      '<p>Hello</p>',
      [{ name: 'kind', value: 'receipt' }],
    ],
  );
  assert.equal(email.last_event, 'delivered');
  const message = await service.request('GET', `/v1/emails/${id}/content`);
  assert.match(message.text, /^X-Ref: 4711\r$/m);
  assert.match(message.text, new RegExp(Buffer.from('attached').toString('base64')));
  const [attached] = (await resend.json('emails', 'attachments', id)).data;
  assert.deepEqual([attached.filename, attached.size], ['note.txt', 'attached'.length]);
  const listed = await resend.json('emails', 'list', '--limit', '1');
  assert.deepEqual([listed.data[0].id, listed.data[0].last_event], [id, 'delivered']);
});

test('emails are listed in pages', async () => {
  for (const _ of [1, 2]) await resend.json('emails', 'send', ...MINIMAL);
  const all = (await resend.json('emails', 'list')).data;
  const page = await resend.json('emails', 'list', '--limit', '1', '--after', all[0].id);
  assert.deepEqual([page.data, page.has_more], [[all[1]], true]);
  const back = await resend.json('emails', 'list', '--limit', '1', '--before', all[1].id);
  assert.deepEqual(back.data, [all[0]]);
});

test('a scheduled email is moved and canceled', async () => {
  const { id } = await resend.json('emails', 'send', ...MINIMAL, '--scheduled-at', 'in 1 hour');
  const at = new Date(Date.now() + 86_400_000).toISOString();
  const named = { object: 'email', id };
  assert.deepEqual(await resend.json('emails', 'update', id, '--scheduled-at', at), named);
  assert.equal((await resend.json('emails', 'get', id)).scheduled_at, at);
  assert.deepEqual(await resend.json('emails', 'cancel', id), named);
  assert.equal((await resend.json('emails', 'get', id)).last_event, 'canceled');
  const again = ['emails', 'cancel', id];
  await resend.fails(again, [422, 'validation_error'], /nothing left to cancel/);
});

test('a batch is sent from a file, as a whole or without the emails that are not valid', async () => {
  const email = { from: 'a@acme.test', to: [TO], subject: 'Batch', text: 'Hi' };
  const good = await resend.file('good.json', JSON.stringify([email, email]));
  assert.equal((await resend.json('emails', 'batch', '--file', good)).length, 2);
  const mixed = await resend.file('mixed.json', JSON.stringify([email, { ...email, to: ['x'] }]));
  const batch = ['emails', 'batch', '--file', mixed];
  await resend.fails(batch, [422, 'validation_error'], /^\[1\]\.to\[0\]: "x" is not an email/);
  const { data, errors } = await resend.json(...batch, '--batch-validation', 'permissive');
  assert.deepEqual([data.length, errors.length, errors[0].index], [1, 1, 1]);
});

test('an email is shared by a link, and counted', async () => {
  const { id } = await resend.json('emails', 'send', ...MINIMAL);
  const shared = await resend.json('emails', 'share', id, '--expires-in', '1 day');
  assert.deepEqual([shared.object, shared.id], ['email', id]);
  const page = await service.request('GET', new URL(shared.url).pathname, { key: null });
  assert.deepEqual([page.status, page.text], [200, 'Hi']);
  const { totals } = await resend.json('emails', 'metrics', '--email-id', id, '--metrics', 'sent');
  assert.deepEqual(totals, { sent: 1 });
});

test('a domain is added, verified, changed, listed and removed', async () => {
  const created = await resend.json('domains', 'create', '--name', 'cli.test', '--tls', 'enforced');
  const { id, records } = created;
  assert.deepEqual([created.status, created.tls, records.length], ['not_started', 'enforced', 4]);
  assert.equal((await resend.json('domains', 'verify', id)).status, 'verified');
  const change = ['domains', 'update', id, '--tls', 'opportunistic', '--click-tracking'];
  assert.deepEqual(await resend.json(...change), { object: 'domain', id });
  const shown = await resend.json('domains', 'get', id);
  assert.deepEqual([shown.tls, shown.click_tracking], ['opportunistic', true]);
  const listed = (await resend.json('domains', 'list')).data;
  assert.deepEqual(
    listed.map(({ name }: { name: string }) => name),
    ['cli.test', 'acme.test'],
  );
  const removed = await resend.json('domains', 'delete', id, '--yes');
  assert.deepEqual(removed, { object: 'domain', id, deleted: true });
  await resend.fails(['domains', 'get', id], [404, 'not_found'], /There is no domain/);
});

test('an API key is made, listed, renamed and removed', async () => {
  const { id, token } = await resend.json('api-keys', 'create', '--name', 'Receipts');
  assert.match(token, /^lh_test_/);
  await resend.json('api-keys', 'update', id, '--name', 'Renamed');
  const { data } = await resend.json('api-keys', 'list');
  assert.equal(data.find((key: { id: string }) => key.id === id).name, 'Renamed');
  await resend.json('api-keys', 'delete', id, '--yes');
  const used = await resend.run(['emails', 'list'], token);
  assert.equal(used.code, 1);
  assert.match(used.stderr, /name: 'invalid_api_key'/);
});

test('a webhook is registered for all events, changed, replayed and removed', async () => {
  await using receiver = await startReceiver();
  const created = ['webhooks', 'create', '--endpoint', receiver.url, '--events', 'all'];
  const { id, signing_secret: secret } = await resend.json(...created);
  assert.match(secret, /^whsec_/);
  const shown = await resend.json('webhooks', 'get', id);
  assert.deepEqual([shown.endpoint, shown.signing_secret], [receiver.url, secret]);
  assert.ok(shown.events.includes('email.delivered'));
  await resend.json('webhooks', 'update', id, '--events', 'email.delivered');
  await resend.json('emails', 'send', ...MINIMAL);
  await receiver.waitForCount(1);
  const event = await waitFor(
    async () => {
      const [first] = (await resend.json('webhooks', 'events', 'list', id)).data;
      return first?.status === 'success' ? first : undefined;
    },
    { what: 'the event to be recorded' },
  );
  assert.equal(event.type, 'email.delivered');
  const { payload } = await resend.json('webhooks', 'events', 'get', id, event.id);
  assert.equal(JSON.stringify(payload), receiver.received[0]!.body);
  const attempts = await resend.json('webhooks', 'events', 'attempts', id, event.id);
  assert.equal(attempts.data[0].http_status_code, 200);
  await resend.json('webhooks', 'events', 'replay', id, event.id);
  await receiver.waitForCount(2);
  assert.equal(new Set(receiver.ids()).size, 1);
  const rotated = await resend.json('webhooks', 'rotate-signing-secret', id);
  assert.notEqual(rotated.signing_secret, secret);
  await resend.json('webhooks', 'update', id, '--status', 'disabled');
  const listed = (await resend.json('webhooks', 'list')).data;
  assert.deepEqual([listed[0].id, listed[0].status], [id, 'disabled']);
  await resend.json('webhooks', 'delete', id, '--yes');
  await resend.fails(['webhooks', 'get', id], [404, 'not_found'], /There is no webhook/);
});

test('a template is made, published and sent with the values of the command line', async () => {
  const content = ['--subject', 'Order {{{PRODUCT}}}', '--html', '<p>{{{PRICE}}}</p>'];
  const variables = ['--var', 'PRODUCT:string:item', '--var', 'PRICE:number'];
  const created = ['templates', 'create', '--name', 'Order', '--alias', 'order'];
  const { id } = await resend.json(...created, ...content, ...variables);
  await resend.json('templates', 'publish', 'order');
  const shown = await resend.json('templates', 'get', 'order');
  assert.deepEqual([shown.id, shown.status, shown.subject], [id, 'published', content[1]]);
  const send = ['emails', 'send', '--template', 'order', '--from', 'a@acme.test', '--to', TO];
  // It writes every value as a string.
  const sent = await resend.json(...send, '--var', 'PRODUCT=Tea', '--var', 'PRICE=3.50');
  const email = await resend.json('emails', 'get', sent.id);
  assert.deepEqual([email.subject, email.html], ['Order Tea', '<p>3.50</p>']);
  const wrong = [...send, '--var', 'PRICE=much'];
  await resend.fails(wrong, [422, 'validation_error'], /PRICE: must be a number/);
  await resend.json('templates', 'update', 'order', '--html', '<p>New {{{PRICE}}}</p>');
  const copy = await resend.json('templates', 'duplicate', 'order');
  const listed = (await resend.json('templates', 'list')).data;
  assert.deepEqual(
    listed.map((one: { id: string }) => one.id),
    [copy.id, id],
  );
  await resend.json('templates', 'delete', id, '--yes');
  await resend.fails(['templates', 'get', 'order'], [404, 'not_found'], /no template/);
});

test('addresses are suppressed and released, one by one and from files', async () => {
  const { id } = await resend.json('suppressions', 'add', 'gone@acme.test');
  const { created_at, ...entry } = await resend.json('suppressions', 'get', 'gone@acme.test');
  assert.match(created_at, TIME);
  assert.deepEqual([entry.id, entry.origin], [id, 'manual']);
  const file = await resend.file('addresses.json', '["a@acme.test", "b@acme.test"]');
  await resend.json('suppressions', 'batch', 'add', '--file', file);
  const addresses = async () =>
    (await resend.json('suppressions', 'list', '--origin', 'manual')).data.map(
      ({ email }: { email: string }) => email,
    );
  assert.deepEqual(await addresses(), ['a@acme.test', 'b@acme.test', 'gone@acme.test']);
  await resend.json('suppressions', 'batch', 'remove', '--file', file);
  await resend.json('suppressions', 'delete', 'gone@acme.test', '--yes');
  assert.deepEqual(await addresses(), []);
  const gone = ['suppressions', 'get', 'gone@acme.test'];
  await resend.fails(gone, [404, 'not_found'], /There is no suppression/);
});

test('the log has the requests of the command line', async () => {
  await resend.json('templates', 'list');
  const logged = await waitFor(
    async () => {
      const { data } = await resend.json('logs', 'list', '--limit', '100');
      return data.find(({ endpoint }: { endpoint: string }) => endpoint === '/templates');
    },
    { what: 'the request to be logged' },
  );
  assert.match(logged.user_agent, /^resend-cli:/);
  const shown = await resend.json('logs', 'get', logged.id);
  assert.deepEqual([shown.object, shown.endpoint], ['log', '/templates']);
});

test('a failing command shows the name and the message of the failure', async () => {
  const unverified = ['emails', 'send', '--from', 'a@other.test', ...MINIMAL.slice(2)];
  await resend.fails(unverified, [403, 'validation_error'], /other\.test is not a verified domain/);
  await resend.fails(['emails', 'get', UNKNOWN_ID], [404, 'not_found'], /There is no email/);
  const subdomain = ['--name', 'sub.test', '--tracking-subdomain', 'links'];
  const create = ['domains', 'create', ...subdomain];
  await resend.fails(create, [422, 'validation_error'], /^tracking_subdomain: /);
});

test('the commands of docs/moving-from-resend.md work as pasted', async () => {
  const { id } = await resend.json('domains', 'create', '--name', 'acme.com');
  await resend.json('domains', 'verify', id);
  const script = /^```sh\n(export RESEND_BASE_URL=.*?)^```$/ms.exec(GUIDE)?.[1] ?? '';
  assert.match(script, /^resend doctor$/m);
  const client = JSON.stringify(fileURLToPath(import.meta.resolve('resend')));
  await resend.file(
    'app.js',
    `import(${client}).then(({ Resend }) => new Resend().domains.list()).then(({ data, error }) =>
       console.log(error ?? data.data[0].name));`,
  );
  const { code, stdout, stderr } = await resend.shell(
    script.replace('https://mail.example.org', service.url),
  );
  assert.equal(code, 0, stderr);
  assert.match(stdout, /"ok": true.*"id": "[\w-]{36}".*^acme\.com$/ms);
});

const NOT_OFFERED: Record<string, string> = {
  'contacts list': 'contacts',
  'contact-properties list': 'contact properties',
  'segments list': 'segments',
  'topics list': 'topics',
  'broadcasts list': 'broadcasts',
  'automations list': 'automations',
  'events list': 'events',
  'oauth-grants list': 'oauth',
  'emails receiving list': 'received mail',
  'domains claim create --name claimed.test': 'claims of domains',
};

for (const [command, what] of Object.entries(NOT_OFFERED)) {
  test(`resend ${command} says that this is not offered`, async () => {
    const message = new RegExp(`does not offer ${what}\\.$`);
    await resend.fails(command.split(' '), [404, 'not_found'], message);
  });
}
