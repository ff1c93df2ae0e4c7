/**
 * Tokens of links that show one email to anyone with the link, until a time. A token contains the time and a MAC. So
 * nothing is stored, and nobody can forge or prolong a link.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { ENVIRONMENTS, type Scope } from '../../core/scope.ts';
import { UUID_BYTES, uuidBytes, uuidText } from './uuid.ts';

/** The purpose of the secret, for SecretBox.derive. */
export const SHARE = 'share links';

export type SharedEmail = Scope & {
  emailId: string;
  /** Unix seconds. */
  expiresAtS: number;
};

const VERSION = 1;
const TIME_BYTES = 6;
const MAC_BYTES = 16;
const PLAIN_BYTES = 2 + 2 * UUID_BYTES + TIME_BYTES;

/** Returns a token of 75 characters in base64url. */
export function makeShareToken(shared: SharedEmail, secret: Buffer): string {
  const plain = Buffer.alloc(PLAIN_BYTES);
  plain[0] = VERSION;
  plain[1] = ENVIRONMENTS.indexOf(shared.environment);
  uuidBytes(shared.projectId).copy(plain, 2);
  uuidBytes(shared.emailId).copy(plain, 2 + UUID_BYTES);
  plain.writeUIntBE(shared.expiresAtS, 2 + 2 * UUID_BYTES, TIME_BYTES);
  return Buffer.concat([plain, macOf(plain, secret)]).toString('base64url');
}

/**
 * Returns the email that a token shares, even after its time; null when none of the secrets made the token.
 * @param secrets 32 bytes each, used for nothing else
 */
export function readShareToken(token: string, secrets: readonly Buffer[]): SharedEmail | null {
  const bytes = Buffer.from(token, 'base64url');
  // Each token has only one accepted form.
  if (bytes.length !== PLAIN_BYTES + MAC_BYTES || bytes.toString('base64url') !== token)
    return null;
  const plain = bytes.subarray(0, PLAIN_BYTES);
  const mac = bytes.subarray(PLAIN_BYTES);
  if (!secrets.some((secret) => timingSafeEqual(macOf(plain, secret), mac))) return null;
  const environment = ENVIRONMENTS[plain[1] ?? -1];
  if (plain[0] !== VERSION || environment === undefined) return null;
  return {
    environment,
    projectId: uuidText(plain.subarray(2, 2 + UUID_BYTES)),
    emailId: uuidText(plain.subarray(2 + UUID_BYTES, 2 + 2 * UUID_BYTES)),
    expiresAtS: plain.readUIntBE(2 + 2 * UUID_BYTES, TIME_BYTES),
  };
}

function macOf(plain: Buffer, secret: Buffer): Buffer {
  return createHmac('sha256', secret).update(plain).digest().subarray(0, MAC_BYTES);
}
