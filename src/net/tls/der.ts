/**
 * The parts of DER (X.690) that certificates and requests for them consist of. ECDSA on P-256 only, because all keys
 * that the service makes for TLS are of that kind.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';

const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const SEQUENCE = 0x30;
const DNS_NAME = 0x82;

export function tagged(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const lengthOctets =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...lengthOctets), content]);
}

export function sequence(...contents: Buffer[]): Buffer {
  return tagged(SEQUENCE, ...contents);
}

/** Encodes the shortest form: positive, and the first nine bits not all zero. */
export function integer(bytes: Buffer): Buffer {
  return tagged(INTEGER, bytes);
}

export function bits(bytes: Buffer): Buffer {
  return tagged(BIT_STRING, Buffer.of(0), bytes);
}

export function oid(hex: string): Buffer {
  return Buffer.from(`06${(hex.length / 2).toString(16).padStart(2, '0')}${hex}`, 'hex');
}

/** 1.2.840.10045.4.3.2 */
export const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));

export function publicKeyOf(privateKey: KeyObject): Buffer {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
}

/** Encodes one extension of a certificate (RFC 5280 §4.2). */
export function extension(id: string, value: Buffer): Buffer {
  return sequence(oid(id), tagged(OCTET_STRING, value));
}

export function subjectAltName(hostname: string): Buffer {
  return extension('551d11', sequence(tagged(DNS_NAME, Buffer.from(hostname))));
}
