/**
 * Checks codes of authenticator apps (RFC 6238): SHA-1, six digits and 30 seconds, which all apps support. Collisions
 * of SHA-1 do not weaken HMAC. Makes recovery codes for members who lose their app.
 */
import { createHash } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';

const PERIOD_S = 30;
const DIGITS = 6;
const SETTINGS = { algorithm: 'SHA1', digits: DIGITS, period: PERIOD_S };
/** As long as the hash (RFC 4226 §4). */
const SECRET_BYTES = 20;
/** Periods before and after the current one whose codes are valid: clocks differ, and people type slowly. */
const PERIODS_AROUND = 1;
const RECOVERY_CODES = 10;
const RECOVERY_BYTES = 10;

export function newSecret(): Buffer {
  return Buffer.from(new Secret({ size: SECRET_BYTES }).bytes);
}

/** Returns the text that a person types into the app, and the URL for a QR code or a link on a phone. */
export function describeSecret(
  secret: Buffer,
  { issuer, email }: { issuer: string; email: string },
) {
  const { base32 } = secretOf(secret);
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(email)}`;
  const query = `secret=${base32}&issuer=${encodeURIComponent(issuer)}`;
  return { secret: base32, url: `otpauth://totp/${label}?${query}` };
}

export function matchPeriod(secret: Buffer, code: string, nowS: number): number | null {
  const token = code.replaceAll(/\s/g, '');
  // The library throws when six characters are not six bytes.
  if (!/^[0-9]+$/.test(token)) return null;
  const timestamp = nowS * 1000;
  const window = PERIODS_AROUND;
  const delta = TOTP.validate({ ...SETTINGS, token, secret: secretOf(secret), timestamp, window });
  return delta === null ? null : TOTP.counter({ period: PERIOD_S, timestamp }) + delta;
}

function secretOf(bytes: Buffer): Secret {
  return new Secret({ buffer: Uint8Array.from(bytes).buffer });
}

export function newRecoveryCodes(): string[] {
  return Array.from({ length: RECOVERY_CODES }, () =>
    new Secret({ size: RECOVERY_BYTES }).base32.toLowerCase().replace(/.{4}(?=.)/g, '$&-'),
  );
}

/** Returns the hash to store. 80 random bits need no slow hash. */
export function hashRecoveryCode(code: string): Buffer {
  const plain = code.toLowerCase().replaceAll(/[\s-]/g, '');
  return createHash('sha256').update(plain).digest();
}
