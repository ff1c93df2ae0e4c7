/** Checks of the network on a healthy machine, and with one fault at a time, by real DNS and SMTP on loopback. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startBlackHole } from '../../../test/support/black-hole.ts';
import {
  type Changes,
  type DoctorLab,
  LAB_HOST,
  LAB_ZONE,
  startDoctorLab,
} from '../../../test/support/doctor-lab.ts';
import type { FakeRecordType } from '../../../test/support/fake-dns.ts';
import { MINUTE_MS } from '../../lib/units.ts';
import type { Finding } from '../finding.ts';
import type { Check } from '../run-checks.ts';
import { BLOCK_LISTS, BLOCK_LISTS_OF_NAMES } from './block-lists.ts';
import { HOST_NAME, HOSTS_FILE } from './host-name.ts';
import { OUTGOING_PORT_25 } from './outgoing.ts';
import { DNS_OVER_TCP, DNSSEC, RESOLVER, RESOLVER_HONESTY } from './resolver.ts';
import { HELO_NAME, REVERSE_DNS } from './reverse-dns.ts';
import { SOURCE_ADDRESSES } from './sources.ts';

const ALL = [
  HOST_NAME,
  HOSTS_FILE,
  SOURCE_ADDRESSES,
  OUTGOING_PORT_25,
  REVERSE_DNS,
  HELO_NAME,
  BLOCK_LISTS,
  BLOCK_LISTS_OF_NAMES,
  RESOLVER,
  RESOLVER_HONESTY,
  DNS_OVER_TCP,
  DNSSEC,
];
const PTR = '1.0.0.127.in-addr.arpa';

const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());

/** Sets records for one check, and the healthy ones again. */
async function withRecords(
  [name, type, records]: [string, FakeRecordType, string[]],
  check: Check,
  changes?: Changes,
): Promise<readonly Finding[]> {
  lab.dns.set(name, type, records);
  try {
    return await lab.run(check, changes);
  } finally {
    const healthy = LAB_ZONE[name]?.[type];
    if (healthy === undefined) lab.dns.remove(name);
    else lab.dns.set(name, type, healthy);
  }
}

/** Asserts that one finding has this level and sentence, and says what to do. */
function assertFinds(
  findings: readonly Finding[],
  level: Finding['level'],
  found: RegExp,
  remedy: RegExp,
): void {
  const finding = findings.find((one) => found.test(one.found));
  assert.ok(finding, JSON.stringify(findings));
  assert.equal(finding.level, level, finding.found);
  assert.match(finding.remedy ?? '', remedy);
}

test('a healthy machine has only green findings', async () => {
  for (const check of ALL) {
    for (const { level, found } of await lab.run(check)) {
      assert.equal(level, 'green', `${check.id}: ${found}`);
    }
  }
});

test('a host name that is not complete, or not in DNS, is reported', async () => {
  const incomplete = await lab.run(HOST_NAME, { config: { hostname: 'mail' } });
  assertFinds(incomplete, 'red', /is mail, which is not a full host name/, /LETTERHAUS_HOSTNAME/);
  const absent = await lab.run(HOST_NAME, { config: { hostname: 'gone.mx.test' } });
  assertFinds(absent, 'red', /gone\.mx\.test has no address in DNS/, /Add an A record/);
  const isPublic = { config: { allowPrivateNetworks: false } };
  const isPrivate = await lab.run(HOST_NAME, isPublic);
  assertFinds(isPrivate, 'red', /has only private addresses \(127\.0\.0\.1\)/, /public address/);
});

test('a line of /etc/hosts that makes the host name loopback is reported', async () => {
  const hostsFile = join(lab.dataDir, 'hosts-of-debian');
  writeFileSync(hostsFile, `127.0.0.1 localhost\n127.0.1.1 ${LAB_HOST} lab # installer\n`);
  const findings = await lab.run(HOSTS_FILE, { machine: { hostsFile } });
  assertFinds(
    findings,
    'yellow',
    /says that lab\.mx\.test is 127\.0\.1\.1/,
    /^Remove lab\.mx\.test/,
  );
});

test('an address behind a router is reported, with the public one if DNS has it', async () => {
  const config = { allowPrivateNetworks: false, sources: [] };
  const machine = { localIps: ['10.0.0.5'] };
  const natted = await lab.run(SOURCE_ADDRESSES, { config, machine });
  assertFinds(natted, 'yellow', /^10\.0\.0\.5 is a private address/, /A record of lab\.mx\.test/);
  const record = [LAB_HOST, 'A', ['8.8.4.4']] as [string, FakeRecordType, string[]];
  const named = await withRecords(record, SOURCE_ADDRESSES, { config, machine });
  assertFinds(named, 'unknown', /should be 8\.8\.4\.4/, /header Received/);
});

test('port 25 that is filtered, refused or without a route is reported as such', async () => {
  const { port } = lab.gmail;
  await Promise.all([lab.gmail.stop(), lab.yahoo.stop()]);
  const refused = await lab.run(OUTGOING_PORT_25);
  assertFinds(refused, 'red', /are refused \(.*ECONNREFUSED\)/, /LETTERHAUS_RELAY_URL/);
  const source = { ip: '192.0.2.1', heloName: LAB_HOST };
  const elsewhere = await lab.run(OUTGOING_PORT_25, { config: { sources: [source] } });
  assertFinds(elsewhere, 'yellow', /^192\.0\.2\.1 has no route/, /LETTERHAUS_SOURCE_IPS/);
  {
    await using _gmail = await startBlackHole('127.0.2.1', port);
    await using _yahoo = await startBlackHole('127.0.2.2', port);
    const filtered = await lab.run(OUTGOING_PORT_25);
    assertFinds(filtered, 'red', /leave this machine without an answer/, /open outgoing port 25/);
  }
  await Promise.all([lab.gmail.start(), lab.yahoo.start()]);
});

test('a receiver that refuses the address in its greeting is quoted, and gets QUIT and nothing else', async () => {
  const before = lab.gmail.sessions.length;
  lab.gmail.set({ phases: { greeting: '550 5.7.1 192.0.2.7 is on a block list' } });
  const findings = await lab.run(OUTGOING_PORT_25);
  lab.gmail.set({});
  const reply = /gmail\.receivers\.test replies 550 5\.7\.1 192\.0\.2\.7 is on a block list/;
  assertFinds(findings, 'yellow', reply, /block_lists/);
  const sessions = lab.gmail.sessions.slice(before);
  assert.equal(sessions.length, 1);
  assert.ok(
    sessions[0]!.lines.filter((line) => line.startsWith('C:')).every((line) => /QUIT/.test(line)),
  );
});

test('a run within ten minutes connects to nobody who replied, and says so; a fresh run does', async () => {
  writeFileSync(join(lab.dataDir, 'lock'), '');
  const count = () => lab.gmail.connections + lab.yahoo.connections;
  const before = count();
  let nowMs = Date.now();
  const world = { now: () => nowMs };
  const again = (isFresh = false) => lab.run(OUTGOING_PORT_25, { isFresh, world });
  assert.match((await again())[0]!.found, /answers on port \d+\.$/);
  assert.equal(count() - before, 2);
  nowMs += 4 * MINUTE_MS;
  const [known] = await again();
  assert.equal(known!.level, 'green');
  assert.match(
    known!.found,
    /found this 4 minutes ago; `letterhaus doctor --fresh` tries again\.$/,
  );
  assert.equal(count() - before, 2);
  assert.doesNotMatch((await again(true))[0]!.found, / ago/);
  assert.equal(count() - before, 4);
  // The fresh run counts as well, also with other addresses beside this one.
  nowMs += 7 * MINUTE_MS;
  const env = { LETTERHAUS_SOURCE_IPS: '127.0.0.1,127.0.0.9' };
  const both = await lab.run(OUTGOING_PORT_25, { isFresh: false, world, env });
  assert.match(both[0]!.found, /7 minutes ago/);
  assert.match(both[1]!.found, /answers on port \d+\.$/);
  assert.equal(count() - before, 6);
  nowMs += 3 * MINUTE_MS;
  assert.doesNotMatch((await again())[0]!.found, / ago/);
  assert.equal(count() - before, 8);
});

test('a refusal is remembered, but connections without a reply are tried again at once', async () => {
  const again = (isFresh = false) => lab.run(OUTGOING_PORT_25, { isFresh });
  lab.gmail.set({ phases: { greeting: '550 5.7.1 192.0.2.7 is on a block list' } });
  await again(true);
  lab.gmail.set({});
  assert.match((await again())[0]!.found, /is on a block list.* less than a minute ago/);
  rmSync(join(lab.dataDir, 'outgoing-port-25.json'));
  await Promise.all([lab.gmail.stop(), lab.yahoo.stop()]);
  assert.equal((await again())[0]!.level, 'red');
  await Promise.all([lab.gmail.start(), lab.yahoo.start()]);
  assert.equal((await again())[0]!.level, 'green');
});

test('what an earlier run noted is ignored when it is damaged, of the future, or not a file', async () => {
  const file = join(lab.dataDir, 'outgoing-port-25.json');
  const again = async (now = Date.now()) => {
    const [finding] = await lab.run(OUTGOING_PORT_25, {
      isFresh: false,
      world: { now: () => now },
    });
    return finding!.found;
  };
  await again();
  const whole = readFileSync(file, 'utf8');
  assert.match(await again(), / ago/);
  assert.doesNotMatch(await again(Date.now() - 5 * MINUTE_MS), / ago/);
  const damages = [
    whole.slice(0, -9),
    whole.replace('"green"', '"blue"'),
    '{"tried":[null,7]}',
    '',
  ];
  for (const text of damages) {
    writeFileSync(file, text);
    assert.doesNotMatch(await again(), / ago/);
  }
  const elsewhere = join(lab.dataDir, 'elsewhere');
  writeFileSync(elsewhere, whole);
  rmSync(file);
  symlinkSync(elsewhere, file);
  assert.doesNotMatch(await again(), / ago/);
  assert.equal(readFileSync(elsewhere, 'utf8'), whole, 'nothing is written through a link');
  rmSync(file);
  execFileSync('/usr/bin/mkfifo', [file]);
  assert.doesNotMatch(await again(), / ago/);
  assert.match(await again(), / ago/);
});

test('one run opens at most four connections for any number of addresses', async () => {
  const count = () => lab.gmail.connections + lab.yahoo.connections;
  const before = count();
  const ips = [1, 2, 3, 4, 5, 6].map((part) => `127.0.0.${part}`);
  const env = { LETTERHAUS_SOURCE_IPS: ips.join(',') };
  const findings = await lab.run(OUTGOING_PORT_25, { env });
  assert.equal(count() - before, 4);
  assertFinds(findings, 'unknown', /did not try 127\.0\.0\.5, 127\.0\.0\.6/, /^$/);
});

test('reverse DNS that is missing, unconfirmed, double, foreign or generic is reported', async () => {
  const missing = await withRecords([PTR, 'PTR', []], REVERSE_DNS);
  assertFinds(missing, 'red', /^127\.0\.0\.1 has no reverse DNS/, /Set the reverse DNS \(PTR\)/);
  const unconfirmed = await withRecords([PTR, 'PTR', ['gmail.receivers.test']], REVERSE_DNS);
  assertFinds(unconfirmed, 'red', /leads to 127\.0\.2\.1/, /Add the address 127\.0\.0\.1/);
  const double = await withRecords([PTR, 'PTR', [LAB_HOST, 'other.mx.test']], REVERSE_DNS);
  assertFinds(double, 'yellow', /has 2 names in reverse DNS/, /Keep only lab\.mx\.test/);
  const foreign = await withRecords([PTR, 'PTR', ['other.mx.test']], HELO_NAME);
  assertFinds(foreign, 'yellow', /EHLO gives lab\.mx\.test/, /LETTERHAUS_HOSTNAME=other\.mx\.test/);
  const env = { LETTERHAUS_HOSTNAME: 'ec2-192-0-2-7.compute.example.com' };
  const generic = await lab.run(HELO_NAME, { env });
  assertFinds(generic, 'yellow', /default name of a rented machine/, /your own domain/);
});

test('a listed address or name is red with the list and the way out of it', async () => {
  const zen = await withRecords(['1.0.0.127.zen.spamhaus.org', 'A', ['127.0.0.3']], BLOCK_LISTS);
  assertFinds(zen, 'red', /127\.0\.0\.1 is on Spamhaus CSS/, /check\.spamhaus\.org/);
  const spamcop = await withRecords(['1.0.0.127.bl.spamcop.net', 'A', ['127.0.0.2']], BLOCK_LISTS);
  assertFinds(spamcop, 'yellow', /is on SpamCop/, /spamcop\.net/);
  const entry = `${LAB_HOST}.dbl.spamhaus.org`;
  const dbl = await withRecords([entry, 'A', ['127.0.1.2']], BLOCK_LISTS_OF_NAMES);
  assertFinds(dbl, 'red', /lab\.mx\.test is on Spamhaus DBL/, /ask for removal/);
});

test('a list that refuses this resolver, or lacks its test entry, is unknown and never a listing', async () => {
  const record = ['2.0.0.127.zen.spamhaus.org', 'A', ['127.255.255.254']];
  const refused = await withRecords(record as [string, 'A', string[]], BLOCK_LISTS);
  assertFinds(refused, 'unknown', /does not answer public or shared resolvers/, /unbound/);
  const later = ['1.0.0.127.zen.spamhaus.org', 'A', ['127.255.255.255']];
  const often = await withRecords(later as [string, 'A', string[]], BLOCK_LISTS);
  assert.ok(often.every(({ level }) => level === 'unknown' || level === 'green'));
  const empty = await withRecords(['2.0.0.127.bl.spamcop.net', 'A', []], BLOCK_LISTS);
  assertFinds(empty, 'unknown', /does not list its own test entry/, /unbound/);
});

test('a resolver that is silent, slow, or fails for some names is reported', async () => {
  const silent = await lab.run(RESOLVER, { dnsServers: ['127.0.0.1:9'] });
  assertFinds(silent, 'red', /^No DNS server answers \(127\.0\.0\.1:9\)/, /LETTERHAUS_DNS_SERVERS/);
  lab.dns.setFailure('gmx.de', 'servfail');
  const partly = await lab.run(RESOLVER);
  lab.dns.setFailure('gmx.de', null);
  assertFinds(partly, 'yellow', /^1 of 5 look-ups failed/, /unbound/);
  let ms = 0;
  const world = { monotonicMs: () => (ms += 100) };
  assertFinds(await lab.run(RESOLVER, { world }), 'yellow', /^A look-up took \d+ ms/, /unbound/);
});

test('a resolver that invents answers is reported, with what it invented', async () => {
  const name = `letterhaus-${(0.5e12).toString(36)}.example.com`;
  const lying = await withRecords([name, 'A', ['10.9.8.7']], RESOLVER_HONESTY);
  assertFinds(lying, 'red', /invents answers .* is 10\.9\.8\.7/, /unbound/);
});

test('with a key of Spamhaus DQS its own zone answers, and no finding contains the key', async () => {
  const key = 'abcdefghij0123456789abcdef';
  const env = { LETTERHAUS_SPAMHAUS_KEY: key };
  const spamhaus = async () =>
    (await lab.run(BLOCK_LISTS, { env })).filter(({ found }) => found.includes('Spamhaus'));
  const unknownKey = await spamhaus();
  assertFinds(unknownKey, 'unknown', /does not know the key/, /Compare LETTERHAUS_SPAMHAUS_KEY/);
  const zone = `${key}.zen.dq.spamhaus.net`;
  lab.dns.set(`2.0.0.127.${zone}`, 'A', ['127.0.0.2']);
  lab.dns.set(`1.0.0.127.${zone}`, 'A', ['127.0.0.3']);
  const listed = await spamhaus();
  assertFinds(listed, 'red', /127\.0\.0\.1 is on Spamhaus CSS/, /ask for removal/);
  lab.dns.setFailure(`1.0.0.127.${zone}`, 'servfail');
  const failed = await spamhaus();
  assert.deepEqual(
    failed.map(({ level }) => level),
    ['unknown'],
  );
  assert.doesNotMatch(JSON.stringify([unknownKey, listed, failed]), /abcdefghij/);
});

test('a firewall that blocks DNS over TCP is reported', async () => {
  lab.dns.setFailure('gmail.com', 'reset');
  const findings = await lab.run(DNS_OVER_TCP);
  lab.dns.setFailure('gmail.com', null);
  assertFinds(findings, 'red', /does not answer over TCP/, /firewall/);
});

test('a resolver that does not validate DNSSEC is red when the service trusts it, else yellow', async () => {
  const plain: DoctorLab['env'] = { LETTERHAUS_DNS_TRUST_AD: undefined };
  const unused = await lab.run(DNSSEC, { env: plain });
  assertFinds(
    unused,
    'yellow',
    /LETTERHAUS_DNS_TRUST_AD is not set/,
    /^Set LETTERHAUS_DNS_TRUST_AD=1/,
  );
  lab.dns.setFailure('dnssec-failed.org', null);
  lab.dns.set('dnssec-failed.org', 'A', ['192.0.2.1']);
  const [trusting, careful] = [await lab.run(DNSSEC), await lab.run(DNSSEC, { env: plain })];
  lab.dns.setFailure('dnssec-failed.org', 'servfail');
  assertFinds(trusting, 'red', /does not validate DNSSEC/, /Unset LETTERHAUS_DNS_TRUST_AD/);
  assertFinds(careful, 'yellow', /does not validate DNSSEC/, /unbound/);
});
