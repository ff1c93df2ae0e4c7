/**
 * Creates a self-signed certificate for a host (RFC 5280), which is used until one is configured. Node creates keys
 * but not certificates. ECDSA on P-256, which all current TLS clients support.
 *
 * It does not authenticate the server. It only protects against passive eavesdropping, which is enough for mail
 * servers that deliver bounces (RFC 7435). The DER has a fixed form.
 */
import {
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto';

type SelfSigned = { certificate: string; privateKey: string };

const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const UTF8_STRING = 0x0c;
const GENERALIZED_TIME = 0x18;
const SEQUENCE = 0x30;
const SET = 0x31;
const DNS_NAME = 0x82;
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

function tagged(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const lengthOctets =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...lengthOctets), content]);
}

function sequence(...contents: Buffer[]): Buffer {
  return tagged(SEQUENCE, ...contents);
}

/** Encodes the shortest form: positive, and the first nine bits not all zero. */
function integer(bytes: Buffer): Buffer {
  return tagged(INTEGER, bytes);
}

/** Returns 16 octets with 126 random bits. The first octet is not zero, as DER requires. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = 0x40 | (bytes[0]! & 0x3f);
  return bytes;
}

function bits(bytes: Buffer): Buffer {
  return tagged(BIT_STRING, Buffer.of(0), bytes);
}

function oid(hex: string): Buffer {
  return Buffer.from(`06${(hex.length / 2).toString(16).padStart(2, '0')}${hex}`, 'hex');
}

/** 1.2.840.10045.4.3.2 */
const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));
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

function publicKeyOf(privateKey: KeyObject): Buffer {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
}

function extensions(hostname: string): Buffer[] {
  const extension = (id: string, value: Buffer) => sequence(oid(id), tagged(OCTET_STRING, value));
  return [
    extension('551d11', sequence(tagged(DNS_NAME, Buffer.from(hostname)))), // subjectAltName
    extension('551d13', sequence()), // basicConstraints: no authority
    extension('551d25', sequence(oid('2b06010505070301'))), // extKeyUsage: serverAuth
  ];
}
