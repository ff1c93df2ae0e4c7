/** TLSA records of the certificates in test/support/certs. */
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

export function testCertificate(name: string): X509Certificate {
  const pem = readFileSync(new URL(`certs/${name}.pem`, import.meta.url), 'utf8');
  return new X509Certificate(pem.slice(pem.indexOf('-----BEGIN CERTIFICATE')));
}

/** @param kind usage, selector and matching type, such as `3 1 1` */
export function tlsaRecord(name: string, kind: string): string {
  const certificate = testCertificate(name);
  const [, selector, matching] = kind.split(' ');
  const key = certificate.publicKey.export({ type: 'spki', format: 'der' });
  const bytes = selector === '0' ? certificate.raw : key;
  if (matching === '0') return `${kind} ${bytes.toString('hex')}`;
  const hash = createHash(matching === '1' ? 'sha256' : 'sha512');
  return `${kind} ${hash.update(bytes).digest('hex')}`;
}
