import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import { domainOf, parseMailbox } from './address.ts';
import { addressOf, authorOf } from './author.ts';
import { addressField, headerLine } from './header.ts';

test('of every From that Posthorn writes the author is read, whatever the name', () => {
  const names = fc.string({ unit: 'binary', minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(names, (text) => {
      const name =
        text
          .toWellFormed()
          .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]/g, '')
          .trim() || 'x';
      const { address } = parseMailbox('hello@acme.test')!;
      assert.equal(authorOf([addressField('From', [{ name, address }])]), address);
    }),
  );
});

test('what is read as one author, another reader takes for the same', async () => {
  const piece = fc.constantFrom(
    'a@acme.test',
    '<a@acme.test>',
    '<c@bank.test>',
    'c@bank.test',
    '"c@bank.test" ',
    '"c@bank.test"@acme.test',
    '"c"@acme.test',
    '"\\" <c@bank.test>"',
    'Name ',
    '(c@bank.test)',
    '=?utf-8?q?c=40bank.test?= ',
    ',',
    ';',
    ':',
    '"',
    '\\',
    '<',
    '>',
    ' ',
    '\r\n ',
    '\t',
    '\0',
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 6 }), async (pieces) => {
      const field = { name: 'From', value: pieces.join('') };
      const author = authorOf([field]);
      if (author === null) return;
      const { from } = await PostalMime.parse(`${headerLine(field)}\r\n`);
      const domain = from?.address?.slice(from.address.lastIndexOf('@') + 1).toLowerCase();
      assert.equal(domain, domainOf(author));
    }),
    { numRuns: 5_000 },
  );
});

test('no From, two, or several addresses in one are no author', () => {
  const field = (value: string, name = 'From') => ({ name, value });
  assert.equal(authorOf([]), null);
  assert.equal(authorOf([field('a@acme.test'), field('a@acme.test', 'FROM')]), null);
  assert.equal(authorOf([field('a@acme.test', 'fROM')]), 'a@acme.test');
  for (const value of [
    '',
    'a@acme.test, b@acme.test',
    'a: b@acme.test;',
    '"c@bank.test"@acme.test',
  ]) {
    assert.equal(addressOf(value), null, value);
  }
});

test('a domain that is mapped to another spelling is no author’s', () => {
  assert.equal(addressOf('A@ACME.test'), 'A@acme.test');
  assert.equal(addressOf('a@b\u00fccher.test'), 'a@xn--bcher-kva.test');
  for (const domain of ['ac\u00adme.test', '\uff41cme.test', 'acme\u3002test', 'acme.test\u00a0']) {
    assert.equal(addressOf(`a@${domain}`), null, domain);
    assert.equal(addressOf(`A <a@${domain}>`), null, domain);
  }
});

test('reading an author takes time in proportion to the field', () => {
  for (const long of ['"', '" ', '\\"', ' ', '\r\n ', 'a ', '<', '=?utf-8?q?a?= ']) {
    const started = performance.now();
    assert.equal(addressOf(long.repeat(1_000_000)), null);
    assert.ok(performance.now() - started < 5_000, long);
  }
});
