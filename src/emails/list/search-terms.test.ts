/** Shows that a text has the terms of each of its parts, and that projects have different ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { newId } from '../../database/ids.ts';
import { allTermsOf, termsOf, TERMS_MAX } from './search-terms.ts';

const scope = { projectId: newId(), environment: 'live' } as const;

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
          assert.ok(termsOf(scope, [cased]).every((term) => all.has(term)));
        }
      },
    ),
  );
});

test('a part of less than three characters has no terms, and a long one has few', () => {
  assert.deepEqual(termsOf(scope, ['', 'a', 'ab']), []);
  assert.equal(termsOf(scope, ['abc']).length, 1);
  const long = Array.from({ length: 500 }, (_, index) => index.toString(36)).join('');
  assert.equal(termsOf(scope, [long]).length, TERMS_MAX);
});

test('terms of other projects and environments differ', () => {
  const own = new Set(allTermsOf(scope, ['fjordline.example']));
  const others = [
    { ...scope, projectId: newId() },
    { ...scope, environment: 'test' as const },
  ];
  for (const other of others) {
    assert.ok(allTermsOf(other, ['fjordline.example']).every((term) => !own.has(term)));
  }
});

test('capital sigma is found by both small ones', () => {
  const stored = new Set(allTermsOf(scope, ['ΟΔΟΣ 1']));
  for (const part of ['οδος', 'οδοσ', 'ΟΔΟΣ']) {
    assert.ok(termsOf(scope, [part]).every((term) => stored.has(term)));
  }
});
