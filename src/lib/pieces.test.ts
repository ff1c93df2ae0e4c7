/** Bodies of many small pieces, and the memory that they take after a garbage collection. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Pieces } from './pieces.ts';
import { MIB } from './units.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes of live objects, measured after a garbage collection. */
function usedBytes(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test('the result has all pieces in order', () => {
  const pieces = new Pieces();
  const sizes = [3, 1, 0, 20_000, 1, 8_191, 60_000, 70_000, 5, 8_192, 7];
  const expected = sizes.map((size, index) => Buffer.alloc(size, 97 + index));
  for (const piece of expected) pieces.add(piece);
  assert.equal(
    pieces.bytes,
    sizes.reduce((sum, size) => sum + size, 0),
  );
  assert.deepEqual(pieces.take(), Buffer.concat(expected));
  assert.equal(pieces.take().length, 0);
});

test('small pieces of more than a block keep their order', () => {
  const pieces = new Pieces();
  const expected = Buffer.alloc(200_003, 'abcdefghijk');
  for (let at = 0; at < expected.length; at += 101) pieces.add(expected.subarray(at, at + 101));
  assert.ok(pieces.take().equals(expected));
});

test('a body of one byte at a time takes the memory of its bytes', () => {
  const pieces = new Pieces();
  const before = usedBytes();
  const read = Buffer.alloc(MIB, 'x');
  for (let at = 0; at < read.length; at += 1) pieces.add(read.subarray(at, at + 1));
  assert.ok(usedBytes() - before < 4 * MIB);
  assert.ok(pieces.take().equals(read));
});

test('many unfinished bodies take little memory', () => {
  const before = usedBytes();
  const begun = Array.from({ length: 1_000 }, () => {
    const pieces = new Pieces();
    pieces.add(Buffer.from('{'));
    pieces.add(Buffer.from(' '));
    return pieces;
  });
  assert.ok(usedBytes() - before < 3 * MIB);
  assert.ok(begun.every(({ bytes }) => bytes === 2));
});
