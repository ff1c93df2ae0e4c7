/** Signatures of webhooks, which the reference verifier of Standard Webhooks checks. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { SECRET_BYTES, formatSecret, signatureHeaders } from './signed-request.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

const secret = formatSecret(randomBytes(SECRET_BYTES));
const nowS = () => Math.floor(Date.now() / 1000);

test('the reference verifier accepts the signature of any body', () => {
  fc.assert(
    fc.property(fc.string({ unit: CHARACTER }), fc.uuid(), (text, id) => {
      const body = JSON.stringify({ text });
      const headers = signatureHeaders({ id, timestampS: nowS(), body }, [secret]);
      assert.deepEqual(new Webhook(secret).verify(body, headers), { text });
    }),
  );
});

test('the reference verifier refuses another body, another id and another secret', () => {
  const headers = signatureHeaders({ id: 'event', timestampS: nowS(), body: '{}' }, [secret]);
  const other = formatSecret(randomBytes(SECRET_BYTES));
  assert.throws(() => new Webhook(secret).verify('{ }', headers));
  assert.throws(() => new Webhook(secret).verify('{}', { ...headers, 'webhook-id': 'other' }));
  assert.throws(() => new Webhook(other).verify('{}', headers));
});

test('while a secret is being rotated, both verify', () => {
  const next = formatSecret(randomBytes(SECRET_BYTES));
  const headers = signatureHeaders({ id: 'e', timestampS: nowS(), body: '{}' }, [next, secret]);
  assert.deepEqual(new Webhook(secret).verify('{}', headers), {});
  assert.deepEqual(new Webhook(next).verify('{}', headers), {});
});

test('the header names of older verifiers have the same values', () => {
  const headers = signatureHeaders({ id: 'e', timestampS: 1_700_000_000, body: '{}' }, [secret]);
  assert.equal(headers['webhook-timestamp'], '1700000000');
  for (const name of ['id', 'timestamp', 'signature']) {
    assert.equal(headers[`svix-${name}`], headers[`webhook-${name}`]);
  }
});

test('a secret is whsec_ followed by the base64 of 32 bytes', () => {
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
});
