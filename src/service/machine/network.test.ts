/** Shows with which resolver and which check of addresses each process connects to others. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { startFakeDns } from '../../../test/support/fake-dns.ts';
import { createNetwork } from './network.ts';
import { systemWorld } from './system-world.ts';

test('the AD flag is trusted only with LETTERHAUS_DNS_TRUST_AD', async () => {
  await using dns = await startFakeDns({ 'a.test': { A: ['192.0.2.1'] } }, { authenticated: true });
  for (const dnsTrustAd of [true, false]) {
    const config = { allowPrivateNetworks: false, dnsServers: [dns.server], dnsTrustAd };
    const { resolver } = createNetwork(config, systemWorld);
    const answer = await resolver.a('a.test');
    resolver.close();
    assert.equal(answer.kind === 'records' && answer.authenticated, dnsTrustAd);
  }
});

test('addresses of this machine and of private networks are refused unless they are allowed', () => {
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const config = { dnsServers: [], dnsTrustAd: false };
  const strict = createNetwork({ ...config, allowPrivateNetworks: false }, systemWorld);
  const lenient = createNetwork({ ...config, allowPrivateNetworks: true }, systemWorld);
  for (const ip of ['10.0.0.1', ...own.map(({ address }) => address)]) {
    assert.notEqual(strict.guard.refusalReason(ip), null);
  }
  assert.equal(lenient.guard.refusalReason('10.0.0.1'), null);
});

test('workers, maintenance and commands except doctor and go-live use one resolver and address check', () => {
  const src = new URL('../../', import.meta.url);
  const callers = globSync('**/*.ts', { cwd: src })
    .filter((path) => !path.endsWith('.test.ts'))
    .filter((path) =>
      /create(Resolver|AddressGuard)\(\{/.test(readFileSync(new URL(path, src), 'utf8')),
    );
  assert.deepEqual(callers.toSorted(), [
    // The doctor follows the same settings with a shorter limit on time. It also tries what the service must not do:
    // ask whether the resolver validates DNSSEC, and connect to this machine's own public address.
    'doctor/domains/policies.ts',
    'doctor/mail/public-url.ts',
    'doctor/network/resolver.ts',
    // It asks DNS as receivers see it, and connects to nobody.
    'go-live/command-records.ts',
    // The first start verifies a domain of the test environment, which needs no look-up.
    'service/first-start.ts',
    'service/machine/doctor-context.ts',
    'service/machine/network.ts',
  ]);
});
