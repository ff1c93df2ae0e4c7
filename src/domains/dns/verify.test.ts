/**
 * A check of a domain with real DNS packets: which records are required, and what is reported about a wrong one.
 * verify-status.test.ts has the status that follows.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { startFakeDns, type FakeFailure, type FakeZone } from '../../../test/support/fake-dns.ts';
import { createResolver } from '../../net/dns/resolver.ts';
import { requiredRecords, type CheckedRecord } from './records.ts';
import { checkDomain, checkTestDomain, type DomainCheck } from './verify.ts';

const RSA_KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .publicKey.export({ type: 'spki', format: 'der' })
  .toString('base64');
const RSA_RECORD = `v=DKIM1; k=rsa; p=${RSA_KEY}`;
const ED_RECORD = 'v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=';
const HOST = 'mail.letterhaus.example';
const PLACES = { returnPathHost: HOST, hosts: [{ name: HOST, sourceIps: ['8.8.8.8'] }] };

const RSA_NAME = 'lh1._domainkey.acme.com';
const ED_NAME = 'lh2._domainkey.acme.com';
const RETURN_PATH = 'send.acme.com';

const GOOD: FakeZone = {
  'acme.com': { MX: ['10 mx.acme.com'] },
  'mx.acme.com': { A: ['8.8.8.1'] },
  [RSA_NAME]: { TXT: [RSA_RECORD] },
  [ED_NAME]: { TXT: [ED_RECORD] },
  [RETURN_PATH]: { MX: [`10 ${HOST}`], TXT: ['v=spf1 ip4:8.8.8.8 ~all'] },
  '_dmarc.acme.com': { TXT: ['v=DMARC1; p=reject'] },
  [HOST]: { A: ['8.8.8.8'] },
  '8.8.8.8.in-addr.arpa': { PTR: [HOST] },
};

/** A name set to `{}` exists without records; a name set to null does not exist. */
async function check(
  changes: Record<string, FakeZone[string] | null> = {},
  options: {
    domain?: string;
    failures?: Record<string, FakeFailure>;
    sourceIps?: string[];
    queryTimeoutMs?: number;
  } = {},
): Promise<DomainCheck> {
  const { domain = 'acme.com', failures = {}, sourceIps = ['8.8.8.8'] } = options;
  const { queryTimeoutMs = 5_000 } = options;
  const zone: FakeZone = { ...GOOD };
  for (const [name, records] of Object.entries(changes)) {
    if (records === null) delete zone[name];
    else zone[name] = records;
  }
  await using dns = await startFakeDns(zone);
  for (const [name, failure] of Object.entries(failures)) dns.setFailure(name, failure);
  const world = { monotonicMs: () => performance.now() };
  const resolver = createResolver({ servers: [dns.server], world, queryTimeoutMs });
  const expected = requiredRecords({
    name: domain,
    dkimSelectorRsa: 'lh1',
    dkimRecordRsa: RSA_RECORD,
    dkimSelectorEd25519: 'lh2',
    dkimRecordEd25519: ED_RECORD,
    installation: PLACES,
  });
  const sources = sourceIps.map((ip) => ({ ip, heloName: HOST }));
  const context = { name: domain, installation: PLACES, hostname: HOST, sources, resolver };
  const result = await checkDomain(expected, context);
  resolver.close();
  return result;
}

const AT = { rsa: 0, ed25519: 1, mx: 2, spf: 3 } as const;

function recordOf(result: DomainCheck, which: keyof typeof AT): CheckedRecord {
  const record = result.records[AT[which]];
  assert.ok(record);
  return record;
}

function assertProblem(
  result: DomainCheck,
  which: keyof typeof AT,
  [status, problem]: [CheckedRecord['status'], RegExp],
): void {
  const record = recordOf(result, which);
  assert.equal(record.status, status, record.problem ?? '');
  assert.match(record.problem ?? '', problem);
}

test('a domain with all its records is verified, without a problem and without advice', async () => {
  const result = await check();
  for (const record of result.records) {
    assert.deepEqual([record.status, record.problem], ['verified', null], record.name);
  }
  assert.deepEqual(result.advice, []);
  assert.equal(result.required, 'verified');
  assert.deepEqual(result.published, { rsa: true, ed25519: true });
  assert.deepEqual(recordOf(result, 'mx').found, [`10 ${HOST}`]);
});

test('an SPF record that names this service through another one is verified', async () => {
  const zone = {
    '_spf.acme.com': { TXT: ['v=spf1 include:_hosts.acme.com -all'] },
    '_hosts.acme.com': { TXT: ['v=spf1 a:mail.letterhaus.example -all'] },
    '_loop.acme.com': { TXT: ['v=spf1 redirect=send.acme.com'] },
    '_other.acme.com': { TXT: ['v=spf1 ip4:8.8.4.4 -all'] },
  };
  const spf = (text: string, failures: Record<string, FakeFailure> = {}) =>
    check({ ...zone, [RETURN_PATH]: { MX: [`10 ${HOST}`], TXT: [text] } }, { failures });
  for (const text of [
    'v=spf1 include:_spf.acme.com -all',
    'v=spf1 include:_other.acme.com redirect=_spf.acme.com',
    'v=spf1 mx -all',
    'v=spf1 exists:%{d}.nowhere.test a:mail.letterhaus.example ~all',
  ]) {
    const record = recordOf(await spf(text), 'spf');
    assert.deepEqual([record.status, record.problem], ['verified', null], text);
  }
  const wrong: [string, RegExp][] = [
    [
      'v=spf1 include:_other.acme.com -all',
      /does not name this service \(ip4:8\.8\.8\.8\): change it to/,
    ],
    [
      'v=spf1 redirect=_loop.acme.com',
      /because send\.acme\.com includes itself: .* "v=spf1 ip4:8\.8\.8\.8 /,
    ],
    ['v=spf1 include:nowhere.acme.com ip4:8.8.8.8 -all', /nowhere\.acme\.com has no SPF record/],
    ['v=spf1 ip4:8.8.8.8 ip:8.8.4.4 -all', /has a mistake, "ip:8\.8\.4\.4": correct it$/],
  ];
  for (const [text, problem] of wrong) assertProblem(await spf(text), 'spf', ['mismatch', problem]);
  const silent = await spf('v=spf1 include:_spf.acme.com -all', { '_hosts.acme.com': 'servfail' });
  assertProblem(silent, 'spf', [
    'dns_error',
    /nothing is known about it \(.*_hosts\.acme\.com.*\): try/,
  ]);
  assert.equal(silent.required, 'unknown');
});

test('the Ed25519 key is optional', async () => {
  const result = await check({ [ED_NAME]: null });
  assert.equal(recordOf(result, 'ed25519').status, 'missing');
  assert.deepEqual([result.required, result.published.ed25519], ['verified', false]);
});

test('each of the other records is required', async () => {
  for (const name of [RSA_NAME, RETURN_PATH]) {
    assert.equal((await check({ [name]: null })).required, 'unverified', name);
  }
  const withoutSpf = await check({ [RETURN_PATH]: { MX: [`10 ${HOST}`] } });
  assert.equal(withoutSpf.required, 'unverified');
});

test('an absent record is reported with advice to add it', async () => {
  const result = await check({ [RSA_NAME]: null, [RETURN_PATH]: null });
  assertProblem(result, 'rsa', ['missing', /no TXT record at lh1\._domainkey\.acme\.com: add it/]);
  assertProblem(result, 'mx', ['missing', /no MX record at send\.acme\.com: add it/]);
  assertProblem(result, 'spf', ['missing', /no TXT record at send\.acme\.com: add it/]);
});

test('a record with the zone name appended is reported with advice to enter the short name', async () => {
  const result = await check({
    [RSA_NAME]: null,
    [`${RSA_NAME}.acme.com`]: { TXT: [RSA_RECORD] },
    [RETURN_PATH]: null,
    [`${RETURN_PATH}.acme.com`]: GOOD[RETURN_PATH] ?? {},
  });
  const said = (type: string, name: string, short: string) =>
    new RegExp(
      `the ${type} record exists at ${name}\\.acme\\.com: your DNS panel appended .* only "${short}"`,
    );
  assertProblem(result, 'rsa', ['missing', said('TXT', RSA_NAME, 'lh1\\._domainkey')]);
  assertProblem(result, 'mx', ['missing', said('MX', RETURN_PATH, 'send')]);
  assertProblem(result, 'spf', ['missing', said('TXT', RETURN_PATH, 'send')]);
});

test('for a sub-domain the parent zone may be appended, or the sub-domain left out', async () => {
  const domain = 'news.acme.com';
  const appended = 'lh1._domainkey.news.acme.com.acme.com';
  const result = await check({ [appended]: { TXT: [RSA_RECORD] } }, { domain });
  assertProblem(result, 'rsa', ['missing', /acme\.com\.acme\.com: .* "lh1\._domainkey\.news"/]);
  assertProblem(result, 'mx', ['missing', /exists at send\.acme\.com: the sub-domain is missing/]);
});

test('a wildcard record is not reported as misplaced', async () => {
  const wildcard = { TXT: ['v=verify something'], MX: ['10 mx.other.example'] };
  const result = await check({ [RSA_NAME]: null, [`${RSA_NAME}.acme.com`]: wildcard });
  assertProblem(result, 'rsa', ['missing', /no TXT record at lh1/]);
});

test('a record of another type is reported as such', async () => {
  const types: [FakeZone[string], RegExp][] = [
    [{ A: ['8.8.8.8'] }, /there is an A record at lh1.* choose the type TXT/],
    [{ MX: ['10 x.example'] }, /there is an MX record at lh1.* choose the type TXT/],
    [{ CNAME: ['lh1.letterhaus.example'] }, /a CNAME at lh1.* \(to lh1\.letterhaus\.example\)/],
  ];
  for (const [records, said] of types) {
    assertProblem(await check({ [RSA_NAME]: records }), 'rsa', ['missing', said]);
  }
  const returnPath = await check({ [RETURN_PATH]: { CNAME: ['bounce.other.example'] } });
  assertProblem(returnPath, 'mx', ['missing', /a CNAME at send\.acme\.com/]);
  assertProblem(returnPath, 'spf', ['missing', /a CNAME at send\.acme\.com/]);
});

test('a CNAME to the right record is accepted', async () => {
  const result = await check({
    [RSA_NAME]: { CNAME: ['keys.acme.com'] },
    'keys.acme.com': { TXT: [RSA_RECORD] },
  });
  assert.equal(recordOf(result, 'rsa').status, 'verified');
});

test('a wrong record is reported with the current value', async () => {
  const MX = ['10 mx.other.example'];
  const TXT = ['v=spf1 -all'];
  const result = await check({
    [RSA_NAME]: { TXT: [`"${RSA_RECORD}"`] },
    [RETURN_PATH]: { MX, TXT },
  });
  assertProblem(result, 'rsa', ['mismatch', /quotation marks/]);
  assertProblem(result, 'mx', ['mismatch', /points to mx\.other\.example instead of/]);
  assertProblem(result, 'spf', ['mismatch', /does not name this service/]);
  assert.deepEqual(recordOf(result, 'mx').found, MX);
  assert.deepEqual(recordOf(result, 'spf').found, TXT);
  assert.equal(result.required, 'unverified');
});

test('a long key in several strings is read as one', async () => {
  const TXT = [[RSA_RECORD.slice(0, 100), RSA_RECORD.slice(100, 300), RSA_RECORD.slice(300)]];
  assert.equal(recordOf(await check({ [RSA_NAME]: { TXT } }), 'rsa').status, 'verified');
});

test('a DNS failure is not reported as a missing record', async () => {
  for (const failure of ['servfail', 'timeout', 'refused'] as const) {
    const result = await check({}, { failures: { [RSA_NAME]: failure }, queryTimeoutMs: 500 });
    assertProblem(result, 'rsa', ['dns_error', /DNS gave no answer, so nothing is known/]);
    assert.equal(result.required, 'unknown', failure);
  }
  const both = await check({ [RETURN_PATH]: null }, { failures: { [RSA_NAME]: 'servfail' } });
  assert.equal(both.required, 'unverified', 'another record is missing for certain');
});

test('a domain that does not exist is reported as such', async () => {
  const result = await check({}, { domain: 'typo-acme.com' });
  for (const which of ['rsa', 'mx', 'spf'] as const) {
    assertProblem(result, which, ['missing', /the domain typo-acme\.com does not exist in DNS/]);
  }
});

test('a check finds a record that was just added', async () => {
  await using dns = await startFakeDns({ 'acme.com': { A: ['8.8.8.1'] } });
  const world = { monotonicMs: () => performance.now() };
  const resolver = createResolver({ servers: [dns.server], world });
  const expected = requiredRecords({
    name: 'acme.com',
    dkimSelectorRsa: 'lh1',
    dkimRecordRsa: RSA_RECORD,
    dkimSelectorEd25519: 'lh2',
    dkimRecordEd25519: ED_RECORD,
    installation: PLACES,
  });
  const context = { name: 'acme.com', installation: PLACES, hostname: HOST, resolver };
  assert.equal(recordOf(await checkDomain(expected, context), 'rsa').status, 'missing');
  dns.set(RSA_NAME, 'TXT', [RSA_RECORD]);
  assert.equal(recordOf(await checkDomain(expected, context), 'rsa').status, 'verified');
  resolver.close();
});

test('values from DNS are shown without control characters and shortened', async () => {
  const TXT = [`p=\u001B[31m\0${'x'.repeat(5_000)}`, ...Array.from({ length: 30 }, String)];
  const { found } = recordOf(await check({ [RSA_NAME]: { TXT } }), 'rsa');
  assert.equal(found.length, 10);
  assert.ok(found.every((text) => text.length <= 1_000 && !/\p{Cc}/u.test(text)));
});

test('in the test environment every domain is verified at once, except under .invalid', () => {
  const expected = requiredRecords({
    name: 'acme.test',
    dkimSelectorRsa: 'lh1',
    dkimRecordRsa: RSA_RECORD,
    dkimSelectorEd25519: 'lh2',
    dkimRecordEd25519: ED_RECORD,
    installation: PLACES,
  });
  const good = checkTestDomain(expected, 'acme.test');
  assert.ok(good.records.every(({ status, problem }) => status === 'verified' && problem === null));
  assert.deepEqual([good.required, good.published.ed25519], ['verified', true]);
  const bad = checkTestDomain(expected, 'acme.invalid');
  assert.ok(bad.records.every(({ status, problem }) => status === 'missing' && problem !== null));
  assert.deepEqual([bad.required, bad.published.ed25519], ['unverified', false]);
  assert.equal(checkTestDomain(expected, 'notinvalid').required, 'verified');
});
