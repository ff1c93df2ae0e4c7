/** The age of domains, from a registry on loopback. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { startDoctorLab } from '../../../test/support/doctor-lab.ts';
import { startPolicyServer } from '../../../test/support/policy-server.ts';
import { TEST_CA } from '../../../test/support/smtp.ts';
import { DAY_MS } from '../../lib/units.ts';
import { DOMAIN_AGE } from './age.ts';

setDefaultCACertificates([...getCACertificates(), TEST_CA]);
const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());
const server = await startPolicyServer();
after(() => server[Symbol.asyncDispose]());

const LIST = 'mta-sts.sts1.test';
const REGISTRY = 'mta-sts.sts2.test';
for (const host of [LIST, REGISTRY]) lab.dns.set(host, 'A', ['127.0.0.1']);
const services = [
  [['net'], ['https://elsewhere.test/']],
  [['com'], ['http://plain.test/', `https://${REGISTRY}:${server.port}/rdap`]],
];
server.set('sts1.test', { body: JSON.stringify({ version: '1.0', services }) });

/** Checks mail.acme.com while the registry responds with this text. */
async function checkWith(body: string, domain = 'mail.acme.com') {
  server.set('sts2.test', { body });
  const machine = { rdapServers: `https://${LIST}:${server.port}/dns.json` };
  const [finding, ...others] = await lab.run(DOMAIN_AGE, { domain, machine });
  assert.deepEqual(others, []);
  return finding!;
}

const registered = (daysAgo: number) => {
  const eventDate = new Date(Date.now() - daysAgo * DAY_MS).toISOString();
  const expiry = { eventAction: 'expiration', eventDate: '2030-01-01T00:00:00Z' };
  return JSON.stringify({ events: [expiry, { eventAction: 'registration', eventDate }] });
};

test('a domain that was registered some weeks ago is yellow, and an older one is green', async () => {
  const young = await checkWith(registered(9.5));
  assert.equal(young.level, 'yellow');
  assert.match(young.found, /^acme\.com was registered 9 days ago, on 20/);
  assert.equal((await checkWith(registered(400))).level, 'green');
  assert.ok(server.requests.includes('sts2.test/rdap/domain/acme.com'), 'not a name below it');
});

test('the age is unknown when the registry says nothing usable, or is not listed', async () => {
  const hostile = ['', '<html>', 'null', '{"events": 7}', '{"events": [null, {}]}', registered(-3)];
  for (const body of hostile) assert.equal((await checkWith(body)).level, 'unknown', body);
  assert.equal((await checkWith(registered(400), 'acme.example')).level, 'unknown');
  const offline = await lab.run(DOMAIN_AGE, { domain: 'acme.com' });
  assert.equal(offline[0]?.level, 'unknown');
  assert.match(offline[0]?.found ?? '', /^The registry of acme\.com did not say/);
});
