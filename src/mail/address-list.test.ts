import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatMailbox, parseMailbox } from './address.ts';
import { readAddressList } from './address-list.ts';

const shown = (value: string) => readAddressList(value).map(formatMailbox);

test('addresses of others are read as they write them', () => {
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
  assert.deepEqual(shown('undisclosed-recipients:;'), []);
  assert.deepEqual(shown('nonsense, a@b.test, , x@'), ['a@b.test']);
  assert.deepEqual(shown('"a\\"b" <a@b.test>'), ['"a\\"b" <a@b.test>']);
  assert.deepEqual(shown(''), []);
});

test('whatever stands there, what is shown can be read again', () => {
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
    fc.string({ unit: 'binary', maxLength: 8 }),
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

test('a long list is read in no time to speak of, and bounded', () => {
  assert.equal(readAddressList('a@b.test,'.repeat(100_000)).length, 1_000);
  // A pattern that looks for its end again and again would take minutes for some of these.
  for (const piece of ['(', '(\\', '"\\', '"', 'a:', 'a', '<', ')', '\\"', '" ']) {
    assert.deepEqual(readAddressList(piece.repeat(500_000)), [], piece);
  }
});
