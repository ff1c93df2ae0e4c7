import assert from 'node:assert/strict';
import { test } from 'node:test';
import { base32, codeOf, hashRecoveryCode, newRecoveryCodes, periodOf } from './totp.ts';

/** RFC 6238, appendix B, and RFC 4226, appendix D. */
const SECRET = Buffer.from('12345678901234567890');

test('codes are those of RFC 6238', () => {
  for (const [timeS, code] of [
    [59, '94287082'],
    [1_111_111_109, '07081804'],
    [1_111_111_111, '14050471'],
    [1_234_567_890, '89005924'],
    [2_000_000_000, '69279037'],
    [20_000_000_000, '65353130'],
  ] as const) {
    assert.equal(codeOf(SECRET, Math.floor(timeS / 30), 8), code);
  }
});

test('codes are those of RFC 4226', () => {
  const codes = ['755224', '287082', '359152', '969429', '338314', '254676', '287922'];
  for (const [period, code] of codes.entries()) assert.equal(codeOf(SECRET, period), code);
});

test('a code is taken in its period and in those beside it', () => {
  const at = (timeS: number) => periodOf(SECRET, '287 922', timeS);
  assert.deepEqual([150, 180, 209.9, 239.9].map(at), [6, 6, 6, 6]);
  assert.deepEqual([149.9, 240, 1_000].map(at), [null, null, null]);
  for (const wrong of ['', '28792', '2879221', 'abcdef', '٢٨٧٩٢٢']) {
    assert.equal(periodOf(SECRET, wrong, 180), null);
  }
});

test('secrets are written as RFC 4648 has it', () => {
  for (const [text, encoded] of [
    ['', ''],
    ['f', 'MY'],
    ['fo', 'MZXQ'],
    ['foo', 'MZXW6'],
    ['foob', 'MZXW6YQ'],
    ['fooba', 'MZXW6YTB'],
    ['foobar', 'MZXW6YTBOI'],
  ] as const) {
    assert.equal(base32(Buffer.from(text)), encoded);
  }
});

test('recovery codes differ, and are read as people write them', () => {
  const codes = newRecoveryCodes();
  assert.equal(new Set(codes).size, 10);
  for (const code of codes) assert.match(code, /^[a-z2-7]{4}(-[a-z2-7]{4}){3}$/);
  const [code = ''] = codes;
  const written = ` ${code.replaceAll('-', ' ').toUpperCase()}`;
  assert.deepEqual(hashRecoveryCode(written), hashRecoveryCode(code));
});
