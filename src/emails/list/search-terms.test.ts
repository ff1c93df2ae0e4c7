/** Shows that a text has the terms of each of its parts, and that projects have different ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { firstUuidAt, newId } from '../../database/ids.ts';
import { WEEK_MS } from '../../database/partitions.ts';
import { allTermsOf, termsOf, trigramsOf, TRIGRAMS_MAX, weekOf } from './search-terms.ts';

const scope = { projectId: newId(), environment: 'live', week: 2_970 } as const;

test('a text has all terms of each of its parts, in any case', () => {
  fc.assert(
    fc.property(
      fc.string({ maxLength: 60 }),
      fc.nat({ max: 60 }),
      fc.nat({ max: 60 }),
      (text, from, length) => {
        const part = text.slice(from, from + length);
        const all = new Set(allTermsOf(scope, [text]));
        for (const cased of [part, part.toUpperCase(), part.toLowerCase()]) {
          if (cased.toLowerCase() !== part.toLowerCase()) continue;
          assert.ok(termsOf(scope, trigramsOf([cased])).every((term) => all.has(term)));
        }
      },
    ),
  );
});

test('a part of less than three characters has no terms, and a long one has few', () => {
  assert.deepEqual(trigramsOf(['', 'a', 'ab']), []);
  assert.deepEqual(trigramsOf(['abc']), ['abc']);
  const long = Array.from({ length: 500 }, (_, index) => index.toString(36)).join('');
  assert.equal(trigramsOf([long]).length, TRIGRAMS_MAX);
});

test('terms of other projects, environments and weeks differ', () => {
  const own = new Set(allTermsOf(scope, ['fjordline.example']));
  const others = [
    { ...scope, projectId: newId() },
    { ...scope, environment: 'test' as const },
    { ...scope, week: 2_971 },
  ];
  for (const other of others) {
    assert.ok(allTermsOf(other, ['fjordline.example']).every((term) => !own.has(term)));
  }
});

test('capital sigma is found by both small ones', () => {
  const stored = new Set(allTermsOf(scope, ['ΟΔΟΣ 1']));
  for (const part of ['οδος', 'οδοσ', 'ΟΔΟΣ']) {
    assert.ok(termsOf(scope, trigramsOf([part])).every((term) => stored.has(term)));
  }
});

test('the week of an id is that of its time', () => {
  assert.equal(weekOf(firstUuidAt(2_970 * WEEK_MS - 1)), 2_969);
  assert.equal(weekOf(firstUuidAt(2_970 * WEEK_MS)), 2_970);
});
