/** Encoded text, decoded by a simple decoder in this file. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { base64Lines, base64Octets, encodeText, type Encoded } from './transfer-encoding.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

/** Text that is hard to encode: all kinds of line ends, spaces at line ends, dots, long lines. */
const text = fc
  .array(
    fc.oneof(
      {
        weight: 4,
        arbitrary: fc.constantFrom('\n', '\r\n', '\r', ' ', '  ', '\t', '.', '=', 'From '),
      },
      { weight: 3, arbitrary: fc.constantFrom('word', '--=_', 'é', '日本', '🚀', 'x'.repeat(74)) },
      { weight: 1, arbitrary: fc.string({ unit: CHARACTER, maxLength: 20 }) },
    ),
    { maxLength: 60 },
  )
  .map((parts) => parts.join('').toWellFormed());

/** A simple decoder, for comparison (RFC 2045 §6.7). */
function decoded({ encoding, body }: Encoded): string {
  const ascii = body.toString('latin1');
  if (encoding === 'base64') return Buffer.from(ascii, 'base64').toString();
  const octets = ascii
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1').toString();
}

/** The text with CRLF line ends, without one at the end. */
const canonical = (string: string) => string.replace(/\r\n?|\n/g, '\r\n').replace(/\r\n$/, '');

test('any text arrives, with CRLF line ends', () => {
  fc.assert(
    fc.property(text, (string) => {
      assert.equal(canonical(decoded(encodeText(string))), canonical(string));
    }),
    { numRuns: 5_000 },
  );
});

test('no line has a form that relays change', () => {
  fc.assert(
    fc.property(text, (string) => {
      const { body } = encodeText(string);
      const lines = body.toString('latin1').split('\r\n');
      assert.equal(lines.pop(), '');
      for (const line of lines) {
        assert.ok(line.length <= 76, line);
        assert.match(line, /^(?!\.|From )[\t\x20-\x7e]*(?<![ \t])$/);
        assert.doesNotMatch(line, /=_/);
      }
    }),
    { numRuns: 5_000 },
  );
});

test('the encoding is the smaller one, and never larger than base64 of the same text', () => {
  assert.equal(
    encodeText('<p>Viele Grüße aus der Innenstadt</p>\n'.repeat(9)).encoding,
    'quoted-printable',
  );
  assert.equal(encodeText('これはテストです。'.repeat(9)).encoding, 'base64');
  assert.equal(encodeText('='.repeat(999)).encoding, 'base64');
  assert.equal(encodeText('\n'.repeat(999)).encoding, 'base64');
  fc.assert(
    fc.property(text, (string) => {
      const octets = Buffer.byteLength(string.replace(/\r\n?|\n/g, '\r\n'));
      assert.ok(encodeText(string).body.length <= base64Octets(Math.max(1, octets)));
    }),
    { numRuns: 2_000 },
  );
});

test('an empty text is an empty line', () => {
  assert.equal(encodeText('').body.toString(), '\r\n');
});

test('Node decodes the base64, which has lines of 76 characters', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (octets) => {
      const body = base64Lines(Buffer.from(octets).toString('base64'));
      assert.equal(body.length, base64Octets(octets.length));
      assert.deepEqual(Buffer.from(body.toString('latin1'), 'base64'), Buffer.from(octets));
      assert.match(
        body.toString('latin1'),
        /^(?:[A-Za-z0-9+/]{76}\r\n)*(?:[A-Za-z0-9+/=]{1,76}\r\n)?$/,
      );
    }),
  );
});
