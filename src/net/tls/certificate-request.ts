/** A request for a certificate (PKCS #10, RFC 2986) for one host name, as an ACME server wants it. */
import { type KeyObject, sign } from 'node:crypto';
import {
  bits,
  ECDSA_WITH_SHA256,
  integer,
  oid,
  publicKeyOf,
  sequence,
  subjectAltName,
  tagged,
} from './der.ts';

const SET = 0x31;
const ATTRIBUTES = 0xa0;
/** 1.2.840.113549.1.9.14 */
const EXTENSION_REQUEST = oid('2a864886f70d01090e');

/**
 * The subject is empty, because clients read the name from subjectAltName only.
 * @param privateKey on P-256; it proves that the certificate's key is ours
 * @returns DER
 */
export function makeCertificateRequest(hostname: string, privateKey: KeyObject): Buffer {
  const body = sequence(
    integer(Buffer.of(0)), // version 1
    sequence(),
    publicKeyOf(privateKey),
    tagged(
      ATTRIBUTES,
      sequence(EXTENSION_REQUEST, tagged(SET, sequence(subjectAltName(hostname)))),
    ),
  );
  return sequence(body, ECDSA_WITH_SHA256, bits(sign('sha256', body, privateKey)));
}
