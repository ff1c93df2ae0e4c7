/**
 * A certificate authority for tests. It checks a request as a real one does: that it is signed by the key in it, and
 * for which name it is. Keys are on P-256.
 */
import assert from 'node:assert/strict';
import {
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
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
} from '../../src/net/tls/der.ts';

const SET = 0x31;
const UTF8_STRING = 0x0c;
const BOOLEAN = 0x01;
const GENERALIZED_TIME = 0x18;
const SEQUENCE = 0x30;
const DNS_NAME = 0x82;
const DAY_MS = 86_400_000;

export type Validity = { fromMs: number; untilMs: number };

export class CertificateAuthority {
  readonly #key: KeyObject = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  /** Identifies its key in certificates (RFC 5280 §4.2.1.1). */
  readonly keyId = randomBytes(20);
  /** Its own certificate, PEM. */
  readonly root: string;

  constructor() {
    const validity = { fromMs: Date.now() - DAY_MS, untilMs: Date.now() + 3_650 * DAY_MS };
    const isAuthority = extension('551d13', sequence(tagged(BOOLEAN, Buffer.of(0xff))));
    this.root = this.#sign({
      validity,
      publicKey: publicKeyOf(this.#key),
      extensions: [isAuthority],
    });
  }

  issue({ name, publicKey }: { name: string; publicKey: Buffer }, validity: Validity): string {
    const issuer = extension('551d23', sequence(tagged(0x80, this.keyId)));
    return this.#sign({ validity, publicKey, extensions: [subjectAltName(name), issuer] });
  }

  #sign(parts: { validity: Validity; publicKey: Buffer; extensions: Buffer[] }): string {
    const { validity, publicKey, extensions } = parts;
    const isRoot = publicKey.equals(publicKeyOf(this.#key));
    const body = sequence(
      tagged(0xa0, integer(Buffer.of(2))), // version 3
      integer(Buffer.concat([Buffer.of(0x40), randomBytes(15)])),
      ECDSA_WITH_SHA256,
      NAME,
      sequence(time(validity.fromMs), time(validity.untilMs)),
      isRoot ? NAME : sequence(),
      publicKey,
      tagged(0xa3, sequence(...extensions)),
    );
    const der = sequence(body, ECDSA_WITH_SHA256, bits(sign('sha256', body, this.#key)));
    const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
    return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
  }
}

const COMMON_NAME = sequence(oid('550403'), tagged(UTF8_STRING, Buffer.from('Test authority')));
const NAME = sequence(tagged(SET, COMMON_NAME));

function time(ms: number): Buffer {
  const text = `${new Date(ms).toISOString().slice(0, 19).replace(/[-:T]/g, '')}Z`;
  return tagged(GENERALIZED_TIME, Buffer.from(text));
}

/** Reads a request for a certificate (RFC 2986) for one name. @throws when it is not signed by its own key */
export function readRequest(der: Buffer): { name: string; publicKey: Buffer } {
  const [body, , signature] = elementsOf(der);
  const [version, subject, publicKey, attributes] = elementsOf(body!.bytes);
  assert.equal(version!.content.toString('hex'), '00');
  assert.equal(subject!.tag, SEQUENCE);
  const key = createPublicKey({ key: publicKey!.bytes, format: 'der', type: 'spki' });
  // The first octet of a bit string is the number of unused bits.
  assert.ok(verify('sha256', body!.bytes, key, signature!.content.subarray(1)), 'the signature');
  const names = dnsNamesIn(attributes!.content);
  assert.equal(names.length, 1, 'one name');
  return { name: names[0]!, publicKey: publicKey!.bytes };
}

type Element = { tag: number; bytes: Buffer; content: Buffer };

/** Returns the elements inside of an element. */
function elementsOf(der: Buffer): Element[] {
  const [whole] = listElements(der);
  return listElements(whole!.content);
}

function listElements(der: Buffer): Element[] {
  const elements: Element[] = [];
  for (let at = 0; at < der.length; at += elements.at(-1)!.bytes.length) {
    const first = der[at + 1]!;
    const octets = first < 0x80 ? 0 : first & 0x7f;
    const length = octets === 0 ? first : der.readUIntBE(at + 2, octets);
    const start = at + 2 + octets;
    assert.ok(start + length <= der.length, 'a complete element');
    const bytes = der.subarray(at, start + length);
    elements.push({ tag: der[at]!, bytes, content: der.subarray(start, start + length) });
  }
  return elements;
}

/** Goes into sets, sequences and octet strings, which contain DER in extensions. */
function dnsNamesIn(der: Buffer): string[] {
  return listElements(der).flatMap(({ tag, content }) => {
    if (tag === DNS_NAME) return [content.toString('ascii')];
    return [SET, SEQUENCE, 0x04].includes(tag) ? dnsNamesIn(content) : [];
  });
}
