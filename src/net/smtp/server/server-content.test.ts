/** The reader of content is compared with a slow and simple one, for any split into packets. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { test } from 'node:test';
import { SmtpContentReader } from './server-content.ts';

type Outcome = { kind: string; content: string; rest: string; longestLine: number };

/** @param cuts offsets at which the bytes are cut into chunks */
function read(bytes: Buffer, cuts: readonly number[]): Outcome {
  const reader = new SmtpContentReader();
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length];
  at.sort((a, b) => a - b);
  let content = '';
  for (const [index, from] of at.slice(0, -1).entries()) {
    const result = reader.read(bytes.subarray(from, at[index + 1]));
    if (result.kind === 'bare') return { kind: 'bare', content: '', rest: '', longestLine: 0 };
    content += result.content?.toString('latin1') ?? '';
    if (result.kind !== 'end') continue;
    const rest = result.remainder.toString('latin1') + bytes.toString('latin1', at[index + 1]);
    return { kind: 'end', content, rest, longestLine: reader.longestLine };
  }
  return { kind: 'more', content: '', rest: '', longestLine: 0 };
}

/** A slow and simple reader, for comparison. */
function readPlainly(text: string): Outcome {
  const end = /(?:^|\r\n)\.\r\n/.exec(text);
  const upTo = end === null ? text : text.slice(0, end.index + end[0].length - 3);
  const whole = end === null ? text.replace(/\r$/, '') : upTo;
  if (/\r(?!\n)|(?<!\r)\n/.test(whole))
    return { kind: 'bare', content: '', rest: '', longestLine: 0 };
  if (end === null) return { kind: 'more', content: '', rest: '', longestLine: 0 };
  const lines = upTo.split('\r\n').map((line) => line.replace(/^\./, ''));
  const longestLine = Math.max(...lines.map((line) => line.length));
  const rest = text.slice(end.index + end[0].length);
  return { kind: 'end', content: lines.join('\r\n'), rest, longestLine };
}

const pieces = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom('\r\n', '.', '..', 'x', 'ab cd', '\r\n.', '') },
  { weight: 1, arbitrary: fc.constantFrom('\r', '\n', '\r\n.\r\n', '\n.\n', '\r\r\n', '\0') },
  { weight: 1, arbitrary: fc.integer({ min: 900, max: 1_100 }).map((count) => 'y'.repeat(count)) },
);
const texts = fc.array(pieces, { maxLength: 40 }).map((some) => some.join(''));

test('the result does not depend on how a message is split into chunks', () => {
  const cuts = fc.array(fc.nat(5_000), { maxLength: 20 });
  fc.assert(
    fc.property(texts, cuts, (text, where) => {
      assert.deepEqual(read(Buffer.from(text, 'latin1'), where), readPlainly(text));
    }),
    { numRuns: 2_000 },
  );
});

test('a message that is sent octet by octet has the same result', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const bytes = Buffer.from(text, 'latin1');
      assert.deepEqual(read(bytes, [...bytes.keys()]), readPlainly(text));
    }),
  );
});
