/** The text of an API key: its environment, its checksum and its hint. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { API_KEY_RANDOM_BYTES, keyHintOf, makeApiKey, parseApiKey } from './api-key.ts';

const randomness = fc.uint8Array({
  minLength: API_KEY_RANDOM_BYTES,
  maxLength: API_KEY_RANDOM_BYTES,
});

test('a key names its environment and can be parsed', () => {
  fc.assert(
    fc.property(randomness, fc.constantFrom('live', 'test'), (random, environment) => {
      const key = makeApiKey(environment, random);
      assert.match(key, /^lh_(live|test)_[0-9A-Za-z]{38}$/);
      assert.equal(parseApiKey(key), environment);
    }),
  );
});

test('a key with one character changed is refused by its checksum', () => {
  const key = makeApiKey('live', randomBytes(API_KEY_RANDOM_BYTES));
  fc.assert(
    fc.property(
      fc.nat(key.length - 1),
      fc.constantFrom('0', 'a', 'Z', '_', '-', 'é', ' '),
      (at, character) => {
        fc.pre(key[at] !== character);
        assert.equal(parseApiKey(key.slice(0, at) + character + key.slice(at + 1)), null);
      },
    ),
  );
});

test('a live key cannot be turned into a test key by its prefix', () => {
  const key = makeApiKey('live', randomBytes(API_KEY_RANDOM_BYTES));
  assert.equal(parseApiKey(key.replace('_live_', '_test_')), null);
});

// Python: zlib.crc32(b'lh_test_' + b'0' * 32) is 0x9f482f50, in base62 2uqjOi.
test('the checksum is the CRC32 of everything before it, in base62', () => {
  const key = makeApiKey('test', new Uint8Array(API_KEY_RANDOM_BYTES));
  assert.equal(key, `lh_test_${'0'.repeat(32)}2uqjOi`);
});

test('the hint has only the beginning of the key', () => {
  assert.equal(keyHintOf(`lh_test_AbCd${'0'.repeat(34)}`), 'lh_test_AbCd…');
});
