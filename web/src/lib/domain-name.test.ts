/** Domains in the script that people read, unless they could be taken for another. */
import assert from 'node:assert/strict';
import { domainToASCII } from 'node:url';
import { test } from 'node:test';
import { inOwnScript } from './domain-name.ts';

const shown = (domain: string) => inOwnScript(domainToASCII(domain));

test('the dashboard shows a domain of one script in that script', () => {
  for (const domain of ['bücher.example', 'mail.例え.jp', '한국.kr', 'пример.рф', 'παράδειγμα.ελ'])
    assert.equal(shown(domain), domain);
  assert.equal(shown('acme.example'), 'acme.example');
});

test('the dashboard shows a domain that imitates another by its name in DNS', () => {
  // "apple" in Cyrillic letters, and "paypal" with one of them.
  for (const domain of ['аррӏе.com', 'pаypal.com', 'αβγ.com'])
    assert.equal(shown(domain), domainToASCII(domain));
});

test('the dashboard changes no label that is not an A-label', () => {
  const slash = `xn--acme.com${String.fromCodePoint(0x2044)}x`;
  for (const domain of ['xn--', 'xn--a-b-c-', 'xn--99999999.example', slash, '', '.'])
    assert.equal(inOwnScript(domain), domain);
  assert.match(inOwnScript('xn--acmecomx-yh5f.example'), /^xn--/);
});
