/** Shows which TLS a mail server must offer, by the wishes of the sender, DANE, MTA-STS and the provider. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DnsResult, TlsaRecord } from '../dns/resolver.ts';
import type { StsPolicy } from './mta-sts.ts';
import { type DaneFinding, findDane, tlsRuleFor, type TlsRequirements } from './tls-rule.ts';

const RECORD: TlsaRecord = { usage: 3, selector: 1, matching: 1, dataHex: 'ab'.repeat(32) };
const USABLE: DaneFinding = {
  kind: 'usable',
  expected: { records: [RECORD], names: ['mx.a.test'], nowMs: 0 },
  key: 'one',
};
const UNSURE: DaneFinding = { kind: 'lookup_failed', message: 'SERVFAIL' };
const enforce: StsPolicy = { mode: 'enforce', mx: ['mx.a.test'], maxAgeS: 86_400 };
const testing: StsPolicy = { ...enforce, mode: 'testing' };

/** Returns `<mode> <policy>` of the rule. */
function rule(wishes: Partial<TlsRequirements>, host = 'mx.a.test'): string {
  const { mode, policy } = tlsRuleFor(host, {
    senderDemand: 'opportunistic',
    stsPolicy: null,
    dane: { kind: 'none' },
    ...wishes,
  });
  return `${mode} ${policy}`;
}

test('without a policy TLS is opportunistic', () => {
  assert.equal(rule({}), 'opportunistic none');
});

test('TLS enforced by the sender cannot be weakened by the receiver', () => {
  assert.equal(rule({ senderDemand: 'enforced' }), 'enforced enforced');
  assert.equal(rule({ senderDemand: 'enforced', stsPolicy: testing }), 'enforced enforced');
  assert.equal(rule({ senderDemand: 'enforced', dane: { kind: 'unusable' } }), 'enforced enforced');
});

test('a policy allows only the servers that it names', () => {
  assert.equal(rule({ stsPolicy: enforce }), 'enforced mta-sts');
  assert.equal(rule({ stsPolicy: enforce }, 'mx.b.test'), 'barred mta-sts');
  assert.equal(rule({ stsPolicy: testing }), 'opportunistic mta-sts-testing');
  assert.equal(rule({ stsPolicy: testing }, 'mx.b.test'), 'opportunistic mta-sts-testing');
});

test('DANE outranks MTA-STS, when it holds and when it fails', () => {
  for (const host of ['mx.a.test', 'mx.b.test']) {
    assert.equal(
      rule({ dane: USABLE, stsPolicy: enforce, senderDemand: 'enforced' }, host),
      'dane dane',
    );
    assert.equal(rule({ dane: UNSURE, stsPolicy: enforce }, host), 'barred dane');
  }
});

test('unusable TLSA records require TLS, and an MTA-STS policy still applies', () => {
  assert.equal(rule({ dane: { kind: 'unusable' } }), 'required dane');
  assert.equal(rule({ dane: { kind: 'unusable' }, stsPolicy: enforce }), 'enforced mta-sts');
});

test('no mail is sent in plain text to providers that refuse it', () => {
  assert.equal(rule({}, 'gmail-smtp-in.l.google.com'), 'required provider');
  assert.equal(rule({}, 'notgoogle.com'), 'opportunistic none');
});

test('TLSA records are looked up at the target of the CNAMEs, then at the name itself', async () => {
  const find = async (answers: Record<string, DnsResult<TlsaRecord>>) => {
    const asked: string[] = [];
    const resolver = {
      tlsa: async (name: string) => {
        asked.push(name);
        return answers[name] ?? { kind: 'nxdomain' as const };
      },
    };
    const host = { name: 'mx.a.test', preference: 1, addresses: ['192.0.2.1'] };
    const daneNames = ['real.b.test', 'mx.a.test'];
    const options = { resolver, port: 25, domain: 'a.test', nowMs: 0 };
    const { kind } = await findDane({ ...host, daneNames }, options);
    assert.equal((await findDane(host, options)).kind, 'none');
    return [kind, asked.map((name) => name.replace('_25._tcp.', ''))];
  };
  const records = { kind: 'records', records: [RECORD], authenticated: true } as const;
  const unsigned = { ...records, authenticated: false };
  const real = '_25._tcp.real.b.test';
  const own = '_25._tcp.mx.a.test';
  assert.deepEqual(await find({ [real]: records }), ['usable', ['real.b.test']]);
  assert.deepEqual(await find({ [own]: records }), ['usable', ['real.b.test', 'mx.a.test']]);
  assert.deepEqual(await find({ [real]: unsigned }), ['none', ['real.b.test', 'mx.a.test']]);
  assert.deepEqual(await find({ [real]: { kind: 'error', message: 'SERVFAIL' } }), [
    'lookup_failed',
    ['real.b.test'],
  ]);
});

test('a certificate may have the name of the TLSA records, of the domain, or of its CNAME target', async () => {
  const authority = { ...RECORD, usage: 2 };
  const answer = { kind: 'records', records: [authority], authenticated: true } as const;
  const resolver = { tlsa: async () => answer };
  const host = { name: 'mx.a.test', preference: 1, addresses: [], daneNames: ['mx.a.test'] };
  const options = { resolver, port: 25, domain: 'a.test', nowMs: 0 };
  const namesFor = async (daneAlias: object) => {
    const found = await findDane({ ...host, ...daneAlias }, options);
    return found.kind === 'usable' ? found.expected.names : [];
  };
  assert.deepEqual(await namesFor({}), ['mx.a.test', 'a.test']);
  const aliased = await namesFor({ daneAlias: 'b.test' });
  assert.deepEqual(aliased, ['mx.a.test', 'a.test', 'b.test']);
});

test('sessions under DANE-EE are shared by all domains of the server', async () => {
  const keyFor = async (usage: number, domain: string) => {
    const records = [{ ...RECORD, usage }];
    const resolver = {
      tlsa: async () => ({ kind: 'records', records, authenticated: true }) as const,
    };
    const host = { name: 'mx.a.test', preference: 1, addresses: [], daneNames: ['mx.a.test'] };
    const found = await findDane(host, { resolver, port: 25, domain, nowMs: 0 });
    return found.kind === 'usable' && found.key;
  };
  assert.equal(await keyFor(3, 'one.test'), await keyFor(3, 'two.test'));
  assert.notEqual(await keyFor(2, 'one.test'), await keyFor(2, 'two.test'));
  assert.notEqual(await keyFor(2, 'one.test'), await keyFor(3, 'one.test'));
});
