/** Messages of refused requests, as the API log shows them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusalInWords } from './refusal-words.ts';

test('a refusal that begins with its field reads as a sentence, and any other is as it was', () => {
  for (const [message, words] of [
    ['subject: is required', '“subject” is required'],
    ['[1].to[0]: must be an address', '“[1].to[0]” must be an address'],
    ['to: is required (and 1 more problem)', '“to” is required (and 1 more problem)'],
    ['to: "bob@" is not an address', 'to: "bob@" is not an address'],
    ['The domain is not verified: is its record there?', undefined],
  ] as const) {
    assert.equal(refusalInWords(message), words ?? message);
  }
});
