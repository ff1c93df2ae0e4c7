/** A LiveSet is compared with a Set of JavaScript after random changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LiveSet } from './live-set.ts';

test('a LiveSet has the same items as a Set after any additions and deletions', () => {
  const steps = fc.array(fc.record({ isAdded: fc.boolean(), number: fc.nat(9) }));
  fc.assert(
    fc.property(steps, (taken) => {
      const objects = Array.from({ length: 10 }, (_, number) => ({ number }));
      const [items, set] = [new LiveSet<{ number: number }>(), new Set<{ number: number }>()];
      for (const { isAdded, number } of taken) {
        const item = objects[number]!;
        if (isAdded) {
          items.add(item);
          set.add(item);
        } else assert.equal(items.delete(item), set.delete(item));
        assert.equal(items.size, set.size);
        for (const one of objects) assert.equal(items.has(one), set.has(one));
        assert.deepEqual(new Set(items), set);
      }
    }),
  );
});

test('an item can be in several sets at a time', () => {
  const [some, others] = [new LiveSet<object>(), new LiveSet<object>()];
  const [one, two] = [{}, {}];
  some.add(one);
  others.add(two);
  others.add(one);
  some.delete(one);
  assert.deepEqual([some.has(one), others.has(one)], [false, true]);
});
