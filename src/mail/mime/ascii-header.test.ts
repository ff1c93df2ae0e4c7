/** Submitted headers in UTF-8, rewritten for servers without SMTPUTF8. */
import assert from 'node:assert/strict';
import { isAscii } from 'node:buffer';
import { test } from 'node:test';
import { withAsciiHeader } from './ascii-header.ts';
import { decodedFieldValue, readHeader } from './reader.ts';

const BODY = 'Gr\u00fc\u00dfe\r\n';
const message = (...fields: string[]) =>
  Buffer.from(`${['Date: today', ...fields].join('\r\n')}\r\n\r\n${BODY}`);

test('a submitted header is rewritten in ASCII and shows the same', () => {
  const raw = message(
    'From: J\u00fcrgen <hello@acme.test>',
    'To: kim@dest.test,\r\n "M\u00fcller, J\u00f6rg" <j\u00f6rg@dest.test>',
    'Cc: \u00f6laf@dest.test',
    'Reply-To: hello@acme.test',
    'Subject: Gr\u00fc\u00dfe =?utf-8?q?aus_K=C3=B6ln?=',
    'X-Note: \u20ac',
    'Content-Description: \u00fc',
  );
  const ascii = withAsciiHeader(raw);
  assert.ok(ascii !== null);
  const { fields, bodyStart } = readHeader(ascii);
  assert.ok(isAscii(ascii.subarray(0, bodyStart)));
  assert.equal(ascii.subarray(bodyStart).toString(), BODY);
  const shown = (name: string) => decodedFieldValue(fields, name);
  assert.equal(shown('from'), 'J\u00fcrgen <hello@acme.test>');
  assert.equal(shown('to'), 'kim@dest.test, M\u00fcller, J\u00f6rg <j\u00f6rg@dest.test> :;');
  assert.equal(shown('cc'), '\u00f6laf@dest.test :;');
  assert.equal(shown('subject'), 'Gr\u00fc\u00dfe aus K\u00f6ln');
  assert.equal(shown('x-note'), '\u20ac');
  assert.equal(shown('content-description'), '\u00fc');
  assert.ok(ascii.toString().startsWith('Date: today\r\nFrom: '));
});

test('a header with an author, an id or octets that ASCII cannot express is not rewritten', () => {
  for (const field of [
    'From: j\u00fcrgen@acme.test',
    'Reply-To: j\u00fcrgen@acme.test',
    'Message-ID: <j\u00fcrgen@acme.test>',
    'To: \u00fc',
    'X-\u00fc: a',
    'Subject: \u0085',
  ]) {
    assert.equal(withAsciiHeader(message(field)), null, field);
  }
  const latin1 = Buffer.from('Subject: \u00fc\r\n\r\n', 'latin1');
  assert.equal(withAsciiHeader(latin1), null);
});
