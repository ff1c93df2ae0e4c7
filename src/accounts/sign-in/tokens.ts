/** Random texts that give access to their bearer. Only their SHA-256 is stored. */
import { createHash, randomBytes } from 'node:crypto';

const BYTES = 32;
const FORM = /^[A-Za-z0-9_-]{43}$/;

export type Token = { text: string; sha256: Buffer };

export function makeToken(): Token {
  const text = randomBytes(BYTES).toString('base64url');
  return { text, sha256: hashToken(text) };
}

export function parseToken(text: string): Buffer | null {
  return FORM.test(text) ? hashToken(text) : null;
}

/** Tokens are random, so they need no slow hash. */
function hashToken(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
