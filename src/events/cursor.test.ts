/** Cursors survive the round trip through text, and values that may not reach the database are refused. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { BEGINNING, type StreamPoint } from './stream-store.ts';
import { cursorText, parseCursor } from './cursor.ts';

const SCOPE = { projectId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa', environment: 'live' } as const;
const OTHERS = [
  { ...SCOPE, environment: 'test' },
  { ...SCOPE, projectId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21ab' },
] as const;

const point: fc.Arbitrary<StreamPoint> = fc.record({
  epoch: fc.nat(0x7fff),
  xactId: fc.bigInt(0n, 2n ** 64n - 1n),
  subjectId: fc.uuid(),
  seq: fc.nat(0x7fffffff),
  eventId: fc.uuid(),
  history: fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String),
  asOfMs: fc.nat(2 ** 48 - 1),
});

test('a cursor is valid only in its project and environment', () => {
  assert.deepEqual(parseCursor(cursorText(BEGINNING, SCOPE), SCOPE), BEGINNING);
  fc.assert(
    fc.property(point, (one) => {
      const text = cursorText(one, SCOPE);
      assert.match(text, /^[\w-]{92}$/);
      assert.deepEqual(parseCursor(text, SCOPE), { ...one });
      for (const other of OTHERS) assert.equal(parseCursor(text, other), null);
    }),
  );
});

test('a shortened, changed or forged cursor is refused', () => {
  const text = cursorText({ ...BEGINNING, xactId: 77n }, SCOPE);
  for (let at = 0; at < text.length; at += 1) {
    const changed = text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
    assert.equal(parseCursor(changed, SCOPE), null, `character ${at}`);
    assert.equal(parseCursor(text.slice(0, at), SCOPE), null);
  }
  for (const more of [`${text}A`, `${text}=`, ` ${text}`, text.replace('A', '+')]) {
    assert.equal(parseCursor(more, SCOPE), null, more);
  }
  fc.assert(
    fc.property(fc.string({ maxLength: 120 }), (any) => {
      assert.equal(parseCursor(any, SCOPE), null);
    }),
  );
});

test('a cursor with numbers out of range is refused', () => {
  const body = Buffer.from(cursorText(BEGINNING, SCOPE), 'base64url').subarray(0, 61);
  const forged = (at: number): string => {
    const changed = Buffer.from(body);
    changed[at] = 0xff;
    const sum = createHash('sha256').update(
      `${SCOPE.projectId} ${SCOPE.environment} ${changed.toString('hex')}`,
    );
    return Buffer.concat([changed, sum.digest().subarray(0, 8)]).toString('base64url');
  };
  assert.notEqual(parseCursor(forged(17), SCOPE), null, 'the number of a transaction may be any');
  assert.equal(parseCursor(forged(15), SCOPE), null, 'an epoch');
  assert.equal(parseCursor(forged(41), SCOPE), null, 'a number within an email');
});
