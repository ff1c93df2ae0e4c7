/** The id by which an authority finds a certificate when it is asked about its renewal (RFC 9773 §4.1). */
import type { X509Certificate } from 'node:crypto';

/** 2.5.29.35, the extension with the key identifier of the issuer, as DER. */
const AUTHORITY_KEY_IDENTIFIER = Buffer.from('0603551d23', 'hex');
const OCTET_STRING = 0x04;
const SEQUENCE = 0x30;
const KEY_IDENTIFIER = 0x80;

/** @returns null for a certificate without the identifier of the key that signed it */
export function renewalId({ raw, serialNumber }: X509Certificate): string | null {
  const keyId = keyIdentifierIn(raw);
  if (keyId === null) return null;
  const hex = serialNumber.length % 2 === 0 ? serialNumber : `0${serialNumber}`;
  const serial = Buffer.from(hex, 'hex');
  // DER puts a zero before a first bit that would make the number negative.
  const signed = (serial[0] ?? 0) < 0x80 ? serial : Buffer.concat([Buffer.of(0), serial]);
  return `${keyId.toString('base64url')}.${signed.toString('base64url')}`;
}

/** The extension is `OCTET STRING { SEQUENCE { [0] identifier, … } }`, shorter than 128 bytes in practice. */
function keyIdentifierIn(der: Buffer): Buffer | null {
  const found = der.indexOf(AUTHORITY_KEY_IDENTIFIER);
  if (found < 0) return null;
  const value = der.subarray(found + AUTHORITY_KEY_IDENTIFIER.length);
  const isShort = [1, 3, 5].every((at) => (value[at] ?? 0x80) < 0x80);
  const tags = [value[0], value[2], value[4]];
  const isExpected = tags.join() === [OCTET_STRING, SEQUENCE, KEY_IDENTIFIER].join();
  return isShort && isExpected ? value.subarray(6, 6 + value[5]!) : null;
}
