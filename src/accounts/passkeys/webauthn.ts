/**
 * Verifies responses of authenticators (Web Authentication Level 3, §7.1 and §7.2), for credentials without
 * attestation.
 *
 * The public key comes as the browser parsed it (`getPublicKey()`), so no CBOR is read here. CBOR would add no trust:
 * without attestation, either form only shows that the person who is signed in has registered the key.
 */
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { parseObject } from '../../lib/json.ts';

/** COSE numbers of the algorithms that authenticators support: ES256, Ed25519, RS256 (Windows Hello). */
export const ALGORITHMS = [-7, -8, -257] as const;

/** The use that a credential must be for. `origin` is that of the pages, `rpId` their host. */
export type Expected = { challenge: string; origin: string; rpId: string };

export type Registration = {
  clientData: Buffer;
  authenticatorData: Buffer;
  /** SubjectPublicKeyInfo, DER. */
  publicKey: Buffer;
  algorithm: number;
};

export type Assertion = { clientData: Buffer; authenticatorData: Buffer; signature: Buffer };

export type Verified<Value> = { ok: true; value: Value } | { ok: false; problem: string };

const HASH_BYTES = 32;
const FLAGS_AT = HASH_BYTES;
const COUNT_AT = FLAGS_AT + 1;
/** Host hash, flags and count. */
const HEAD_BYTES = COUNT_AT + 4;
const AAGUID_BYTES = 16;
const CREDENTIAL_ID_MAX_BYTES = 1_023;
const RSA_BITS_MIN = 2_048;

const USER_PRESENT = 0x01;
/** A PIN or a fingerprint: the second of two factors. */
const USER_VERIFIED = 0x04;
const HAS_CREDENTIAL = 0x40;

/** Returns the credential to store. */
export function verifyRegistration(
  { clientData, authenticatorData, publicKey, algorithm }: Registration,
  expected: Expected,
): Verified<{ credentialId: Buffer; signCount: number }> {
  const problem =
    clientDataProblem(clientData, 'webauthn.create', expected) ??
    authenticatorProblem(authenticatorData, expected.rpId) ??
    keyProblem(publicKey, algorithm);
  if (problem !== null) return { ok: false, problem };
  const lengthAt = HEAD_BYTES + AAGUID_BYTES;
  const isComplete =
    (authenticatorData[FLAGS_AT]! & HAS_CREDENTIAL) !== 0 &&
    authenticatorData.length >= lengthAt + 2;
  const length = isComplete ? authenticatorData.readUInt16BE(lengthAt) : 0;
  const credentialId = authenticatorData.subarray(lengthAt + 2, lengthAt + 2 + length);
  if (length === 0 || length > CREDENTIAL_ID_MAX_BYTES || credentialId.length !== length) {
    return { ok: false, problem: 'there is no credential' };
  }
  const signCount = authenticatorData.readUInt32BE(COUNT_AT);
  return { ok: true, value: { credentialId, signCount } };
}

/** Returns the count of signatures. The caller compares it with the stored one. */
export function verifyAssertion(
  { clientData, authenticatorData, signature }: Assertion,
  { publicKey, algorithm, ...expected }: Expected & { publicKey: Buffer; algorithm: number },
): Verified<{ signCount: number }> {
  const problem =
    clientDataProblem(clientData, 'webauthn.get', expected) ??
    authenticatorProblem(authenticatorData, expected.rpId);
  if (problem !== null) return { ok: false, problem };
  const key = readKey(publicKey);
  const signed = Buffer.concat([authenticatorData, sha256(clientData)]);
  const hash = algorithm === -8 ? null : 'sha256';
  if (key === null || !verify(hash, signed, key, signature)) {
    return { ok: false, problem: 'the signature is wrong' };
  }
  return { ok: true, value: { signCount: authenticatorData.readUInt32BE(COUNT_AT) } };
}

function clientDataProblem(
  clientData: Buffer,
  type: 'webauthn.create' | 'webauthn.get',
  { challenge, origin }: Expected,
): string | null {
  const read = parseObject(clientData.toString('utf8'));
  if (read === null) return 'the client data is not JSON';
  if (read['type'] !== type) return 'the response is for another use';
  if (read['challenge'] !== challenge) return 'the response is for another challenge';
  if (read['origin'] !== origin) return `the page has the origin ${String(read['origin'])}`;
  return read['crossOrigin'] === true ? 'the page is in a frame of another site' : null;
}

function authenticatorProblem(authenticatorData: Buffer, rpId: string): string | null {
  if (authenticatorData.length < HEAD_BYTES) return 'the authenticator data is too short';
  const isSameHost = authenticatorData.subarray(0, HASH_BYTES).equals(sha256(Buffer.from(rpId)));
  if (!isSameHost) return 'the passkey belongs to another host';
  const flags = authenticatorData[FLAGS_AT]!;
  if ((flags & USER_PRESENT) === 0) return 'nobody was present';
  return (flags & USER_VERIFIED) === 0 ? 'the authenticator did not verify the person' : null;
}

function keyProblem(publicKey: Buffer, algorithm: number): string | null {
  const key = readKey(publicKey);
  const { namedCurve, modulusLength = 0 } = key?.asymmetricKeyDetails ?? {};
  const isOfAlgorithm =
    (algorithm === -7 && key?.asymmetricKeyType === 'ec' && namedCurve === 'prime256v1') ||
    (algorithm === -8 && key?.asymmetricKeyType === 'ed25519') ||
    (algorithm === -257 &&
      key?.asymmetricKeyType === 'rsa' &&
      modulusLength >= RSA_BITS_MIN &&
      modulusLength <= 2 * RSA_BITS_MIN);
  return isOfAlgorithm ? null : 'the public key is not of a supported kind';
}

function readKey(der: Buffer): KeyObject | null {
  try {
    return createPublicKey({ key: der, format: 'der', type: 'spki' });
  } catch {
    return null;
  }
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
