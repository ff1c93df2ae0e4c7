/**
 * Codes and recovery codes, compared with the examples of RFC 4226 and RFC 6238. test/api/totp.test.ts signs in with
 * them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TOTP, URI } from 'otpauth';
import { describeSecret, hashRecoveryCode, newRecoveryCodes, matchPeriod } from './totp.ts';

/** RFC 4226, appendix D. */
const SECRET = Buffer.from('12345678901234567890');

test('codes match RFC 4226 and RFC 6238', () => {
  const codes = ['755224', '287082', '359152', '969429', '338314', '254676', '287922'];
  for (const [period, code] of codes.entries()) {
    assert.equal(matchPeriod(SECRET, code, period * 30), period);
  }
  for (const [timeS, code] of [
    [1_111_111_109, '081804'],
    [1_234_567_890, '005924'],
    [20_000_000_000, '353130'],
  ] as const) {
    assert.equal(matchPeriod(SECRET, code, timeS), Math.floor(timeS / 30));
  }
});

test('a code is accepted in its period and in the two beside it', () => {
  const at = (timeS: number) => matchPeriod(SECRET, '287 922', timeS);
  assert.deepEqual([150, 180, 209.9, 239.9].map(at), [6, 6, 6, 6]);
  assert.deepEqual([149.9, 240, 1_000].map(at), [null, null, null]);
  for (const wrong of ['', '28792', '2879221', 'abcdef', '٢٨٧٩٢٢']) {
    assert.equal(matchPeriod(SECRET, wrong, 180), null);
  }
});

test('an app reads the secret from its URL or as a person types it', () => {
  const email = 'jo@a.test';
  const { secret, url } = describeSecret(SECRET, { issuer: 'Letterhaus A & B', email });
  assert.equal(secret, 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ');
  const { issuer, label, secret: read, ...others } = URI.parse(url) as TOTP;
  assert.deepEqual([issuer, label, read.base32], ['Letterhaus A & B', email, secret]);
  assert.deepEqual([others.algorithm, others.digits, others.period], ['SHA1', 6, 30]);
});

test('recovery codes differ, and are accepted as people type them', () => {
  const codes = newRecoveryCodes();
  assert.equal(new Set(codes).size, 10);
  for (const code of codes) assert.match(code, /^[a-z2-7]{4}(-[a-z2-7]{4}){3}$/);
  const [code = ''] = codes;
  const written = ` ${code.replaceAll('-', ' ').toUpperCase()}`;
  assert.deepEqual(hashRecoveryCode(written), hashRecoveryCode(code));
});
