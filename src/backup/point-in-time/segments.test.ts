/** Names and positions of WAL files, as PostgreSQL writes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lsnOf, positionOf, requireSegment, segmentAt, segmentName } from './segments.ts';

const shape = { system: '7', timeline: 1, segmentBytes: 16 * 1024 ** 2 };

test('positions give the names that PostgreSQL uses for WAL files', () => {
  const name = (lsn: string, of = shape) => segmentName(segmentAt(positionOf(lsn), of), of);
  assert.equal(name('0/2A000028'), '00000001000000000000002A');
  assert.equal(name('1/FF000000'), '0000000100000001000000FF');
  assert.equal(name('2/0'), '000000010000000200000000');
  assert.equal(
    name('1A/80000000', { ...shape, timeline: 31, segmentBytes: 2 ** 30 }),
    '0000001F0000001A00000002',
  );
  assert.equal(lsnOf(positionOf('1A/8000ABCD')), '1A/8000ABCD');
});

test('a WAL file of another position or another database is refused', () => {
  const segment = Buffer.alloc(shape.segmentBytes);
  segment.writeBigUInt64LE(0x2a000000n, 8);
  segment.writeBigUInt64LE(7n, 24);
  requireSegment(segment, 0x2an, shape);
  const refused = { name: 'BackupDamaged' };
  assert.throws(() => requireSegment(segment, 0x2bn, shape), refused);
  assert.throws(() => requireSegment(segment, 0x2an, { ...shape, system: '8' }), refused);
  assert.throws(() => requireSegment(segment.subarray(1), 0x2an, shape), refused);
});
