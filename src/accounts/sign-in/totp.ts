/**
 * Time-based codes (RFC 6238) as authenticator apps make them: SHA-1, six digits, 30 seconds. SHA-1 is what all
 * apps support; HMAC does not need its collision resistance. Also the codes for who has lost the app.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

const PERIOD_S = 30;
const DIGITS = 6;
/** RFC 4226 §4: as long as the hash. */
const SECRET_BYTES = 20;
/** Clocks differ, and people type while a code changes. */
const PERIODS_AROUND = 1;
const RECOVERY_CODES = 10;
const RECOVERY_BYTES = 10;

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648 §6, without padding. */
export function base32(bytes: Buffer): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return bits.replace(/.{1,5}/g, (part) => BASE32.charAt(Number.parseInt(part.padEnd(5, '0'), 2)));
}

export function newSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** For a QR code, and for a link on a telephone. */
export function otpauthUrl(secret: Buffer, { issuer, email }: { issuer: string; email: string }) {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(email)}`;
  return `otpauth://totp/${label}?secret=${base32(secret)}&issuer=${encodeURIComponent(issuer)}`;
}

/** The code of a period. RFC 4226 §5.3. */
export function codeOf(secret: Buffer, period: number, digits = DIGITS): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(period));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const number = mac.readUInt32BE(mac[mac.length - 1]! & 0x0f) & 0x7fffffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

/** The period around this time that the code belongs to; null: none. */
export function periodOf(secret: Buffer, code: string, nowS: number): number | null {
  const given = Buffer.from(code.replaceAll(/\s/g, ''));
  if (given.length !== DIGITS) return null;
  const now = Math.floor(nowS / PERIOD_S);
  for (let period = now - PERIODS_AROUND; period <= now + PERIODS_AROUND; period += 1) {
    if (timingSafeEqual(Buffer.from(codeOf(secret, period)), given)) return period;
  }
  return null;
}

export function newRecoveryCodes(): string[] {
  return Array.from({ length: RECOVERY_CODES }, () =>
    base32(randomBytes(RECOVERY_BYTES))
      .toLowerCase()
      .replace(/.{4}(?=.)/g, '$&-'),
  );
}

/** As it is stored; 80 random bits need no slow hash. */
export function hashRecoveryCode(code: string): Buffer {
  const plain = code.toLowerCase().replaceAll(/[\s-]/g, '');
  return createHash('sha256').update(plain).digest();
}
