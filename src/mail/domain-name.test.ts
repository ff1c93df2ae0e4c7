import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isReservedDomain, parseDomain } from './domain-name.ts';

test('a domain is kept as A-labels in lower case', () => {
  const spellings: Record<string, string> = {
    'ACME.com': 'acme.com',
    'a.b': 'a.b',
    'mail-1.acme.co.uk': 'mail-1.acme.co.uk',
    'fa\u00df.de': 'xn--fa-hia.de',
    'M\u00dcNCHEN.de': 'xn--mnchen-3ya.de',
    'XN--MNCHEN-3YA.de': 'xn--mnchen-3ya.de',
    'mu\u0308nchen.de': 'xn--mnchen-3ya.de',
    '\u4f8b\u3048.jp': 'xn--r8jz45g.jp',
    'acme\u3002com': 'acme.com',
    '\u043f\u043e\u0447\u0442\u0430.\u0440\u0444': 'xn--80a1acny.xn--p1ai',
  };
  for (const [text, domain] of Object.entries(spellings)) {
    assert.equal(parseDomain(text), domain, text);
  }
});

test('what is no fully qualified domain name is refused', () => {
  const label64 = 'a'.repeat(64);
  const texts =
    ' .|localhost|a..b|.a.b|a.b.| a.b|a.b\n|a b.c|a_b.c|*.a.b|-a.com|a-.com|\ud800a.com|a.com\0|' +
    '1.2.3|1.2.3.4|127.1|a.0x1|acme.123|[1.2.3.4]|[::1]|a:25.com|\uff11.\uff12.\uff13|a%62.com|' +
    'user@a.com|a.com/x|\u2100.com|xn--.com|xn--zzzzzzz--.com|xn--acme-.com|xn--a.com|' +
    `|${label64}.com|${'a.'.repeat(126)}com`;
  for (const text of texts.split('|')) assert.equal(parseDomain(text), null, JSON.stringify(text));
});

test('a label that mixes scripts to look like another is refused, however it is written', () => {
  const cyrillicA = '\u0430';
  for (const text of [`${cyrillicA}pple.com`, 'xn--pple-43d.com', `m\u0430il.acme.com`]) {
    assert.equal(parseDomain(text), null, text);
  }
  const greekO = 'g\u03bfogle.com';
  assert.equal(parseDomain(greekO), null);
});

test('the mixtures that languages are written in are fine', () => {
  const names = ['\u65e5\u672c\u304b\u30ca-ab1.jp', '\ud55c\uad6d\u6f22abc.kr', 'caf\u00e9-24.fr'];
  for (const name of names) assert.match(parseDomain(name) ?? '', /^xn--/, name);
});

test('every domain is lower-case letters, digits and hyphens, and is its own spelling', () => {
  const labels = fc.array(fc.string({ unit: 'binary', maxLength: 6 }), { maxLength: 4 });
  const texts = fc.oneof(
    fc.string({ unit: 'binary' }),
    labels.map((parts) => parts.join('.')),
    fc.domain(),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const domain = parseDomain(text);
      if (domain === null) return;
      assert.match(domain, /^(?=.{1,253}$)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})+$/);
      assert.equal(parseDomain(domain), domain);
    }),
    { numRuns: 1_000 },
  );
});

test('names that belong to nobody are told from real ones', () => {
  for (const name of ['acme.test', 'a.b.invalid', 'x.example', 'a.localhost', 'example.com']) {
    assert.equal(isReservedDomain(name), true, name);
  }
  for (const name of ['acme.com', 'myexample.com', 'example.de', 'test.com', 'example.com.au']) {
    assert.equal(isReservedDomain(name), false, name);
  }
  assert.equal(isReservedDomain('sub.example.org'), true);
});
