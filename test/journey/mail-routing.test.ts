/** Mail routing: the mail servers of a recipient's domain, and which of them is used. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startFakeDns } from '../support/fake-dns.ts';
import { type FakeReply, startFakeMx } from '../support/fake-mx.ts';
import { OWN_NAME, startJourney } from '../support/journey.ts';
import { startService } from '../support/service.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());

test('only the server with the best preference is contacted', async () => {
  const spare = await journey.mailServer('ordered.test', {}, { preference: 30 });
  const best = await journey.mailServer('ordered.test', {}, { preference: 5 });
  const middle = await journey.mailServer('ordered.test', {}, { preference: 10 });
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@ordered.test' }));
  assert.equal(recipients[0].smtp.mx, best.name);
  assert.deepEqual([spare.connections, middle.connections], [0, 0]);
});

/** Faults of the first server after which the second one takes over within the same attempt. */
const TAKEN_OVER: Record<string, FakeReply> = {
  'greets with 554': '554 5.7.1 No service here',
  'greets with 421': '421 4.3.2 Too busy',
  'hangs up': { drop: 'fin' },
  'resets the connection': { drop: 'rst' },
  'speaks another protocol': 'HTTP/1.1 400 Bad Request',
  'sends nonsense without end': { raw: 'x'.repeat(10_000), times: 1_000 },
};

test('the second server is used when the first refuses connections', async () => {
  const first = await journey.mailServer('refusing.test');
  const second = await journey.mailServer('refusing.test', {}, { preference: 20 });
  await first.stop();
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@refusing.test' }));
  assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, second.name]);
});

test('the second server is used when the first has five addresses, and none answers', async () => {
  const second = await journey.mailServer('five-dead.test', {}, { preference: 20 });
  const dead = [1, 2, 3].map((number) => `127.0.9.${number}`);
  journey.dns.set('first.five-dead.test', 'A', dead);
  journey.dns.set('first.five-dead.test', 'AAAA', ['::1', '::ffff:127.0.9.9']);
  const records = ['10 first.five-dead.test', `20 ${second.name}`];
  journey.dns.set('five-dead.test', 'MX', records);
  for (const to of ['kim@five-dead.test', 'lee@five-dead.test']) {
    const { recipients } = await journey.ended(await journey.send({ to }));
    assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, second.name]);
  }
});

for (const [index, [what, greeting]] of Object.entries(TAKEN_OVER).entries()) {
  test(`the second server is used when the first ${what}`, async () => {
    const domain = `second${index}.test`;
    const first = await journey.mailServer(domain, { phases: { greeting } });
    const second = await journey.mailServer(domain, {}, { preference: 20 });
    const { recipients } = await journey.ended(await journey.send({ to: `kim@${domain}` }));
    assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, second.name]);
    assert.equal(first.connections, 1);
  });
}

test('the second server is used when the connection to the first is lost before the final dot', async () => {
  const first = await journey.mailServer('before.test', {
    phases: { data_command: { drop: 'rst' } },
  });
  const second = await journey.mailServer('before.test', {}, { preference: 20 });
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@before.test' }));
  assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, second.name]);
  assert.deepEqual([first.messages.length, second.messages.length], [0, 1]);
});

test('when the first server refuses the recipient, the second is not tried', async () => {
  await journey.mailServer('final.test', { recipients: { kim: '550 5.1.1 Unknown' } });
  const second = await journey.mailServer('final.test', {}, { preference: 20 });
  const { status } = await journey.ended(await journey.send({ to: 'kim@final.test' }));
  assert.deepEqual([status, second.connections], ['bounced', 0]);
});

test('mail to a domain without MX goes to the address of the domain', async () => {
  const mx = await journey.mailServer('other.test');
  journey.dns.set('implicit.test', 'A', [mx.address]);
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@implicit.test' }));
  const [{ status, smtp }] = recipients;
  assert.deepEqual([status, smtp.mx, smtp.ip], ['delivered', 'implicit.test', mx.address]);
});

test('mail to a domain with a CNAME goes to the servers of its target, with the recipient unchanged', async () => {
  const mx = await journey.mailServer('real.test');
  journey.dns.set('alias.test', 'CNAME', ['real.test']);
  await journey.ended(await journey.send({ to: 'kim@alias.test' }));
  assert.deepEqual(mx.messages[0]?.recipients, ['kim@alias.test']);
});

test('an MX host with a CNAME is found', async () => {
  const mx = await journey.mailServer('unused.test');
  journey.dns.set('aliased.test', 'MX', ['10 mail.aliased.test']);
  journey.dns.set('mail.aliased.test', 'CNAME', [mx.name]);
  await journey.ended(await journey.send({ to: 'kim@aliased.test' }));
  assert.equal(mx.messages.length, 1);
});

test('mail to a domain with a null MX bounces', async () => {
  journey.dns.set('null.test', 'MX', ['0 .']);
  journey.dns.set('null.test', 'A', ['127.0.1.1']);
  const id = await journey.send({ to: 'kim@null.test' });
  const { status, recipients } = await journey.ended(id);
  const [{ smtp, reason, attempts }] = recipients;
  assert.deepEqual([status, attempts, smtp.enhanced_code], ['bounced', 1, '5.1.10']);
  assert.match(reason.advice, /accepts no mail/);
  assert.deepEqual(await journey.story(id), ['queued', 'bounced']);
});

test('mail to a domain that does not exist bounces, and the address is suppressed for a week', async () => {
  const draft = { from: 'hello@acme.example', to: 'kim@misspelt.test', subject: 'Hi', text: 'Hi' };
  const again = async () => (await journey.request('POST', '/v1/emails', draft)).status;
  const { status, recipients } = await journey.ended(await journey.send(draft));
  assert.deepEqual([status, recipients[0].smtp.enhanced_code], ['bounced', '5.1.2']);
  assert.equal(await again(), 422);
  await journey.pass({ hours: 6 * 24 + 23 });
  assert.equal(await again(), 422);
  await journey.pass({ hours: 2 });
  assert.equal(await again(), 202);
});

test('mail to a domain whose mail servers have no address bounces', async () => {
  journey.dns.set('empty.test', 'MX', ['10 nowhere.test']);
  const { status, recipients } = await journey.ended(await journey.send({ to: 'kim@empty.test' }));
  assert.deepEqual([status, recipients[0].smtp.enhanced_code], ['bounced', '5.4.4']);
});

test('mail to a domain whose best mail server is this service does not loop', async () => {
  const spare = await journey.mailServer('loop.test', {}, { preference: 20 });
  journey.dns.set('loop.test', 'MX', [`10 ${OWN_NAME}`, `20 ${spare.name}`]);
  const { status } = await journey.ended(await journey.send({ to: 'kim@loop.test' }));
  assert.equal(status, 'failed');
  assert.equal(spare.connections, 0);
});

test('a mail server at a private address is not connected to unless that is allowed', async () => {
  await using dns = await startFakeDns({
    'public.net': { MX: ['10 private.public.net', '20 metadata.public.net'] },
    'private.public.net': { A: ['127.0.0.1'] },
    'metadata.public.net': { A: ['169.254.169.254'] },
    'implicit.public.net': { A: ['127.0.0.1'] },
  });
  await using mx = await startFakeMx();
  await using service = await startService({
    dns,
    env: { LETTERHAUS_MX_PORT: String(mx.port), LETTERHAUS_HOSTNAME: 'out.letterhaus.net' },
  });
  await service.addLiveDomain('acme.net');
  const key = await service.liveKey();
  const to = ['kim@public.net', 'lee@implicit.public.net'];
  const id = await service.send({ from: 'us@acme.net', to }, { key });
  const { recipients } = await service.waitForStatus(id, 'failed', { key });
  for (const { status, attempts, reason } of recipients) {
    assert.deepEqual([status, attempts], ['failed', 1]);
    assert.match(reason.advice, /No mail server of the domain has a public address/);
  }
  assert.equal(mx.connections, 0);
});
