/** Shows which addresses match a pattern of an allow-list. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Address } from './address.ts';
import { matchesPattern, parseAddressPattern } from './address-patterns.ts';

test('a pattern is an address, a domain, or the subdomains of a domain', () => {
  for (const [text, form] of [
    ['Jo@Acme.COM', 'jo@acme.com'],
    ['"jo"@acme.com', 'jo@acme.com'],
    [' acme.com ', 'acme.com'],
    ['*.Acme.com', '*.acme.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['STRASSE@acme.com', 'strasse@acme.com'],
  ] as const) {
    assert.equal(parseAddressPattern(text), form, text);
  }
  const none = [
    '',
    '*',
    '*@acme.com.',
    'com',
    '*.com',
    'a*.acme.com',
    '@acme.com',
    'jo@',
    '*.*.com',
  ];
  for (const text of [...none, 'Jo <jo@acme.com>', 'a@b@c.com']) {
    assert.equal(parseAddressPattern(text), null, text);
  }
});

test('a domain does not match its subdomains, and subdomains do not match other names', () => {
  const matches = (pattern: string, address: string) =>
    matchesPattern([parseAddressPattern(pattern)!], address as Address);
  assert.ok(matches('acme.com', 'Anna@acme.com'));
  assert.ok(!matches('acme.com', 'anna@mail.acme.com'));
  assert.ok(!matches('acme.com', 'anna@notacme.com'));
  assert.ok(matches('*.acme.com', 'anna@a.b.acme.com'));
  assert.ok(!matches('*.acme.com', 'anna@acme.com'));
  assert.ok(!matches('*.acme.com', 'anna@notacme.com'));
  assert.ok(matches('jo@acme.com', '"Jo"@acme.com'));
  assert.ok(!matches('jo@acme.com', 'jo+x@acme.com'));
  assert.ok(!matches('acme.com', '"x@acme.com"@evil.test'));
});
