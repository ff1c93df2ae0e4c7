import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Members } from './live-set.ts';

test('has the same members as a Set after any additions and deletions', () => {
  const steps = fc.array(fc.record({ isAdded: fc.boolean(), number: fc.nat(9) }));
  fc.assert(
    fc.property(steps, (taken) => {
      const items = Array.from({ length: 10 }, (_, number) => ({ number }));
      const [members, set] = [new Members<{ number: number }>(), new Set<{ number: number }>()];
      for (const { isAdded, number } of taken) {
        const item = items[number]!;
        if (isAdded) {
          members.add(item);
          set.add(item);
        } else assert.equal(members.delete(item), set.delete(item));
        assert.equal(members.size, set.size);
        for (const one of items) assert.equal(members.has(one), set.has(one));
        assert.deepEqual(new Set(members), set);
      }
    }),
  );
});

test('an item is a member of several at a time', () => {
  const [some, others] = [new Members<object>(), new Members<object>()];
  const [one, two] = [{}, {}];
  some.add(one);
  others.add(two);
  others.add(one);
  some.delete(one);
  assert.deepEqual([some.has(one), others.has(one)], [false, true]);
});
