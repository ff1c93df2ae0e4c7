/** Where TLS policies are looked up, and in which order (RFC 8461 §3, RFC 7672 §2.2). */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { CA_FILE, startJourney } from '../support/journey.ts';
import { policyText, startPolicyServer } from '../support/policy-server.ts';
import { tlsaRecord } from '../support/tlsa.ts';

const policies = await startPolicyServer();
const journey = await startJourney({
  NODE_EXTRA_CA_CERTS: CA_FILE,
  LETTERHAUS_MTA_STS_PORT: String(policies.port),
  LETTERHAUS_DNS_TRUST_AD: '1',
});
after(async () => {
  await journey[Symbol.asyncDispose]();
  await policies[Symbol.asyncDispose]();
});

const { dns } = journey;

test('an MTA-STS policy that is announced through a CNAME counts', async () => {
  dns.set('_mta-sts.sts1.test', 'CNAME', ['_sts.hoster.test']);
  dns.set('_sts.hoster.test', 'TXT', [['v=STSv1; ', 'id=1;']]);
  dns.set('mta-sts.sts1.test', 'A', ['127.0.0.1']);
  policies.set('sts1.test', { body: policyText('enforce', ['*.mx.test']) });
  await journey.mailServer('sts1.test', { startTls: 'offered' });
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@sts1.test' }));
  assert.equal(recipients[0].smtp.tls_policy, 'mta-sts');
});

test('an MTA-STS policy does not hold for subdomains', async () => {
  dns.set('_mta-sts.sts2.test', 'TXT', ['v=STSv1; id=1;']);
  dns.set('mta-sts.sts2.test', 'A', ['127.0.0.1']);
  policies.set('sts2.test', { body: policyText('enforce', ['elsewhere.test']) });
  await journey.mailServer('child.sts2.test', {});
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@child.sts2.test' }));
  assert.deepEqual([recipients[0].status, recipients[0].smtp.tls_policy], ['delivered', 'none']);
  assert.ok(!dns.queries.some(({ name }) => name === '_mta-sts.sts2.test'));
  assert.ok(!policies.requests.some((request) => request.startsWith('sts2.test/')));
});

test('MX preference comes before TLSA records, and addresses are looked up first', async () => {
  const proven = await journey.mailServer(
    'order.test',
    { startTls: 'offered', certificate: 'self-signed' },
    { preference: 20 },
  );
  const best = await journey.mailServer('order.test', { startTls: 'offered' }, { preference: 10 });
  const records = `_${journey.port}._tcp.${proven.name}`;
  dns.set(records, 'TLSA', [tlsaRecord('self-signed', '3 1 1')]);
  for (const name of ['order.test', best.name, proven.name]) dns.sign(name);
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@order.test' }));
  assert.equal(recipients[0].smtp.mx, best.name);
  assert.equal(proven.connections, 0);

  const asked = dns.queries.map(({ type, name }) => `${type} ${name}`);
  const address = asked.indexOf(`A ${proven.name}`);
  assert.ok(address >= 0 && address < asked.indexOf(`TLSA ${records}`));
});

test('a server whose TLSA look-up fails is skipped for the next one', async () => {
  const unsure = await journey.mailServer('pass.test', { startTls: 'offered' }, { preference: 10 });
  const next = await journey.mailServer('pass.test', { startTls: 'offered' }, { preference: 20 });
  for (const name of ['pass.test', unsure.name, next.name]) dns.sign(name);
  dns.setFailure(`_${journey.port}._tcp.${unsure.name}`, 'servfail');
  const { recipients } = await journey.ended(await journey.send({ to: 'kim@pass.test' }));
  assert.deepEqual([recipients[0].attempts, recipients[0].smtp.mx], [1, next.name]);
  assert.equal(unsure.connections, 0);
});
