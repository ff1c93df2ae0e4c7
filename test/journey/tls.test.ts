/** TLS with mail servers: STARTTLS offered, absent, broken and enforced. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { MxBehaviour } from '../support/fake-mx.ts';
import { CA_FILE, startJourney } from '../support/journey.ts';

// Each worker remembers only the servers that it has met.
const journey = await startJourney({ NODE_EXTRA_CA_CERTS: CA_FILE }, { args: ['--workers', '1'] });
after(() => journey[Symbol.asyncDispose]());

test('where STARTTLS is offered the email is sent encrypted, and shows the TLS version', async () => {
  const mx = await journey.mailServer('offered.test', { startTls: 'offered' });
  const id = await journey.send({ to: 'kim@offered.test' });
  const { recipients } = await journey.ended(id);
  const { tls } = recipients[0].smtp;
  assert.deepEqual([tls.version, tls.verified], ['TLSv1.3', true]);
  assert.match(tls.cipher, /^TLS_/);
  assert.equal(mx.messages[0]?.tls, 'TLSv1.3');
  const [, { attempt }] = await journey.timeline(id);
  assert.match(attempt.transcript.join('\n'), /C: STARTTLS[^]*certificate verified[^]*C: MAIL/);
  const shown = await journey.service.cli('emails', 'show', id);
  assert.match(shown.stdout, /kim@offered\.test .* TLSv1\.3, verified .* 250 /);
});

for (const certificate of ['self-signed', 'other-name', 'expired'] as const) {
  test(`with a certificate that is ${certificate} the email is sent encrypted and reported as unverified`, async () => {
    const domain = `${certificate}.test`;
    const mx = await journey.mailServer(domain, { startTls: 'offered', certificate });
    const { recipients } = await journey.ended(await journey.send({ to: `kim@${domain}` }));
    assert.equal(recipients[0].smtp.tls.verified, false);
    assert.equal(mx.messages[0]?.tls, 'TLSv1.3');
  });
}

test('where STARTTLS is absent the email is sent in the clear', async () => {
  const mx = await journey.mailServer('absent.test');
  const id = await journey.send({ to: 'kim@absent.test' });
  const { recipients } = await journey.ended(id);
  const shown = await journey.service.cli('emails', 'show', id);
  assert.match(shown.stdout, /unencrypted/);
  assert.deepEqual([recipients[0].status, recipients[0].smtp.tls], ['delivered', null]);
  assert.equal(mx.messages[0]?.tls, null);
});

for (const startTls of ['broken', 'refused', 'outdated'] as const) {
  test(`where STARTTLS is ${startTls} the email is sent in the clear in the same attempt`, async () => {
    const domain = `${startTls}.test`;
    const mx = await journey.mailServer(domain, { startTls });
    const { recipients } = await journey.ended(await journey.send({ to: `kim@${domain}` }));
    const [{ status, attempts, smtp }] = recipients;
    assert.deepEqual([status, attempts, smtp.tls], ['delivered', 1, null]);
    assert.equal(mx.messages[0]?.tls, null);
  });
}

test('a server that fails with a large handshake is tried with a small one, which is then remembered', async () => {
  const mx = await journey.mailServer('narrow.test', { startTls: 'narrow' });
  for (const sessions of [2, 3]) {
    const id = await journey.send({ to: 'kim@narrow.test' });
    const { recipients } = await journey.ended(id);
    const [{ attempts, smtp }] = recipients;
    assert.deepEqual([attempts, smtp.tls.version, smtp.tls.verified], [1, 'TLSv1.3', true]);
    assert.equal(mx.connections, sessions);
    mx.sessions.at(-1)?.socket.destroy(); // so that the next message needs a session of its own
  }
});

for (const startTls of ['broken', 'absent'] as const) {
  test(`where TLS has worked nothing is sent in the clear when STARTTLS is ${startTls}, and all mail is sent encrypted afterwards`, async () => {
    const domain = `worked-${startTls}.test`;
    // So that every message needs a session of its own.
    const phases = { data: { reply: '250 2.0.0 Taken', keep: true, drop: 'fin' } } as const;
    const mx = await journey.mailServer(domain, { startTls: 'offered', phases });
    const send = () => journey.send({ to: `kim@${domain}` });
    assert.equal((await journey.ended(await send())).status, 'delivered');

    mx.set({ startTls, phases });
    const ids = [await send(), await send()];
    for (const id of ids) {
      const { status, recipients } = await journey.attempted(id);
      assert.equal(status, 'deferred');
      assert.match(recipients[0].smtp.message, /TLS worked with it in the last 3 days/);
    }
    assert.ok(
      !mx.sessions.slice(1).some(({ lines }) => lines.some((line) => /C: MAIL/.test(line))),
    );

    mx.set({ startTls: 'offered', phases });
    for (const id of [...ids, await send()]) {
      const { status } = await journey.email(id);
      const email = status === 'deferred' ? await journey.retry(id) : await journey.ended(id);
      assert.equal(email.status, 'delivered');
    }
    assert.deepEqual(new Set(mx.messages.map(({ tls }) => tls)), new Set(['TLSv1.3']));
    assert.equal(mx.messages.length, 4);
  });
}

test('a provider that refuses mail in the clear is sent none, also after a failed handshake', async () => {
  const mx = await journey.mailServer('hosted.test', { startTls: 'broken' });
  journey.dns.set('aspmx.l.google.com', 'A', [mx.address]);
  journey.dns.set('hosted.test', 'MX', ['10 aspmx.l.google.com']);
  const id = await journey.send({ to: 'kim@hosted.test' });
  const { status, recipients } = await journey.attempted(id);
  assert.deepEqual([status, recipients[0].smtp.tls_policy], ['deferred', 'provider']);
  assert.ok(!mx.sessions.some(({ lines }) => lines.some((line) => line.startsWith('C: MAIL'))));
  mx.set({ startTls: 'offered' });
  const retried = await journey.retry(id);
  assert.deepEqual([retried.status, mx.messages[0]?.tls], ['delivered', 'TLSv1.3']);
});

test('replies injected before the handshake are ignored', async () => {
  const first = await journey.mailServer('injected.test', { startTls: 'injected' });
  const second = await journey.mailServer('injected.test', {}, { preference: 20 });
  await journey.ended(await journey.send({ to: 'kim@injected.test' }));
  assert.deepEqual([first.messages.length, second.messages.length], [0, 1]);
});

const enforced = { tls: 'enforced' };

test('with TLS enforced the email is sent to a server with a valid certificate', async () => {
  const mx = await journey.mailServer('proven.test', { startTls: 'offered' });
  const { recipients } = await journey.ended(
    await journey.send({ to: 'kim@proven.test', ...enforced }),
  );
  assert.equal(recipients[0].smtp.tls.verified, true);
  assert.equal(mx.messages[0]?.tls, 'TLSv1.3');
});

const UNPROVEN: Record<string, MxBehaviour> = {
  'offers no STARTTLS': {},
  'refuses STARTTLS': { startTls: 'refused' },
  'breaks STARTTLS': { startTls: 'broken' },
  'has a self-signed certificate': { startTls: 'offered', certificate: 'self-signed' },
  'has the certificate of another': { startTls: 'offered', certificate: 'other-name' },
  'has an expired certificate': { startTls: 'offered', certificate: 'expired' },
};

for (const [index, [what, behaviour]] of Object.entries(UNPROVEN).entries()) {
  test(`with TLS enforced nothing is sent to a server that ${what} until it is corrected`, async () => {
    const domain = `unproven${index}.test`;
    const mx = await journey.mailServer(domain, behaviour);
    const id = await journey.send({ to: `kim@${domain}`, ...enforced });
    const { status, recipients } = await journey.attempted(id);
    assert.deepEqual([status, recipients[0].reason.category], ['deferred', 'tls']);
    assert.ok(!mx.sessions.some(({ lines }) => lines.some((line) => line.startsWith('C: MAIL'))));
    mx.set({ startTls: 'offered' });
    const retried = await journey.retry(id);
    assert.equal(retried.status, 'delivered');
    assert.equal(retried.recipients[0].smtp.tls.verified, true);
    assert.equal(mx.messages.length, 1);
  });
}

test('TLS can be enforced for a domain, and an email can override it', async () => {
  const [{ id: domainId }] = (await journey.request('GET', '/v1/domains')).body.data;
  const setTls = (tls: string) => journey.request('PATCH', `/v1/domains/${domainId}`, { tls });
  const mx = await journey.mailServer('bydomain.test');
  const to = 'kim@bydomain.test';
  assert.equal((await setTls('enforced')).body.tls, 'enforced');
  const deferred = await journey.send({ to });
  const { status, recipients } = await journey.attempted(deferred);
  assert.deepEqual([status, recipients[0].smtp.tls_policy], ['deferred', 'enforced']);
  const open = await journey.ended(await journey.send({ to, tls: 'opportunistic' }));
  assert.deepEqual([open.status, open.recipients[0].smtp.tls], ['delivered', null]);

  await setTls('opportunistic');
  await journey.ended(await journey.send({ to }));
  assert.equal(
    (await journey.email(deferred)).status,
    'deferred',
    'what was accepted stays as it was',
  );
  mx.set({ startTls: 'offered' });
  assert.equal((await journey.retry(deferred)).status, 'delivered');
});

test('with TLS enforced a server with a valid certificate is used after one without', async () => {
  const first = await journey.mailServer('takeover.test');
  const second = await journey.mailServer(
    'takeover.test',
    { startTls: 'offered' },
    { preference: 20 },
  );
  const { recipients } = await journey.ended(
    await journey.send({ to: 'kim@takeover.test', ...enforced }),
  );
  assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, second.name]);
  assert.equal(first.messages.length, 0);
});

test('mail sent in the clear to a server does not allow it for mail that requires TLS', async () => {
  const mx = await journey.mailServer('before.test', { startTls: 'broken' });
  await journey.ended(await journey.send({ to: 'kim@before.test' }));
  const id = await journey.send({ to: 'kim@before.test', expires_in: 60, ...enforced });
  assert.equal((await journey.attempted(id)).status, 'deferred');
  await journey.pass({ seconds: 61 });
  assert.equal((await journey.ended(id)).status, 'failed');
  assert.equal(mx.messages.length, 1);
});
