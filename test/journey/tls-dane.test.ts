/**
 * DANE (RFC 7672): TLSA records authenticated by DNSSEC decide about the certificates of servers. The
 * service here trusts no authority, so that no server is authenticated without DANE.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import type { MxBehaviour } from '../support/fake-mx.ts';
import { type MailServer, startJourney } from '../support/journey.ts';
import { tlsaRecord } from '../support/tlsa.ts';

const journey = await startJourney({ LETTERHAUS_DNS_TRUST_AD: '1' });
after(() => journey[Symbol.asyncDispose]());

const secure = (
  certificate: NonNullable<MxBehaviour['certificate']>,
  sendsChain = false,
): MxBehaviour => ({
  startTls: 'offered',
  certificate,
  sendsChain,
});

function publish(mx: MailServer, records: string[]): void {
  journey.dns.set(`_${journey.port}._tcp.${mx.name}`, 'TLSA', records);
}

/** A mail server with TLSA records; DNSSEC vouches for its name and for the domain's. */
async function signedServer(
  domain: string,
  behaviour: MxBehaviour,
  { records, preference = 10 }: { records: string[]; preference?: number },
): Promise<MailServer> {
  const mx = await journey.mailServer(domain, behaviour, { preference });
  publish(mx, records);
  journey.dns.sign(domain);
  journey.dns.sign(mx.name);
  return mx;
}

const saidMail = (mx: MailServer): boolean =>
  mx.sessions.some(({ lines }) => lines.some((line) => line.startsWith('C: MAIL')));

const MATCHING: Record<string, [MxBehaviour, string[]]> = {
  'the key of the server': [secure('self-signed'), [tlsaRecord('self-signed', '3 1 1')]],
  'the certificate of the server, although it has expired': [
    secure('expired'),
    [tlsaRecord('expired', '3 0 2')],
  ],
  'the authority that the server sends along': [
    secure('trusted', true),
    [tlsaRecord('ca', '2 0 1')],
  ],
  'one of several keys, as when they are being changed': [
    secure('trusted'),
    [tlsaRecord('other-name', '3 1 1'), tlsaRecord('trusted', '3 1 1')],
  ],
};

for (const [index, [what, [behaviour, records]]] of Object.entries(MATCHING).entries()) {
  test(`a server is authenticated by a record that names ${what}`, async () => {
    const domain = `match${index}.test`;
    const mx = await signedServer(domain, behaviour, { records });
    const id = await journey.send({ to: `kim@${domain}`, tls: 'enforced' });
    const { recipients } = await journey.ended(id);
    const { tls, tls_policy } = recipients[0].smtp;
    assert.deepEqual([tls.verified, tls.problem, tls_policy], [true, null, 'dane']);
    assert.equal(mx.messages[0]?.tls, 'TLSv1.3');
    const [, { attempt }] = await journey.timeline(id);
    assert.match(attempt.transcript.join('\n'), /certificate verified by DANE/);
  });
}

/** Faults: the behaviour of the server, its records, and the behaviour that mends it. */
const FAILING: Record<string, [MxBehaviour, string[], MxBehaviour]> = {
  'has another key than the record names': [
    secure('trusted'),
    [tlsaRecord('other-name', '3 1 1')],
    secure('other-name'),
  ],
  'comes from another authority than the record names': [
    secure('self-signed'),
    [tlsaRecord('ca', '2 0 1')],
    secure('trusted', true),
  ],
  'is vouched for by the right authority under another name': [
    secure('other-name', true),
    [tlsaRecord('ca', '2 0 1')],
    secure('trusted', true),
  ],
  'offers no STARTTLS': [{}, [tlsaRecord('trusted', '3 1 1')], secure('trusted')],
  'breaks STARTTLS': [{ startTls: 'broken' }, [tlsaRecord('trusted', '3 1 1')], secure('trusted')],
};

for (const [index, [what, [behaviour, records, mended]]] of Object.entries(FAILING).entries()) {
  test(`nothing is sent to a server that ${what} until it is corrected`, async () => {
    const domain = `fail${index}.test`;
    const mx = await signedServer(domain, behaviour, { records });
    const id = await journey.send({ to: `kim@${domain}` });
    const { status, recipients } = await journey.attempted(id);
    assert.deepEqual([status, recipients[0].reason.category], ['deferred', 'tls']);
    assert.equal(recipients[0].smtp.tls_policy, 'dane');
    assert.ok(!saidMail(mx));
    mx.set(mended);
    const retried = await journey.retry(id);
    assert.equal(retried.status, 'delivered');
    assert.equal(retried.recipients[0].smtp.tls.verified, true);
  });
}

test('an authenticated server is used after one that is not authenticated', async () => {
  const records = [tlsaRecord('trusted', '3 1 1')];
  const first = await signedServer('walk.test', secure('other-name'), { records });
  const second = await signedServer('walk.test', secure('trusted'), { records, preference: 20 });
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@walk.test' }));
  assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, second.name]);
  assert.ok(!saidMail(first));
});

test('TLSA records without DNSSEC do not count', async () => {
  const records = [tlsaRecord('other-name', '3 1 1')];
  const unsigned = await journey.mailServer('unsigned.test', secure('trusted'));
  publish(unsigned, records);
  // The zone of the domain is signed, that of the mail server is not: a forger can name another server.
  const halfSigned = await journey.mailServer('half.test', secure('trusted'));
  publish(halfSigned, records);
  journey.dns.sign('half.test');
  for (const domain of ['unsigned.test', 'half.test']) {
    const { recipients } = await journey.ended(await journey.send({ to: `kim@${domain}` }));
    const { tls, tls_policy } = recipients[0].smtp;
    assert.deepEqual([tls.verified, tls_policy], [false, 'none'], domain);
  }
  const asked = journey.dns.queries.filter(({ type }) => type === 'TLSA').map(({ name }) => name);
  assert.ok(![unsigned, halfSigned].some((mx) => asked.some((name) => name.endsWith(mx.name))));
});

test('a lost or forged answer about TLSA records defers the email', async () => {
  const records = [tlsaRecord('trusted', '3 1 1')];
  const mx = await signedServer('bogus.test', secure('trusted'), { records });
  const name = `_${journey.port}._tcp.${mx.name}`;
  journey.dns.setFailure(name, 'servfail');
  const id = await journey.send({ to: 'kim@bogus.test' });
  const { status, recipients } = await journey.attempted(id);
  assert.deepEqual([status, recipients[0].reason.category], ['deferred', 'tls']);
  assert.equal(mx.connections, 0);
  journey.dns.setFailure(name, null);
  assert.equal((await journey.retry(id)).status, 'delivered');
});

test('unusable TLSA records require TLS but authenticate no server', async () => {
  const records = ['1 1 1 00', '3 1 1 abcd', '9 9 9 ff', '3 0 0 ffff'];
  const mx = await signedServer('odd.test', secure('self-signed'), { records });
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@odd.test' }));
  const { tls, tls_policy } = recipients[0].smtp;
  assert.deepEqual([tls.verified, tls_policy], [false, 'dane']);
  assert.match(tls.problem, /authority/);
  assert.equal(mx.messages.length, 1);

  const plain = await signedServer('oddplain.test', {}, { records });
  const id = await journey.send({ to: 'kim@oddplain.test' });
  assert.equal((await journey.attempted(id)).status, 'deferred');
  assert.ok(!saidMail(plain));
  plain.set(secure('self-signed'));
  assert.equal((await journey.retry(id)).status, 'delivered');
});

test('mail to a domain without TLSA records is sent as usual', async () => {
  const mx = await journey.mailServer('norecords.test', {});
  journey.dns.sign('norecords.test');
  journey.dns.sign(mx.name);
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@norecords.test' }));
  const { tls, tls_policy } = recipients[0].smtp;
  assert.deepEqual([tls, tls_policy], [null, 'none']);
});

test('an unauthenticated session is not used for mail that requires authentication', async () => {
  const mx = await signedServer('later.test', secure('self-signed'), { records: [] });
  await journey.ended(await journey.send({ to: 'kim@later.test' }));
  const id = await journey.send({ to: 'kim@later.test', tls: 'enforced', expires_in: 60 });
  assert.equal((await journey.attempted(id)).status, 'deferred');
  await journey.pass({ seconds: 61 });
  assert.equal((await journey.ended(id)).status, 'failed');
  assert.equal(mx.messages.length, 1);
});
