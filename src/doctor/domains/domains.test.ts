/** Checks of sending domains: a healthy domain, and one fault at a time in its DNS or in its counts. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { after, test } from 'node:test';
import { openForChecks, startDoctorLab } from '../../../test/support/doctor-lab.ts';
import type { Env } from '../../../test/support/letterhaus.ts';
import { newSender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { readInstallationHosts, recordSetupOf } from '../../domains/domain-check.ts';
import { requiredRecords } from '../../domains/dns/records.ts';
import { addReputationCounts } from '../../reputation/reputation-store.ts';
import { listLiveDomains } from '../doctor-store.ts';
import type { Finding } from '../finding.ts';
import * as bulk from './bulk-senders.ts';
import { sentence } from './live-domains.ts';
import * as policies from './policies.ts';
import { DOMAIN_RECORDS } from './records.ts';

const NAME = 'acme.com';
const DMARC = 'v=DMARC1; p=reject; rua=mailto:dmarc@acme.com';
const env = { LETTERHAUS_PUBLIC_URL: 'https://mail.acme.com' };

const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());
const stored = await testDatabase();
after(() => stored[Symbol.asyncDispose]());
const opened = await openForChecks(stored.address);
after(() => opened[Symbol.asyncDispose]());
const { database } = opened;
const sender = await newSender(stored.db);
await publish();

/** Gives the domain of the sender a key, and publishes its records as its owner does. */
async function publish(): Promise<void> {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const key = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  await stored.sql('update domains set rsa_public_key = $1', [key]);
  const { config } = lab.context();
  const [domain] = await listLiveDomains(stored.db, NAME, 1);
  const hosts = await readInstallationHosts(stored.db, config);
  for (const { type, name, value, priority, required } of requiredRecords(
    recordSetupOf(domain!, hosts),
  )) {
    if (required)
      lab.dns.set(name, type, [priority === undefined ? value : `${priority} ${value}`]);
  }
  lab.dns.set(NAME, 'MX', ['10 mx.acme.com']);
  lab.dns.set('mx.acme.com', 'A', ['127.0.0.1']);
  lab.dns.set(`_dmarc.${NAME}`, 'TXT', [DMARC]);
}

const levelsOf = (findings: readonly Finding[]) => findings.map(({ level }) => level);

test('a healthy domain has only green findings', async () => {
  const { DOMAIN_DMARC, DOMAIN_REPLIES, DOMAIN_MTA_STS, DOMAIN_TLS_REPORTS, DOMAIN_BIMI } =
    policies;
  for (const check of [
    DOMAIN_RECORDS,
    DOMAIN_DMARC,
    DOMAIN_REPLIES,
    DOMAIN_MTA_STS,
    DOMAIN_TLS_REPORTS,
    DOMAIN_BIMI,
    bulk.BULK_GMAIL,
    bulk.BULK_YAHOO,
    bulk.BULK_MICROSOFT,
  ]) {
    for (const { level, found } of await lab.run(check, { database, env })) {
      assert.equal(level, 'green', `${check.id}: ${found}`);
    }
  }
});

const COMPANIES = [bulk.BULK_GMAIL, bulk.BULK_YAHOO, bulk.BULK_MICROSOFT];
const SMALL = { ended: 2_000, complained: 0 };
const LARGE = { ended: 6_000, complained: 0 };

/** Replaces the counts of the domain. */
async function count(volume: { ended: number; complained: number }): Promise<void> {
  await stored.sql('delete from reputation_counts');
  await addReputationCounts(stored.db, [{ ...sender, domain: NAME, bounced: 0, ...volume }]);
}

/** Returns the levels of the finding in the order of the companies; null where none has the text. */
async function askCompanies(found: RegExp, changed: Env = env): Promise<(string | null)[]> {
  const levels: (string | null)[] = [];
  for (const check of COMPANIES) {
    const findings = await lab.run(check, { database, env: changed });
    levels.push(findings.find((finding) => found.test(finding.found))?.level ?? null);
  }
  return levels;
}

test('a missing record is red with its value, and red for a bulk sender of each company', async () => {
  const [domain] = await listLiveDomains(stored.db, NAME, 1);
  const name = `${domain!.rsaSelector}._domainkey.${NAME}`;
  const value = `v=DKIM1; k=rsa; p=${domain!.rsaPublicKey}`;
  const signature = /^The DKIM signature of acme\.com fails/;
  lab.dns.set(name, 'TXT', []);
  const [missing] = await lab.run(DOMAIN_RECORDS, { database, env });
  await count(SMALL);
  const small = await askCompanies(signature);
  await count(LARGE);
  const large = await askCompanies(signature);
  lab.dns.set(name, 'TXT', [value]);
  assert.equal(missing?.level, 'red');
  assert.match(missing?.found ?? '', /^There is no TXT record at one\._domainkey\.acme\.com/);
  assert.ok(missing?.remedy?.includes(`has to be "${value}"`), missing?.remedy ?? '');
  assert.equal(missing?.command, 'letterhaus domains verify acme.com');
  assert.deepEqual(small, ['yellow', 'yellow', 'yellow']);
  assert.deepEqual(large, ['red', 'red', 'red']);
});

test('a record that verifies and can be better is yellow, with the improvement as its remedy', async () => {
  const [domain] = await listLiveDomains(stored.db, NAME, 1);
  const name = `${domain!.rsaSelector}._domainkey.${NAME}`;
  const record = `v=DKIM1; k=rsa; p=${domain!.rsaPublicKey}`;
  lab.dns.set(name, 'TXT', [record.replace(/p=(.{9})/, 'p=$1 ')]);
  const findings = await lab.run(DOMAIN_RECORDS, { database, env });
  lab.dns.set(name, 'TXT', [record]);
  const found = 'The key holds white space, which is allowed, but some receivers fail on it.';
  const { meaning, remedy } = findings.find((one) => one.found === found) ?? {};
  assert.deepEqual([meaning, remedy], ['Some mail may fail DKIM.', 'Enter it without.']);
});

test('too many complaints are red for each company that counts them', async () => {
  await count({ ended: 2_000, complained: 60 });
  const complained = /^60 of 2000 recipients complained .* The limit is 0\.3 %/;
  assert.deepEqual(await askCompanies(complained), ['red', 'red', null]);
});

test('without an https address or reverse DNS, the requirement is reported', async () => {
  await count(LARGE);
  const plain = { LETTERHAUS_PUBLIC_URL: undefined };
  assert.deepEqual(await askCompanies(/one-click/, plain), ['red', 'red', null]);
  await count(SMALL);
  assert.deepEqual(await askCompanies(/one-click/, plain), ['yellow', 'yellow', null]);
  lab.dns.set('1.0.0.127.in-addr.arpa', 'PTR', []);
  const nameless = await lab.run(bulk.BULK_GMAIL, { database, env });
  const levels = await askCompanies(/reverse DNS/);
  lab.dns.set('1.0.0.127.in-addr.arpa', 'PTR', ['lab.mx.test']);
  assert.deepEqual(levels, ['red', 'red', null], 'of every sender, also of a small one');
  const reverse = nameless.find(({ found }) => /reverse DNS/.test(found));
  assert.equal(reverse?.remedy, 'Read the check `reverse_dns`.');
});

test('DMARC that is missing, without action, without reports or with a foreign report address is reported', async () => {
  const checkDmarc = async (texts: string[]) => {
    lab.dns.set(`_dmarc.${NAME}`, 'TXT', texts);
    const findings = await lab.run(policies.DOMAIN_DMARC, { database });
    lab.dns.set(`_dmarc.${NAME}`, 'TXT', [DMARC]);
    return findings;
  };
  const check = async (texts: string[]) => {
    const findings = await checkDmarc(texts);
    return findings.map(({ level, found }) => `${level}: ${found}`).join('\n');
  };
  assert.match(await check([]), /^yellow: There is no DMARC record at _dmarc\.acme\.com/);
  assert.match(await check([DMARC, DMARC]), /^yellow: There are 2 DMARC records/);
  const weak = await check(['v=DMARC1; p=none; rua=mailto:dmarc@acme.com']);
  assert.match(weak, /^yellow: The DMARC policy at _dmarc\.acme\.com is "none"/);
  assert.match(await check(['v=DMARC1; p=reject']), /^yellow: The DMARC record .* no reports/);
  const [quoted] = await checkDmarc([`"${DMARC}"`]);
  assert.match(quoted?.found ?? '', /does not start with "v=DMARC1;", so receivers ignore it\.$/);
  assert.match(quoted?.remedy ?? '', /^Write its text without quotation marks, and start it with/);
  const foreign = 'v=DMARC1; p=reject; rua=mailto:acme@reports.example';
  const name = 'acme.com._report._dmarc.reports.example';
  assert.match(await check([foreign]), new RegExp(`has not agreed: ${name} is missing`));
  lab.dns.set(name, 'TXT', ['v=DMARC1']);
  assert.match(await check([foreign]), /^green: /);
});

test('a domain without a mail server, or with a broken MTA-STS, TLS report or BIMI record is reported', async () => {
  const only = async (check: typeof DOMAIN_RECORDS) => (await lab.run(check, { database }))[0];
  lab.dns.set(NAME, 'MX', ['0 .']);
  const replies = await only(policies.DOMAIN_REPLIES);
  lab.dns.set(NAME, 'MX', ['10 mx.acme.com']);
  assert.match(replies?.found ?? '', /accepts no mail \(null MX\)/);

  lab.dns.set(`_mta-sts.${NAME}`, 'TXT', ['v=STSv1; id=20261126']);
  lab.dns.set(`mta-sts.${NAME}`, 'A', ['127.0.0.1']);
  const policy = await lab.run(policies.DOMAIN_MTA_STS, {
    database,
    env: { LETTERHAUS_MTA_STS_PORT: '9' },
  });
  assert.deepEqual(levelsOf(policy), ['red']);
  assert.match(policy[0]?.found ?? '', /cannot be fetched/);
  const reports = await only(policies.DOMAIN_TLS_REPORTS);
  assert.match(reports?.found ?? '', /has MTA-STS without TLS reports/);
  lab.dns.set(`_mta-sts.${NAME}`, 'TXT', ['v=STSv1']);
  assert.match((await only(policies.DOMAIN_MTA_STS))?.found ?? '', /record .* is not valid/);
  lab.dns.remove(`_mta-sts.${NAME}`);

  lab.dns.set(`_smtp._tls.${NAME}`, 'TXT', ['v=TLSRPTv1']);
  const invalid = await only(policies.DOMAIN_TLS_REPORTS);
  lab.dns.remove(`_smtp._tls.${NAME}`);
  assert.match(invalid?.remedy ?? '', /v=TLSRPTv1; rua=mailto:tls-reports@acme\.com/);

  const logo = 'v=BIMI1; l=https://acme.com/logo.svg';
  lab.dns.set(`default._bimi.${NAME}`, 'TXT', [`${logo}; a=`]);
  const bimi = await only(policies.DOMAIN_BIMI);
  lab.dns.remove(`default._bimi.${NAME}`);
  assert.match(bimi?.found ?? '', /names no certificate/);
});

test('a finding is a sentence, and a domain that it begins with stays as it is', () => {
  assert.equal(sentence('there is no MX: add it'), 'There is no MX: add it.');
  assert.equal(sentence('acme.com has no MX.'), 'acme.com has no MX.');
});

test('a domain that DNS does not answer for is unknown, and one that is not stored is red', async () => {
  lab.dns.setFailure(`_dmarc.${NAME}`, 'servfail');
  const silent = await lab.run(policies.DOMAIN_DMARC, { database });
  lab.dns.setFailure(`_dmarc.${NAME}`, null);
  assert.deepEqual(levelsOf(silent), ['unknown']);
  const [other] = await lab.run(DOMAIN_RECORDS, { database, domain: 'other.example' });
  assert.deepEqual([other?.level, other?.command], ['red', 'letterhaus domains add other.example']);
  const [closed] = await lab.run(DOMAIN_RECORDS, { domain: NAME });
  assert.equal(closed?.level, 'unknown');
  const [none] = await lab.run(policies.DOMAIN_DMARC);
  assert.match(none?.remedy ?? '', /letterhaus doctor DOMAIN/);
});
