/** Shows which requests under one idempotency key count as the same request. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { fingerprintOf, isIdempotencyKey } from './fingerprint.ts';

const ENDPOINT = 'POST /v1/emails';

/** The same value with the members of every object in the opposite order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).toReversed();
  return Object.fromEntries(entries.map(([name, inner]) => [name, reversed(inner)]));
}

test('the order of fields does not change the fingerprint', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (body) => {
      assert.equal(fingerprintOf(ENDPOINT, body), fingerprintOf(ENDPOINT, reversed(body)));
    }),
  );
});

test('another value, another order in an array or another endpoint changes the fingerprint', () => {
  const body = { to: ['a@b.co', 'c@d.co'], subject: 'Hi' };
  const fingerprints = [
    fingerprintOf(ENDPOINT, body),
    fingerprintOf(ENDPOINT, { ...body, subject: 'hi' }),
    fingerprintOf(ENDPOINT, { ...body, to: body.to.toReversed() }),
    fingerprintOf(ENDPOINT, { ...body, html: null }),
    fingerprintOf('POST /v1/emails/batch', body),
  ];
  assert.equal(new Set(fingerprints).size, fingerprints.length);
  for (const fingerprint of fingerprints) assert.match(fingerprint, /^[0-9a-f]{64}$/);
});

test('an idempotency key is 1 to 256 printable ASCII characters', () => {
  for (const good of ['a', 'order 42 / "x"', '~'.repeat(256)]) {
    assert.equal(isIdempotencyKey(good), true, good);
  }
  for (const bad of ['', 'a'.repeat(257), 'tab\there', 'é', 'line\n', '\u007f']) {
    assert.equal(isIdempotencyKey(bad), false, bad);
  }
});
