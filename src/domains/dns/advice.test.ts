/** Advice beyond the required records, one case for each finding, with real DNS packets. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeDns, type FakeFailure, type FakeZone } from '../../../test/support/fake-dns.ts';
import { createResolver } from '../../net/dns/resolver.ts';
import { adviseInbound, adviseOn, type Advice, toAdvice } from './advice.ts';

const HOST = 'mail.letterhaus.example';

const GOOD: FakeZone = {
  'acme.com': { MX: ['10 mx.acme.com'] },
  '_dmarc.acme.com': { TXT: ['v=DMARC1; p=reject'] },
  '_mta-sts.acme.com': { TXT: ['v=STSv1; id=20261121'] },
  [HOST]: { A: ['8.8.8.8'] },
  '8.8.8.8.in-addr.arpa': { PTR: [HOST] },
};

/** A name set to null does not exist. */
async function advice(
  changes: Record<string, FakeZone[string] | null> = {},
  options: { name?: string; sourceIps?: string[]; failures?: Record<string, FakeFailure> } = {},
): Promise<Advice[]> {
  const { name = 'acme.com', sourceIps = ['8.8.8.8'], failures = {} } = options;
  const zone: FakeZone = { ...GOOD };
  for (const [at, records] of Object.entries(changes)) {
    if (records === null) delete zone[at];
    else zone[at] = records;
  }
  await using dns = await startFakeDns(zone);
  for (const [at, failure] of Object.entries(failures)) dns.setFailure(at, failure);
  const world = { monotonicMs: () => performance.now() };
  const lookups = createResolver({ servers: [dns.server], world });
  const sources = sourceIps.map((ip) => ({ ip, heloName: HOST }));
  const findings = await adviseOn({ name, hostname: HOST, sources, lookups });
  lookups.close();
  return findings.map(toAdvice);
}

test('a correct domain has no advice', async () => {
  assert.deepEqual(await advice(), []);
});

/** Maps a finding to the changes that cause it, its subject and its sentence. */
const ADVICE: Record<string, [Record<string, FakeZone[string] | null>, string, RegExp]> = {
  'no DMARC': [{ '_dmarc.acme.com': null }, 'dmarc', /no DMARC record .* "v=DMARC1; p=none;/],
  'DMARC p=none': [
    { '_dmarc.acme.com': { TXT: ['v=DMARC1; p=none; rua=mailto:x@acme.com'] } },
    'dmarc',
    /only reports: change it to p=quarantine/,
  ],
  'DMARC in quotation marks': [
    { '_dmarc.acme.com': { TXT: ['"v=DMARC1; p=reject"'] } },
    'dmarc',
    /^the DMARC record at _dmarc\.acme\.com does not start with "v=DMARC1;", so .*: write its text without quotation marks/,
  ],
  'DMARC without a policy': [
    { '_dmarc.acme.com': { TXT: ['v=DMARC1; p=strict'] } },
    'dmarc',
    /no valid policy/,
  ],
  'two DMARC records': [
    { '_dmarc.acme.com': { TXT: ['v=DMARC1; p=none', 'v=DMARC1; p=reject'] } },
    'dmarc',
    /2 DMARC records/,
  ],
  'no reverse DNS': [{ '8.8.8.8.in-addr.arpa': null }, 'ptr', /8\.8\.8\.8.* has no reverse DNS/],
  'reverse DNS that does not resolve back': [
    { '8.8.8.8.in-addr.arpa': { PTR: ['static.hoster.example'] } },
    'ptr',
    /says static\.hoster\.example, but .* does not resolve to 8\.8\.8\.8/,
  ],
  'a domain that accepts no mail': [{ 'acme.com': { MX: ['0 .'] } }, 'replies', /null MX/],
  'a domain without MX and address': [
    { 'acme.com': { TXT: ['x'] } },
    'replies',
    /neither an MX nor an address/,
  ],
  'a broken MTA-STS record': [
    { '_mta-sts.acme.com': { TXT: ['v=STSv1; id=2026-11-21'] } },
    'mta_sts',
    /MTA-STS record .* is not valid/,
  ],
};

for (const [finding, [changes, about, said]] of Object.entries(ADVICE)) {
  test(`advice is given about ${finding}`, async () => {
    const findings = await advice(changes);
    assert.deepEqual(
      findings.map((one) => one.about),
      [about],
    );
    assert.match(findings[0]?.message ?? '', said);
  });
}

test('the DMARC policy of the organization applies to its sub-domains', async () => {
  const about = async (record: string) => {
    const changes = { '_dmarc.acme.com': { TXT: [record] } };
    const findings = await advice(changes, { name: 'news.acme.com' });
    return findings.find((one) => one.about === 'dmarc')?.message ?? null;
  };
  assert.equal(await about('v=DMARC1; p=reject'), null);
  assert.match((await about('v=DMARC1; p=reject; sp=none')) ?? '', /only reports/);
});

test('without known source addresses, the addresses of the host name are checked', async () => {
  assert.deepEqual(await advice({}, { sourceIps: [] }), []);
  assert.deepEqual(await advice({}, { sourceIps: ['10.0.0.1'] }), []);
  const findings = await advice({ [HOST]: { A: ['10.0.0.1'] } }, { sourceIps: [] });
  assert.match(findings[0]?.message ?? '', /has no public address in DNS/);
});

test('a DNS failure causes no advice', async () => {
  const failures: Record<string, FakeFailure> = {};
  for (const name of ['_dmarc.acme.com', '8.8.8.8.in-addr.arpa', 'acme.com', '_mta-sts.acme.com']) {
    failures[name] = 'servfail';
  }
  assert.deepEqual(await advice({}, { failures }), []);
});

test('a node that the MX record names advises when it has no inbound port; another node does not', () => {
  const [finding, ...others] = adviseInbound(HOST, { hostname: HOST, inboundPort: null });
  assert.match(finding?.message ?? '', /are lost: .* Set LETTERHAUS_INBOUND_PORT=25 /);
  assert.deepEqual(others, []);
  assert.deepEqual(adviseInbound(HOST, { hostname: HOST, inboundPort: 25 }), []);
  assert.deepEqual(adviseInbound('mx.else.example', { hostname: HOST, inboundPort: null }), []);
});
