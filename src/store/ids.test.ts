import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isId, newId } from './ids.ts';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test('ids sort in the order in which they were made, however many a millisecond makes', () => {
  const ids = Array.from({ length: 50_000 }, newId);
  assert.deepEqual(ids.toSorted(), ids);
  assert.equal(new Set(ids).size, ids.length);
});

test('an id is a UUIDv7 with the present time in it', () => {
  const before = Date.now();
  const id = newId();
  assert.match(id, UUID_V7);
  const ms = Number.parseInt(id.slice(0, 13).replace('-', ''), 16);
  // The ids of the test before may have run ahead of the clock by what they counted.
  assert.ok(ms >= before && ms <= Date.now() + 100);
});

test('what is not written like an id is none', () => {
  assert.equal(isId(newId()), true);
  for (const text of ['', 'x', newId().toUpperCase(), `${newId()}0`])
    assert.equal(isId(text), false);
});
