/**
 * Shows who the author of a message is. Another library reads each From as well, because two readings of one field are
 * an attack.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import { cpuMs } from '../../test/support/cpu.ts';
import {
  addressInAnyForm,
  unambiguousAddress,
  authorOf,
  readAddressList,
  readHeaderMailbox,
} from './address-fields.ts';
import { domainOf, formatMailbox, parseMailbox } from './address.ts';
import { addressField, headerLine } from './mime/header.ts';
import { CHARACTER } from '../../test/support/characters.ts';

test('the author of every From that Letterhaus writes is parsed, with any name', () => {
  const names = fc.string({ unit: CHARACTER, minLength: 1, maxLength: 300 });
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

test('a From that is parsed as one author is parsed the same by another library', async () => {
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
    '(<c@bank.test>)',
    '(bank.test)',
    '(=?utf-8?q?c=40bank.test?=)',
    '(Jo, at work)',
    ' (a (b) \\) c)',
    '(',
    ')',
    '@',
    'acme.test',
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

test('without From, or with several fields or addresses, there is no author', () => {
  const field = (value: string, name = 'From') => ({ name, value });
  assert.equal(authorOf([]), null);
  assert.equal(authorOf([field('a@acme.test'), field('a@acme.test', 'FROM')]), null);
  assert.equal(authorOf([field('a@acme.test', 'fROM')]), 'a@acme.test');
  for (const value of [
    '',
    'a@acme.test, b@acme.test',
    'a: b@acme.test;',
    '"c@bank.test"@acme.test',
    '"c<d"@acme.test',
    'Jo <"c>"@acme.test>',
  ]) {
    assert.equal(unambiguousAddress(value), null, value);
  }
});

/** The address and name in a From, and whether all parsers agree on them. */
const WITH_COMMENTS: Record<string, [string, 'clear' | 'unclear']> = {
  'hello@sender.dev (Cron Daemon)': ['Cron Daemon <hello@sender.dev>', 'clear'],
  '(Cron Daemon) hello@sender.dev': ['Cron Daemon <hello@sender.dev>', 'clear'],
  'hello@sender.dev(Jo, at work)': ['"Jo, at work" <hello@sender.dev>', 'clear'],
  'hello@sender.dev\r\n\t(Cron\r\n Daemon) (on web1)': [
    'Cron Daemon on web1 <hello@sender.dev>',
    'clear',
  ],
  'hello@sender.dev (=?utf-8?q?J=C3=B6?=)': ['Jö <hello@sender.dev>', 'clear'],
  'hello@sender.dev ()': ['hello@sender.dev', 'clear'],
  '<hello@sender.dev> (Cron)': ['Cron <hello@sender.dev>', 'clear'],
  'Jo (home) <hello@sender.dev> (x)': ['Jo <hello@sender.dev>', 'clear'],
  '"Doe, Jo" (home) <hello@sender.dev>': ['"Doe, Jo" <hello@sender.dev>', 'clear'],
  // RFC 5322, appendix A.5
  'Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>': [
    'Pete <pete@silly.test>',
    'unclear',
  ],
  'Chris <c@(Chris)public.example>': ['Chris <c@public.example>', 'unclear'],
  'hello@sender.dev (a (b) c)': ['"a (b) c" <hello@sender.dev>', 'unclear'],
  'hello@sender.dev (5" disk)': ['"5\\" disk" <hello@sender.dev>', 'unclear'],
  'hello @ sender.dev': ['hello@sender.dev', 'unclear'],
  'Jo < hello@sender.dev >': ['Jo <hello@sender.dev>', 'unclear'],
  '"Joe" Q. "Public" <hello@sender.dev>': ['Joe Q. Public <hello@sender.dev>', 'unclear'],
  '"a (b" <hello@sender.dev> (c)': ['"a (b" <hello@sender.dev>', 'unclear'],
  '"a(b"@sender.dev (c)': ['c <"a(b"@sender.dev>', 'unclear'],
};

test('comments and quoted phrases of an author are parsed, and disagreement of parsers is known', () => {
  for (const [value, [mailbox, how]] of Object.entries(WITH_COMMENTS)) {
    const read = readHeaderMailbox(value.replaceAll('\r\n', ''));
    assert.equal(read && formatMailbox(read), mailbox, value);
    assert.equal(addressInAnyForm(value), read?.address, value);
    assert.equal(unambiguousAddress(value), how === 'clear' ? read?.address : null, value);
    // All parsers agree on the rewritten field.
    assert.equal(authorOf([addressField('From', [read!])]), read?.address, value);
  }
});

test('a comment that hides another address, or that is not closed, has no author', () => {
  for (const value of [
    'a@acme.test (<c@bank.test>)',
    'a@acme.test (c@bank.test)',
    '(<c@bank.test>) a@acme.test',
    'a@acme.test (x (<c@bank.test>) y)',
    'a@acme.test (=?utf-8?q?=3Cc=40bank.test=3E?=)',
    'a@acme.test (=?utf-8?q?x=0D=0ABcc:c?=)',
    'a@acme.test (x\0)',
    'a@acme.test (x\u2028)',
    'a@acme.test (c).bank.test',
    'a@acme.test (',
    'a@acme.test )',
    'a@acme.test ((c)',
    'a@acme.test (c\\)',
    '(a@acme.test)',
    'a@acme.test (c), b@acme.test',
    'Staff (c): a@acme.test;',
    'a(c)b@acme.test',
    'a@ac(c)me.test',
  ]) {
    assert.equal(unambiguousAddress(value), null, value);
    assert.equal(addressInAnyForm(value), null, value);
  }
});

test('a domain that normalises to another spelling is refused as author', () => {
  assert.equal(unambiguousAddress('A@ACME.test'), 'A@acme.test');
  assert.equal(unambiguousAddress('a@b\u00fccher.test'), 'a@xn--bcher-kva.test');
  for (const domain of ['ac\u00adme.test', '\uff41cme.test', 'acme\u3002test', 'acme.test\u00a0']) {
    assert.equal(unambiguousAddress(`a@${domain}`), null, domain);
    assert.equal(unambiguousAddress(`A <a@${domain}>`), null, domain);
  }
});

test('parsing an author takes time proportional to the field', () => {
  for (const long of [
    '"',
    '" ',
    '\\"',
    ' ',
    '\r\n ',
    'a ',
    '<',
    '(',
    '()',
    '(\\',
    '"(',
    '=?utf-8?q?a?= ',
  ]) {
    const tookMs = cpuMs(() => assert.equal(addressInAnyForm(long.repeat(300_000)), null));
    assert.ok(tookMs < 5_000, `${long}: ${tookMs} ms`);
  }
});

const shown = (value: string) => readAddressList(value).map(formatMailbox);

test('addresses in the syntax of other software are parsed', () => {
  assert.deepEqual(shown('a@b.test, Jo <c@d.test>,"Ko, Kim" <e@f.test>'), [
    'a@b.test',
    'Jo <c@d.test>',
    '"Ko, Kim" <e@f.test>',
  ]);
  assert.deepEqual(shown('=?utf-8?q?J=C3=B6rg=2C_x?= <a@b.test>'), ['"Jörg, x" <a@b.test>']);
  assert.deepEqual(shown('a@b.test (Jo, at work), (x) c@d.test'), ['a@b.test', 'c@d.test']);
  assert.deepEqual(shown('Team: a@b.test, Jo <c@d.test>; , e@f.test'), [
    'a@b.test',
    'Jo <c@d.test>',
    'e@f.test',
  ]);
  assert.deepEqual(shown('<"a>b, c"@d.test>, "x<y;"@d.test, Jo <"\\""@f.test>'), [
    '"a>b, c"@d.test',
    '"x<y;"@d.test',
    'Jo <"\\""@f.test>',
  ]);
  assert.deepEqual(shown('undisclosed-recipients:;'), []);
  assert.deepEqual(shown('nonsense, a@b.test, , x@'), ['a@b.test']);
  assert.deepEqual(shown('"a\\"b" <a@b.test>'), ['"a\\"b" <a@b.test>']);
  assert.deepEqual(shown(''), []);
});

test('the displayed addresses of any field can be parsed again', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      ',',
      ';',
      ':',
      '"',
      '\\',
      '(',
      ')',
      '<',
      '>',
      'a@b.test',
      '=?utf-8?q?=00=22?=',
      ' ',
    ),
    fc.string({ unit: CHARACTER, maxLength: 8 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      for (const mailbox of readAddressList(pieces.join(''))) {
        assert.equal(parseMailbox(formatMailbox(mailbox))?.address, mailbox.address);
      }
    }),
    { numRuns: 1_000 },
  );
});

test('a long list is parsed quickly, and bounded', () => {
  assert.equal(readAddressList('a@b.test,'.repeat(100_000)).length, 1_000);
  // A pattern that searches for its end repeatedly would take minutes for some of these.
  for (const piece of ['(', '(\\', '"\\', '"', 'a:', 'a', '<', ')', '\\"', '" ']) {
    assert.deepEqual(readAddressList(piece.repeat(500_000)), [], piece);
  }
});
