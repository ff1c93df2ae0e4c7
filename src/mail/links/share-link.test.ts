/** Tokens of shared links cannot be forged. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { makeShareToken, readShareToken } from './share-link.ts';

const secret = Buffer.alloc(32, 1);
const older = Buffer.alloc(32, 2);

const shared = fc.record(
  {
    projectId: fc.uuid(),
    emailId: fc.uuid(),
    environment: fc.constantFrom('live' as const, 'test' as const),
    expiresAtS: fc.nat(2 ** 32),
  },
  { noNullPrototype: true },
);

test('a token returns its email, also after the secret has changed', () => {
  fc.assert(
    fc.property(shared, (email) => {
      assert.deepEqual(readShareToken(makeShareToken(email, older), [secret, older]), email);
      assert.equal(readShareToken(makeShareToken(email, older), [secret]), null);
    }),
  );
});

test('a changed token is invalid', () => {
  fc.assert(
    fc.property(shared, fc.nat(), fc.integer({ min: 1, max: 255 }), (email, place, change) => {
      const bytes = Buffer.from(makeShareToken(email, secret), 'base64url');
      const at = place % bytes.length;
      bytes[at] = bytes[at]! ^ change;
      assert.equal(readShareToken(bytes.toString('base64url'), [secret]), null);
    }),
  );
});

test('any other text is invalid', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
      assert.equal(readShareToken(text, [secret]), null);
    }),
  );
});
