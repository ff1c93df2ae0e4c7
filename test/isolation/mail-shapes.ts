/** Attacks by mail to domains of the attacker. Each shape gets its own service. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBlackHole } from '../support/black-hole.ts';
import { startFakeMx } from '../support/fake-mx.ts';
import { COMPLAINT } from '../support/hostile-shapes.ts';
import { startSilentHosts } from '../support/silent-hosts.ts';
import type { Tenant } from '../support/tenants.ts';
import { waitFor } from '../support/wait.ts';
import { startTenants, type Tenants } from './tenants.ts';

const SILENT_DOMAINS = 2_000;
const TENANTS_AT_ONCE = 10;
const BATCH = 100;
/** While thousands of messages are signed, which takes the threads that sign-ins need, too. */
const SIGNING_MS = 500;
const LARGE_BYTES = 10_000_000;

export function testMailShapes(workers: number): void {
  test(`${workers}: a password reset leaves its own project, too, past 2,000 silent domains`, async () => {
    await using tenants = await startTenants(workers);
    await using silent = await startSilentHosts(SILENT_DOMAINS, tenants.port);
    publishHosts(tenants, silent.addresses);
    await sendTo(tenants, tenants.victim.tenant, domainsOf(silent.addresses));
    await waitFor(() => silent.open > 200, { what: 'connections that wait for a greeting' });
    await tenants.victim.isServed({ everyMs: SIGNING_MS });
  });

  test(`${workers}: ten projects with mail to silent domains do not stop mail of another`, async () => {
    await using tenants = await startTenants(workers);
    await using silent = await startSilentHosts(1_300, tenants.port);
    publishHosts(tenants, silent.addresses);
    const domains = domainsOf(silent.addresses);
    const projects = [];
    for (let n = 0; n < TENANTS_AT_ONCE; n += 1) projects.push(await tenants.another(`other${n}`));
    await Promise.all(
      projects.map((project, n) => sendTo(tenants, project, domains.slice(n * 130, (n + 1) * 130))),
    );
    await waitFor(() => silent.open > 200, { what: 'connections that wait for a greeting' });
    await tenants.victim.isServed({ everyMs: SIGNING_MS });
  });

  test(`${workers}: mail to hosts that drop SYNs delays no other mail, not even of its own project`, async () => {
    await using tenants = await startTenants(workers);
    const addresses = ['127.78.0.1', '127.78.0.2', '127.78.0.3', '127.78.0.4'];
    const holes = await Promise.all(addresses.map((one) => startBlackHole(one, tenants.port)));
    try {
      const domains = Array.from({ length: 150 }, (_, n) => `dropped${n}.test`);
      for (const domain of domains) {
        tenants.dns.set(domain, 'MX', [`10 mx.${domain}`]);
        tenants.dns.set(`mx.${domain}`, 'A', addresses);
      }
      await sendTo(tenants, tenants.victim.tenant, [...domains, ...domains]);
      await tenants.victim.isServed();
    } finally {
      for (const hole of holes) await hole[Symbol.asyncDispose]();
    }
  });

  test(`${workers}: scheduled mail leaves while large messages wait for silent receivers`, async () => {
    await using tenants = await startTenants(workers);
    await using silent = await startSilentHosts(6, tenants.port);
    publishHosts(tenants, silent.addresses);
    const content = Buffer.alloc(LARGE_BYTES, 'x').toString('base64');
    for (const domain of domainsOf(silent.addresses)) {
      const draft = {
        from: tenants.attacker.from,
        to: `jo@${domain}`,
        subject: 'Large',
        text: 'Large',
        attachments: [{ filename: 'large.bin', content }],
      };
      await tenants.service.send(draft, { key: tenants.attacker.live });
    }
    await waitFor(() => silent.open >= 2, { what: 'large messages that wait for a greeting' });
    await tenants.victim.isServed({ isScheduled: true });
  });

  test(`${workers}: dead and complaining hosts below a shared name stop no mail to its living ones`, async () => {
    await using tenants = await startTenants(workers);
    const { dns, attacker, port } = tenants;
    await using live = await startFakeMx({}, { address: '127.0.1.20', port });
    await using complaining = await startFakeMx(
      { phases: { mail: COMPLAINT } },
      { address: '127.0.1.21', port },
    );
    const hosts = { live: live.address, complaining: complaining.address, dead: '127.0.1.99' };
    for (const [name, address] of Object.entries(hosts)) {
      dns.set(`${name}.bighost.dev`, 'A', [address]);
      dns.set(`${name}-customers.test`, 'MX', [`10 ${name}.bighost.dev`]);
    }
    const shapes = ['dead-customers.test', 'complaining-customers.test'];
    await sendTo(tenants, attacker, [...shapes, ...shapes, ...shapes, ...shapes]);
    await waitFor(() => complaining.connections > 0, { what: 'a complaint' });
    await tenants.victim.isServed({ domain: 'live-customers.test', at: live });
  });
}

/** Publishes a domain for each address, which is its only MX host. */
function publishHosts({ dns }: Tenants, addresses: readonly string[]): void {
  for (const [index, domain] of domainsOf(addresses).entries()) {
    dns.set(domain, 'MX', [`10 mx.${domain}`]);
    dns.set(`mx.${domain}`, 'A', [addresses[index] ?? '']);
  }
}

function domainsOf(addresses: readonly string[]): string[] {
  return addresses.map((_, index) => `silent${index}.test`);
}

/** Sends one email to each of the domains, in batches. */
async function sendTo(
  { service }: Tenants,
  tenant: Tenant,
  domains: readonly string[],
): Promise<void> {
  for (let first = 0; first < domains.length; first += BATCH) {
    const body = domains.slice(first, first + BATCH).map((domain, index) => ({
      from: tenant.from,
      to: `jo${first + index}@${domain}`,
      subject: 'News',
      text: 'News',
    }));
    const response = await service.request('POST', '/v1/emails/batch', { key: tenant.live, body });
    assert.equal(response.status, 202, response.text);
  }
}
