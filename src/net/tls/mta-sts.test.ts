import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseStsPolicy, policyNames, readStsRecord, type StsPolicy } from './mta-sts.ts';

const lines = (...all: string[]): string => all.join('\r\n');

test('exactly one STSv1 record with one id counts', () => {
  const id = (...texts: string[]) => readStsRecord(texts);
  assert.deepEqual(id('v=STSv1; id=20160831085700Z;'), { kind: 'id', id: '20160831085700Z' });
  assert.deepEqual(id('v=STSv1;id=1', 'google-site-verification=x'), { kind: 'id', id: '1' });
  assert.deepEqual(id('v=STSv1; id=2; later=thing'), { kind: 'id', id: '2' });
  for (const texts of [
    [],
    ['v=STSv1; id=1', 'v=STSv1; id=2'],
    ['v=STSv1; id=1; id=1'],
    ['v=STSv1'],
    ['v=STSv1; id='],
    ['v=STSv1; id=a-b'],
    [`v=STSv1; id=${'1'.repeat(33)}`],
    ['v=STSv2; id=1'],
    ['id=1; v=STSv1'],
    ['v=STSv1; id=1; nonsense'],
    ['v=STSv1; id=1 2'],
    Array.from({ length: 5_000 }, () => 'v=STSv1; id=1'),
  ]) {
    assert.deepEqual(readStsRecord(texts), { kind: 'none' }, `${texts[0]}`);
  }
});

test('a policy is read as the RFC writes it', () => {
  const body = lines(
    'version: STSv1',
    'mode: enforce',
    'mx: mail.example.com',
    'mx: *.Example.net',
    'max_age: 604800',
    'comment: not known here',
    '',
  );
  assert.deepEqual(parseStsPolicy(body), {
    policy: { mode: 'enforce', mx: ['mail.example.com', '*.example.net'], maxAgeS: 604_800 },
  });
  assert.deepEqual(parseStsPolicy(body.replaceAll('\r\n', '\n')), parseStsPolicy(body));
  assert.deepEqual(parseStsPolicy(body.replace('mode: e', 'Mode:E')), parseStsPolicy(body));
  assert.deepEqual(parseStsPolicy('version: STSv1\nmode: none\nmax_age: 86400\n'), {
    policy: { mode: 'none', mx: [], maxAgeS: 86_400 },
  });
});

test('of a key that is there twice the first counts, and an age beyond a year is a year', () => {
  const parsed = parseStsPolicy(
    lines('version: STSv1', 'mode: testing', 'mode: none', 'mx: a.test', 'max_age: 9999999999'),
  );
  assert.deepEqual(parsed, { policy: { mode: 'testing', mx: ['a.test'], maxAgeS: 31_557_600 } });
});

test('what is not a policy counts as none', () => {
  const good = ['version: STSv1', 'mode: enforce', 'mx: mail.example.com', 'max_age: 86400'];
  const without = (key: string) => lines(...good.filter((line) => !line.startsWith(key)));
  for (const body of [
    '',
    '<!doctype html><title>Not found</title>',
    without('version'),
    without('mode'),
    without('mx'),
    without('max_age'),
    `${without('version')}\r\nversion: STSv2`,
    `${without('mode')}\r\nmode: Enforce!`,
    `${without('max_age')}\r\nmax_age: -1`,
    `${without('max_age')}\r\nmax_age: 1e9`,
    `${without('mx')}\r\nmx: *`,
    `${without('mx')}\r\nmx: a.*.example.com`,
    `${without('mx')}\r\nmx: mail_example com`,
    `${lines(...good)}\r\nnot a line`,
    `${lines(...good)}\r\n${'mx: a.test\r\n'.repeat(201)}`,
    '\0'.repeat(65_536),
    'a: '.repeat(20_000),
  ]) {
    assert.ok('problem' in parseStsPolicy(body), body.slice(0, 80));
  }
});

test('a wildcard stands for one leftmost label', () => {
  const policy: StsPolicy = { mode: 'enforce', mx: ['mx.a.test', '*.b.test'], maxAgeS: 1 };
  const named = (host: string) => policyNames(policy, host);
  assert.ok(named('mx.a.test') && named('MX.A.test.') && named('one.b.test'));
  for (const host of [
    'mx2.a.test',
    'a.test',
    'b.test',
    'one.two.b.test',
    'oneb.test',
    'test',
    '',
  ]) {
    assert.ok(!named(host), host);
  }
});

test('a policy with lines of blanks is read in time that grows with its length only', () => {
  // A pattern that looks for the last of them from each took seconds for the 64 KB of a policy.
  const policy = `version: STSv1\nmode: none${' '.repeat(64_000)}x\nmax_age: 86400\n`;
  const start = performance.now();
  assert.ok('problem' in parseStsPolicy(policy));
  assert.ok(performance.now() - start < 500);
});
