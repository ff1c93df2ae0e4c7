/**
 * Signs and verifies case files. The signature is Ed25519 over the canonical JSON (RFC 8785) of the whole file without
 * its member `signature`, so anybody can verify it with the public key in `signer` and any library.
 *
 * A valid signature says that the holder of the key in the file made exactly this content. It does not say who the
 * holder is: the reader compares the fingerprint with the one that the installation publishes.
 */
import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { isObject, parseObject } from '../../lib/json.ts';
import { canonicalJson, isUnambiguousJson } from './canonical-json.ts';
import type { ReceiptKey } from './receipt-key.ts';

export const CASE_FILE = { object: 'case_file', version: 1 } as const;
const ALGORITHM = 'Ed25519';
const PUBLIC_KEY_BYTES = 32;

export type Signer = {
  algorithm: typeof ALGORITHM;
  /** Base64 of 32 octets. */
  public_key: string;
  fingerprint: string;
};

/** Returns the file with its signer first and its signature last. */
export function signCaseFile<Content extends object>(content: Content, key: ReceiptKey) {
  const signed = { ...CASE_FILE, signer: signerOf(key.publicKey), ...content };
  const signature = sign(null, Buffer.from(canonicalJson(signed)), key.privateKey);
  return { ...signed, signature: signature.toString('base64') };
}

export function signerOf(publicKey: string): Signer {
  const fingerprint = fingerprintOf(publicKey);
  return { algorithm: ALGORITHM, public_key: publicKey, fingerprint };
}

/** Returns the hash of a public key in the form of OpenSSH: `SHA256:` and base64 without padding. */
export function fingerprintOf(publicKey: string): string {
  const hash = createHash('sha256').update(Buffer.from(publicKey, 'base64')).digest('base64');
  return `SHA256:${hash.replace(/=+$/, '')}`;
}

export function publicKeyPem(publicKey: string): string {
  return publicKeyOf(publicKey).export({ type: 'spki', format: 'pem' });
}

export type Verification =
  | { kind: 'valid'; signer: Signer; file: Record<string, unknown> }
  /** The content is not what was signed. */
  | { kind: 'changed'; message: string }
  /** It is no case file, or one that this version does not know. */
  | { kind: 'unreadable'; message: string };

/** Verifies a file with the public key in it. */
export function verifyCaseFile(json: string): Verification {
  const file = parseObject(json);
  if (file?.['object'] !== CASE_FILE.object) {
    return { kind: 'unreadable', message: 'This is not a case file of Letterhaus.' };
  }
  if (file['version'] !== CASE_FILE.version) {
    const version = JSON.stringify(file['version'] ?? null);
    const message = `The case file has version ${version}; this program verifies version ${CASE_FILE.version}.`;
    return { kind: 'unreadable', message };
  }
  if (!isUnambiguousJson(json, file)) return { kind: 'changed', message: AMBIGUOUS };
  const { signature, ...signed } = file;
  const signer = readSigner(signed['signer']);
  if (signer === null) return { kind: 'changed', message: BAD_SIGNER };
  return hasSigned(signer, signed, signature)
    ? { kind: 'valid', signer, file }
    : { kind: 'changed', message: CHANGED };
}

const CHANGED =
  'The file was changed after it was signed, or is not complete: its signature does not match its content.';
const AMBIGUOUS =
  'The file was changed after it was signed: it has a name twice, or a number in another form.';
const BAD_SIGNER =
  'The file was changed after it was signed: its public key is missing, or its fingerprint is of another key.';

function readSigner(value: unknown): Signer | null {
  if (!isObject(value)) return null;
  const { algorithm, public_key: publicKey, fingerprint } = value;
  if (algorithm !== ALGORITHM || typeof publicKey !== 'string' || !isPublicKey(publicKey))
    return null;
  return fingerprint === fingerprintOf(publicKey) ? signerOf(publicKey) : null;
}

/** Returns whether the text is a public key in its only form. */
export function isPublicKey(text: string): boolean {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === PUBLIC_KEY_BYTES && bytes.toString('base64') === text;
}

function hasSigned({ public_key: key }: Signer, signed: object, signature: unknown): boolean {
  if (typeof signature !== 'string') return false;
  const bytes = Buffer.from(signature, 'base64');
  if (bytes.toString('base64') !== signature) return false;
  try {
    return verify(null, Buffer.from(canonicalJson(signed)), publicKeyOf(key), bytes);
  } catch {
    // A text that has no canonical form, or a key that is no point of the curve.
    return false;
  }
}

function publicKeyOf(publicKey: string): KeyObject {
  const x = Buffer.from(publicKey, 'base64').toString('base64url');
  return createPublicKey({ key: { kty: 'OKP', crv: ALGORITHM, x }, format: 'jwk' });
}
