import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DnsAnswer, TlsaRecord } from '../dns/resolver.ts';
import type { StsPolicy } from './mta-sts.ts';
import { type DaneFinding, findDane, tlsRuleFor, type TlsWishes } from './policy.ts';

const RECORD: TlsaRecord = { usage: 3, selector: 1, matching: 1, dataHex: 'ab'.repeat(32) };
const USABLE: DaneFinding = {
  kind: 'usable',
  expected: { records: [RECORD], names: ['mx.a.test'], nowMs: 0 },
  key: 'one',
};
const UNSURE: DaneFinding = { kind: 'unsure', message: 'SERVFAIL' };
const enforce: StsPolicy = { mode: 'enforce', mx: ['mx.a.test'], maxAgeS: 86_400 };
const testing: StsPolicy = { ...enforce, mode: 'testing' };

/** `<mode> <policy>` of the rule. */
function rule(wishes: Partial<TlsWishes>, host = 'mx.a.test'): string {
  const { mode, policy } = tlsRuleFor(host, {
    demand: 'opportunistic',
    sts: null,
    dane: { kind: 'none' },
    ...wishes,
  });
  return `${mode} ${policy}`;
}

test('without any wish TLS is taken as it comes', () => {
  assert.equal(rule({}), 'opportunistic none');
});

test('the sender can demand proof, and a receiver cannot make that less', () => {
  assert.equal(rule({ demand: 'enforced' }), 'enforced enforced');
  assert.equal(rule({ demand: 'enforced', sts: testing }), 'enforced enforced');
  assert.equal(rule({ demand: 'enforced', dane: { kind: 'unusable' } }), 'enforced enforced');
});

test('a policy holds for the servers that it names, and bars all others', () => {
  assert.equal(rule({ sts: enforce }), 'enforced mta-sts');
  assert.equal(rule({ sts: enforce }, 'mx.b.test'), 'barred mta-sts');
  assert.equal(rule({ sts: testing }), 'opportunistic mta-sts-testing');
  assert.equal(rule({ sts: testing }, 'mx.b.test'), 'opportunistic mta-sts-testing');
});

test('DANE outranks MTA-STS, when it holds and when it fails', () => {
  for (const host of ['mx.a.test', 'mx.b.test']) {
    assert.equal(rule({ dane: USABLE, sts: enforce, demand: 'enforced' }, host), 'dane dane');
    assert.equal(rule({ dane: UNSURE, sts: enforce }, host), 'barred dane');
  }
});

test('records that cannot be checked demand TLS, and leave a policy in force', () => {
  assert.equal(rule({ dane: { kind: 'unusable' } }), 'required dane');
  assert.equal(rule({ dane: { kind: 'unusable' }, sts: enforce }), 'enforced mta-sts');
});

test('providers that take nothing in the clear are sent nothing in the clear', () => {
  assert.equal(rule({}, 'gmail-smtp-in.l.google.com'), 'required provider');
  assert.equal(rule({}, 'notgoogle.com'), 'opportunistic none');
});

test('TLSA records are looked for at the end of the CNAMEs, then at the name itself', async () => {
  const find = async (answers: Record<string, DnsAnswer<TlsaRecord>>) => {
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
    'unsure',
    ['real.b.test'],
  ]);
});

test('a certificate may carry the name of the records, of the domain, or where its CNAMEs end', async () => {
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

test('sessions under DANE-EE, which proves the server itself, are shared by its domains', async () => {
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
