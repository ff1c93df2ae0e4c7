/**
 * Creates a self-signed certificate for a host (RFC 5280), which is used until one is configured. Node creates keys
 * but not certificates. ECDSA on P-256, which all current TLS clients support.
 *
 * It does not authenticate the server. It only protects against passive eavesdropping, which is enough for mail
 * servers that deliver bounces (RFC 7435). The DER has a fixed form.
 */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import {
  bits,
  ECDSA_WITH_SHA256,
  extension,
  integer,
  oid,
  publicKeyOf,
  sequence,
  subjectAltName,
  tagged,
} from './der.ts';

type SelfSigned = { certificate: string; privateKey: string };

const UTF8_STRING = 0x0c;
const GENERALIZED_TIME = 0x18;
const SET = 0x31;
const COMMON_NAME_MAX = 64;

/** @returns both as PEM */
export function makeSelfSigned(
  hostname: string,
  validity: { fromMs: number; untilMs: number },
): SelfSigned {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const body = sequence(
    tagged(0xa0, integer(Buffer.of(2))), // version 3
    integer(serialNumber()),
    ECDSA_WITH_SHA256,
    nameOf(hostname),
    sequence(time(validity.fromMs), time(validity.untilMs)),
    nameOf(hostname),
    publicKeyOf(privateKey),
    tagged(0xa3, sequence(...extensions(hostname))),
  );
  const signature = sign('sha256', body, privateKey);
  const der = sequence(body, ECDSA_WITH_SHA256, bits(signature));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
}

/** Returns 16 octets with 126 random bits. The first octet is not zero, as DER requires. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = 0x40 | (bytes[0]! & 0x3f);
  return bytes;
}

const COMMON_NAME = oid('550403');

function nameOf(hostname: string): Buffer {
  const text = hostname.length <= COMMON_NAME_MAX ? hostname : 'Letterhaus';
  return sequence(tagged(SET, sequence(COMMON_NAME, tagged(UTF8_STRING, Buffer.from(text)))));
}

/** Formats a time like `20261121083000Z`. */
function time(ms: number): Buffer {
  const text = `${new Date(ms).toISOString().slice(0, 19).replace(/[-:T]/g, '')}Z`;
  return tagged(GENERALIZED_TIME, Buffer.from(text));
}

function extensions(hostname: string): Buffer[] {
  return [
    subjectAltName(hostname),
    extension('551d13', sequence()), // basicConstraints: no authority
    extension('551d25', sequence(oid('2b06010505070301'))), // extKeyUsage: serverAuth
  ];
}
