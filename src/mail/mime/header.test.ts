/** The only writer of header fields: any text arrives as it was, and none becomes a second field. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import PostalMime, { decodeWords } from 'postal-mime';
import { type Mailbox, parseMailbox } from '../address.ts';
import {
  addressField,
  ENCODED_WORD_OCTETS_MAX,
  encodedWords,
  headerField,
  headerLine,
  textField,
  withParameter,
} from './header.ts';
import { readDisposition } from './fields.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

const parse = (lines: string) => PostalMime.parse(`${lines}\r\n`);
const mailbox = (text: string): Mailbox => parseMailbox(text)!;

/** Asserts the limits of RFC 5322 §2.1.1 and §2.2.3 on the lines of a field. */
function assertWellFolded(line: string, columnsMax = 998): void {
  assert.match(line, /^[!-9;-~]+: (?:[^\r\n]*\r\n[ \t](?=[^\r\n]*[^\s]))*[^\r\n]*\r\n$/);
  for (const part of line.slice(0, -2).split('\r\n')) {
    assert.ok(Buffer.byteLength(part) <= columnsMax, `${part.length}: ${part}`);
  }
  const [first = ''] = line.split('\r\n');
  assert.match(first, /: \S/);
}

/** Any text of a subject, without control characters. */
const text = fc
  .oneof(
    fc.string({ unit: CHARACTER, minLength: 1, maxLength: 200 }),
    fc
      .array(
        fc.constantFrom(
          'word',
          ' ',
          '  ',
          '=?utf-8?q?x?=',
          'é',
          '日本',
          '🚀',
          '"',
          '\\',
          'x'.repeat(90),
        ),
      )
      .map((parts) => parts.join('')),
  )
  .map((string) => string.replace(/[\0-\x1f\x7f-\x9f]/g, '').toWellFormed())
  .filter((string) => string !== '');

test('any subject arrives unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(text, async (subject) => {
      const line = headerLine(textField('Subject', subject));
      assertWellFolded(line);
      assert.equal((await parse(line)).subject, subject);
    }),
    { numRuns: 500 },
  );
});

test('plain text stays readable and is folded where it has spaces', () => {
  const subject = 'The quick brown fox jumps over the lazy dog, and then does so once more, slowly';
  const line = headerLine(textField('Subject', subject));
  assertWellFolded(line, 76);
  assert.equal(line.replaceAll('\r\n ', ' '), `Subject: ${subject}\r\n`);
  assert.equal(headerLine(textField('Subject', 'Hi')), 'Subject: Hi\r\n');
});

test('text outside of ASCII is encoded in words of 75 octets on lines of 76', () => {
  for (const subject of [
    'Grüße '.repeat(40),
    '日本語'.repeat(60),
    '🚀'.repeat(99),
    'ü'.repeat(998),
  ]) {
    const line = headerLine(textField('Subject', subject));
    assertWellFolded(line, 76);
    for (const word of line.match(/=\?[^?]+\?.\?[^?]*\?=/g)!) {
      assert.ok(word.length <= 75);
      const [, encoding, encoded = ''] = /\?([BQ])\?(.*)\?=/.exec(word)!;
      // Each word has whole characters: half a character would decode to U+FFFD.
      const decoded =
        encoding === 'B'
          ? Buffer.from(encoded, 'base64').toString()
          : decodeURIComponent(encoded.replaceAll('_', '%20').replaceAll('=', '%'));
      assert.doesNotMatch(decoded, /\ufffd/);
    }
  }
});

test('western text is encoded readably, other text compactly', () => {
  assert.match(
    textField('Subject', 'Grüße aus der Kölner Innenstadt').value,
    /\?Q\?Gr=C3=BC=C3=9Fe_aus_der_K/,
  );
  assert.match(textField('Subject', '日本語の件名').value, /^=\?utf-8\?B\?/);
});

test('names and addresses arrive unchanged, none added', async () => {
  const names = fc.option(text.map((name) => name.trim() || 'x'));
  const list = fc.array(fc.tuple(names, fc.nat(9)), { minLength: 1, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(list, async (people) => {
      const mailboxes = people.map(([name, number]) => ({
        name,
        address: mailbox(`user${number}@acme.com`).address,
      }));
      const line = headerLine(addressField('To', mailboxes));
      assertWellFolded(line);
      const { to } = await parse(line);
      assert.deepEqual(
        to?.map(({ name, address }) => ({ name: name || null, address })),
        mailboxes,
      );
    }),
    { numRuns: 300 },
  );
});

test('a long list of addresses is folded between them, and never right after the name', () => {
  const list = Array.from({ length: 50 }, (_, index) =>
    mailbox(`Person ${index} <p${index}@acme.com>`),
  );
  assertWellFolded(headerLine(addressField('To', list)), 76);
  const longest = mailbox(
    `${'l'.repeat(64)}@${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(57)}.com`,
  );
  assertWellFolded(headerLine(addressField('Reply-To', [longest, longest])));
});

test('a long plain name stays readable', () => {
  const name = 'The Society for the Preservation of Very Long Names of Societies and Their Members';
  const { value } = addressField('From', [mailbox(`${name} <jo@acme.com>`)]);
  assert.equal(value.replaceAll('\r\n ', ' '), `${name} <jo@acme.com>`);
  const oneWord = addressField('From', [mailbox(`${'Donau'.repeat(30)} <jo@acme.com>`)]);
  assertWellFolded(headerLine(oneWord));
});

test('a name that looks encoded is encoded, so that it is not decoded', () => {
  const { value } = addressField('From', [mailbox('=?utf-8?Q?Evil?= <jo@acme.com>')]);
  assert.equal(value, '=?utf-8?B?PT91dGYtOD9RP0V2aWw/PQ==?= <jo@acme.com>');
});

test('a file name that looks encoded is written as RFC 2231, in which nothing is decoded', () => {
  const parameterText = (name: string) => withParameter('attachment', 'filename', name).join('');
  const name = "filename*=utf-8''%3D%3Futf-8%3Fq%3Fx%3F%3D.txt";
  assert.equal(parameterText('=?utf-8?q?x?=.txt'), `attachment; ${name}`);
  for (const file of ['=?x', 'a =?utf-8?B?w6Q=?=', `=?utf-8?q?${'x'.repeat(99)}?=`]) {
    assert.doesNotMatch(parameterText(file), /filename=|=\?/);
    assert.equal(readDisposition(parameterText(file)).parameters.get('filename'), file);
  }
  assert.equal(parameterText('a=b?.txt'), 'attachment; filename="a=b?.txt"');
});

test('an international local part is written in UTF-8, its name encoded', () => {
  const { value } = addressField('To', [mailbox('Jö <jö@müller.de>')]);
  assert.equal(value, '=?utf-8?B?SsO2?= <jö@xn--mller-kva.de>');
});

test('a string with a control character throws instead of becoming a header', () => {
  const address = mailbox('jo@acme.com').address;
  for (const control of ['\r\n', '\n', '\r', '\0', '\t', '\x7f', '\x85', '\x1b']) {
    const evil = `x${control}Bcc: evil@x.com`;
    assert.throws(() => textField('Subject', evil));
    assert.throws(() => textField('Subject', `ü${evil}`));
    assert.throws(() => textField(evil, 'x'));
    assert.throws(() => headerField('Message-ID', [evil]));
    assert.throws(() => headerField(evil, ['x']));
    assert.throws(() => addressField('To', [{ name: null, address: evil as typeof address }]));
    // Encoding makes a control character in a name harmless. mail/address.ts refuses such a name anyway.
    const named = addressField('To', [{ name: evil, address }]).value;
    assert.doesNotMatch(named, /[\0-\x1f\x7f-\x9f]/);
  }
});

test('a line longer than 998 octets throws', () => {
  assert.throws(() => headerField('List-Unsubscribe', [`<https://acme.com/${'x'.repeat(990)}>`]));
});

const anyWords = fc.oneof(
  fc.string({ unit: CHARACTER, minLength: 1 }),
  fc.string({ unit: fc.constantFrom('é', '日', '🚀', ' ', '=', '?', '_', 'a'), minLength: 1 }),
);

test('encoded words are decoded', () => {
  fc.assert(
    fc.property(anyWords, fc.integer({ min: -5, max: 75 }), (given, firstOctetsMax) => {
      const words = encodedWords(given, firstOctetsMax);
      assert.equal(decodeWords(words.join(' ')), given.toWellFormed());
    }),
    { numRuns: 2_000 },
  );
});

test('each encoded word has at most 75 octets and one or more whole characters', () => {
  fc.assert(
    fc.property(anyWords, fc.integer({ min: -5, max: 75 }), (given, firstOctetsMax) => {
      for (const [index, word] of encodedWords(given, firstOctetsMax).entries()) {
        assert.match(word, /^=\?utf-8\?[BQ]\?[!-<>@-~=]+\?=$/);
        assert.doesNotMatch(given.includes('\ufffd') ? '' : decodeWords(word), /\ufffd/);
        // A word has at least one character, even without enough space for it.
        const octetsMax = index === 0 ? Math.max(firstOctetsMax, 24) : ENCODED_WORD_OCTETS_MAX;
        assert.ok(word.length <= octetsMax, word);
      }
    }),
    { numRuns: 2_000 },
  );
});
