import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { decodeWords } from 'postal-mime';
import { ENCODED_WORD_OCTETS_MAX, encodedWords } from './encoded-word.ts';

const text = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1 }),
  fc.string({ unit: fc.constantFrom('é', '日', '🚀', ' ', '=', '?', '_', 'a'), minLength: 1 }),
);

test('encoded words are read as the text that they stand for', () => {
  fc.assert(
    fc.property(text, fc.integer({ min: -5, max: 75 }), (given, firstOctetsMax) => {
      const words = encodedWords(given, firstOctetsMax);
      assert.equal(decodeWords(words.join(' ')), given.toWellFormed());
    }),
    { numRuns: 2_000 },
  );
});

test('each has 75 octets at most, whole characters, and at least one', () => {
  fc.assert(
    fc.property(text, fc.integer({ min: -5, max: 75 }), (given, firstOctetsMax) => {
      for (const [index, word] of encodedWords(given, firstOctetsMax).entries()) {
        assert.match(word, /^=\?utf-8\?[BQ]\?[!-<>@-~=]+\?=$/);
        assert.doesNotMatch(given.includes('\ufffd') ? '' : decodeWords(word), /\ufffd/);
        // A word of one character is written also where there is no room for it.
        const octetsMax = index === 0 ? Math.max(firstOctetsMax, 24) : ENCODED_WORD_OCTETS_MAX;
        assert.ok(word.length <= octetsMax, word);
      }
    }),
    { numRuns: 2_000 },
  );
});
