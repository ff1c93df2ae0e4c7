/** `letterhaus doctor` as operators run it: on a healthy installation, with faults, and without the service. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { LAB_HOST, startLabDns, startReceivers } from '../support/doctor-lab.ts';
import { temporaryFolder } from '../support/embedded.ts';
import { CA_FILE } from '../support/journey.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { startService } from '../support/service.ts';

type Finding = { check: string; level: string; found: string; remedy: string | null };

const CERTIFICATE = fileURLToPath(new URL('../support/certs/trusted.pem', import.meta.url));
/** Checks that depend on the machine of the test. */
const OF_THE_MACHINE = new Set([
  'disk_space',
  'durable_writes',
  'memory',
  'open_files',
  'local_ports',
  'clock',
  'database_speed',
  'database_connections',
]);

const dns = await startLabDns();
after(() => dns[Symbol.asyncDispose]());
const { gmail, yahoo, port: mxPort } = await startReceivers();
after(() => Promise.all([gmail[Symbol.asyncDispose](), yahoo[Symbol.asyncDispose]()]));
const service = await startService({
  dns,
  database: 'own',
  env: {
    NODE_EXTRA_CA_CERTS: CA_FILE,
    LETTERHAUS_HOSTNAME: LAB_HOST,
    LETTERHAUS_SOURCE_IPS: '127.0.0.1',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_DNS_TRUST_AD: '1',
    LETTERHAUS_MX_PORT: String(mxPort),
    LETTERHAUS_INBOUND_PORT: '0',
    LETTERHAUS_TLS_CERT: CERTIFICATE,
    LETTERHAUS_TLS_KEY: CERTIFICATE,
    LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1',
  },
});
after(() => service[Symbol.asyncDispose]());

/** The TLS proxy of the operator. */
const pem = readFileSync(CERTIFICATE);
const proxy = createServer({ key: pem, cert: pem }, (request, response) => {
  fetch(service.url + request.url).then(
    async (inner) => response.writeHead(inner.status).end(await inner.text()),
    () => response.writeHead(502).end(),
  );
});
await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
after(() => {
  proxy.closeAllConnections();
  proxy.close();
});

const env = {
  ...service.env,
  LETTERHAUS_INBOUND_PORT: String(service.readyLine.inbound_port),
  LETTERHAUS_PUBLIC_URL: `https://localhost:${(proxy.address() as AddressInfo).port}`,
};
const doctor = (...args: string[]) => letterhaus(['doctor', ...args], env);

async function findingsOf(...args: string[]): Promise<Finding[]> {
  const { stdout, stderr } = await doctor('--json', ...args);
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout).findings;
}

test('a healthy installation has nothing red or yellow', async () => {
  await service.addLiveDomain('acme.example');
  dns.set('_dmarc.acme.example', 'TXT', ['v=DMARC1; p=reject; rua=mailto:dmarc@acme.example']);
  dns.set('acme.example', 'MX', ['10 mx.acme.example']);
  const backup = await service.cli('backup', '--without-secret-key', temporaryFolder());
  assert.equal(backup.code, 0, backup.stderr);
  const findings = await findingsOf();
  const problems = findings
    .filter(({ level, check }) => /red|yellow/.test(level) && !OF_THE_MACHINE.has(check))
    .map(({ level, check, found }) => `${level} ${check}: ${found}`);
  assert.deepEqual(problems, []);
  const green = new Set(findings.filter(({ level }) => level === 'green').map((one) => one.check));
  for (const check of [
    'outgoing_port_25',
    'reverse_dns',
    'block_lists',
    'dnssec',
    'database_durability',
    'inbound_port',
    'open_relay',
    'public_url',
    'backup',
    'queue',
    'domain_records',
    'bulk_gmail',
    'bulk_yahoo',
    'bulk_microsoft',
    'secret_key',
    'certificates',
  ]) {
    assert.ok(green.has(check), `${check} is green`);
  }
});

test('faults are listed with the worst first, what they mean and what to do; the exit code is 1', async () => {
  await Promise.all([gmail.stop(), yahoo.stop()]);
  dns.set('1.0.0.127.in-addr.arpa', 'PTR', ['other.receivers.test']);
  dns.set('other.receivers.test', 'A', ['127.0.0.1']);
  await service.sql(`insert into operator_conditions (type, subject, since, last_seen, message, remedy, details)
    values ('reconciliation.difference', 'Acme', now(), now(), 'An email is missing.', 'Look for it.', '{}')`);
  const checks = ['--fresh', '--only', 'helo_name,outgoing_port_25,conditions,queue'];
  const { code, stdout } = await doctor(...checks, 'acme.example');
  assert.equal(code, 1);
  const levels = [...stdout.matchAll(/^(red|yellow|unknown|green) +(\w+)/gm)].map(
    ([, level, check]) => `${level} ${check}`,
  );
  assert.deepEqual(levels, ['red outgoing_port_25', 'red conditions', 'yellow helo_name']);
  assert.match(stdout, /^ +Ask the hosting company to open outgoing port 25, or send through/m);
  assert.match(stdout, /^ +\$ letterhaus attention$/m);
  assert.match(stdout, /^2 red, 1 yellow, 0 unknown; 1 of 4 checks are green\.$/m);
});

test('while the service is down, the doctor opens the database itself', async () => {
  await service.stop();
  const findings = await findingsOf(
    '--only',
    'database,queue,domain_records,inbound_port,public_url',
  );
  const levels = Object.fromEntries(findings.map(({ check, level }) => [check, level]));
  assert.deepEqual(levels, {
    database: 'green',
    queue: 'green',
    domain_records: 'green',
    inbound_port: 'unknown',
    public_url: 'unknown',
  });
});
