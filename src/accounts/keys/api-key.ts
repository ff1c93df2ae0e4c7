/**
 * The text of an API key: `lh_live_` or `lh_test_`, 32 random base62 characters (190 bits), and 6 with the
 * CRC32 of everything before them. The prefix lets scanners find leaked keys; the checksum detects a typo
 * without a look-up. Only the key's SHA-256 is stored (accounts/keys/key-store.ts).
 */
import { crc32 } from 'node:zlib';
import { hash } from 'node:crypto';
import type { Environment } from '../../core/scope.ts';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_CHARACTERS = 32;
const CHECKSUM_CHARACTERS = 6;
const HINT_CHARACTERS = 4;
const KEY = /^lh_(live|test)_[0-9A-Za-z]{38}$/;

/** Bytes that makeApiKey needs. They exceed what 32 base62 characters encode, so all characters are equally likely. */
export const API_KEY_RANDOM_BYTES = 32;

/**
 * Returns the text of a new key.
 * @param random API_KEY_RANDOM_BYTES from a cryptographic source
 */
export function makeApiKey(environment: Environment, random: Uint8Array): string {
  const number = random.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  const start = `lh_${environment}_${base62(number, RANDOM_CHARACTERS)}`;
  return start + checksumOf(start);
}

export function parseApiKey(text: string): Environment | null {
  const match = KEY.exec(text);
  if (!match) return null;
  const start = text.slice(0, -CHECKSUM_CHARACTERS);
  if (text !== start + checksumOf(start)) return null;
  return match[1] as Environment;
}

export function hashApiKey(text: string): string {
  return hash('sha256', text, 'hex');
}

/** Returns the beginning of the key: enough for a person to recognise it, useless to an attacker. */
export function keyHintOf(key: string): string {
  return `${key.slice(0, 'lh_live_'.length + HINT_CHARACTERS)}…`;
}

function checksumOf(start: string): string {
  return base62(BigInt(crc32(start)), CHECKSUM_CHARACTERS);
}

function base62(number: bigint, width: number): string {
  let digits = '';
  for (let remaining = number; digits.length < width; remaining /= 62n) {
    digits = BASE62[Number(remaining % 62n)] + digits;
  }
  return digits;
}
