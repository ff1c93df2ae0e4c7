/** Files that Resend's clients send as arrays of numbers, before the JSON is parsed: any JSON keeps its meaning. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { packByteArrays } from './byte-arrays.ts';

const packed = (text: string): string => packByteArrays(Buffer.from(text)).toString();
const long = Array.from({ length: 2_000 }, (_, index) => index % 256);
const base64 = Buffer.from(long).toString('base64');

test('a long array of bytes after content or data becomes base64', () => {
  for (const indent of [0, 2]) {
    const body = { attachments: [{ content: long, filename: 'a' }, { content: { data: long } }] };
    const expected = {
      attachments: [{ content: base64, filename: 'a' }, { content: { data: base64 } }],
    };
    assert.deepEqual(JSON.parse(packed(JSON.stringify(body, null, indent))), expected);
  }
});

test('everything else stays byte for byte', () => {
  const short = JSON.stringify({ content: [1, 2, 3] });
  const otherName = JSON.stringify({ items: long, text: '"content":[1,2' });
  const words = JSON.stringify({ content: long.map((byte) => (byte === 7 ? 'a' : byte)) });
  const tooBig = JSON.stringify({ content: [...long, 256] });
  const fraction = JSON.stringify({ content: [...long, 0.5] });
  for (const text of [short, otherName, words, tooBig, fraction, '', '{', '"content":[1,']) {
    assert.equal(packed(text), text);
  }
  const malformed = `{"content":[${'1 2,'.repeat(2_000)}3]}`;
  assert.equal(packed(malformed), malformed);
});

test('packing byte arrays never changes the meaning of JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (json) => {
      const text = JSON.stringify({ content: long, rest: json });
      assert.deepEqual(JSON.parse(packed(text)), {
        content: base64,
        rest: JSON.parse(JSON.stringify(json)),
      });
    }),
    { numRuns: 300 },
  );
});

test('hostile nesting costs time in proportion to its length', () => {
  const hostile = Buffer.from('"content":[1,'.repeat(200_000));
  assert.equal(packByteArrays(hostile), hostile);
  const open = Buffer.from(`"content":[${'1,'.repeat(2_000_000)}`);
  assert.equal(packByteArrays(open), open);
});
