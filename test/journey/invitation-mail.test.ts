/** Invitations that the service mails itself. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure } from '../support/api.ts';
import { Browser, OWNER, ownerOf, tokenOf } from '../support/browser.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { startFakeMx } from '../support/fake-mx.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const dns = await startFakeDns({
  'out.letterhaus.example': { A: ['127.0.0.1'] },
  'people.example': { MX: ['10 mx.people.example'] },
  'mx.people.example': { A: ['127.0.1.1'] },
});
const mx = await startFakeMx({}, { address: '127.0.1.1' });
const service = await startService({
  dns,
  env: {
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_HOSTNAME: 'out.letterhaus.example',
    LETTERHAUS_MX_PORT: String(mx.port),
    LETTERHAUS_PUBLIC_URL: 'https://mail.acme.example',
    LETTERHAUS_LIMIT_AUTH: '1000/60',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await mx[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const invite = (email: string, role = 'developer') =>
  owner.post('/v1/invitations', { email, role });

test('without a live domain the inviter passes the link on', async () => {
  const { status, body } = await invite('ann@people.example');
  assert.equal(status, 201);
  assert.equal(body.mailed, false);
  assert.match(body.url, /^https:\/\/mail\.acme\.example\/sign-in#invitation=/);
});

test('with a live domain the service mails the link, and only the invited person can read it', async () => {
  await service.addLiveDomain('acme.example');
  const { body } = await invite('jo@people.example');
  assert.equal(body.mailed, true);
  await waitFor(() => mx.messages.length > 0, { what: 'the mail', timeoutMs: 60_000 });
  const mail = mx.messages[0]!.raw.toString().replaceAll('=\r\n', '').replaceAll('=3D', '=');
  assert.match(mail, /^From: Letterhaus <postmaster@acme\.example>\r$/m);
  assert.match(mail, /^To: jo@people\.example\r$/m);
  assert.match(mail, /^Subject: Olga Owner invites you to Letterhaus\r$/m);
  assert.match(mail, /^Auto-Submitted: auto-generated\r$/m);
  assert.ok(mail.includes('Olga Owner (owner@acme.test) invites you'), mail);
  assert.ok(mail.includes(body.url), mail);
  assert.doesNotMatch(mail, /text\/html/);

  const token = tokenOf(body.url);
  const live = { 'letterhaus-environment': 'live' };
  const { data } = (await owner.get('/v1/emails?to=jo@people.example', live)).body;
  assert.equal(data.length, 1);
  const { id } = data[0];
  for (const path of ['', '/content', '/preview', '/inspection', '/events', '/diagnosis']) {
    const { text } = await owner.get(`/v1/emails/${id}${path}`, live);
    assert.ok(!text.includes(token), path);
  }
  assertFailure(await owner.get(`/v1/emails/${id}/content`, live), 404, 'not_found');
  const [key] = (await owner.get('/v1/api-keys', live)).body.data;
  assert.equal(key.name, 'Letterhaus, invitations');
  assert.ok(!service.logs.includes(token));

  const joining = { token, name: 'Jo', password: OWNER.password };
  const joined = await new Browser(service).post('/v1/invitations/accept', joining);
  assert.equal(joined.status, 200, joined.text);
  assert.equal(joined.body.member.role, 'developer');
});

test('an address on the suppression list gets no mail, and the response says so', async () => {
  const live = { 'letterhaus-environment': 'live' };
  await owner.post('/v1/suppressions', { address: 'no@people.example' }, live);
  const { body } = await invite('no@people.example');
  assert.equal(body.mailed, false);
  const printed = await service.cliJson(
    'members',
    'invite',
    'kim@people.example',
    '--role',
    'viewer',
  );
  assert.equal(printed.mailed, true);
  await waitFor(() => mx.messages.length > 1, { what: 'the second mail', timeoutMs: 60_000 });
  const mail = mx.messages[1]!.raw.toString();
  assert.match(mail, /^Subject: The operator invites you to Letterhaus\r$/m);
});

test('the mail to a member of some projects names these with their roles', async () => {
  const before = mx.messages.length;
  const { body: shop } = await owner.post('/v1/projects', { name: 'Shop' });
  const { body: blog } = await owner.post('/v1/projects', { name: 'Blog' });
  const projects = [
    { id: shop.id, role: 'admin' },
    { id: blog.id, role: 'viewer' },
  ];
  await owner.post('/v1/invitations', { email: 'kim@people.example', projects });
  await waitFor(() => mx.messages.length > before, { what: 'the mail', timeoutMs: 60_000 });
  const mail = mx.messages[before]!.raw.toString().replaceAll('=\r\n', '');
  assert.match(mail, /with the role viewer in Blog, admin in Shop\./);
});
