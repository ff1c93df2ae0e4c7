/** Certificates in PEM. */
import { X509Certificate } from 'node:crypto';

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The certificate, then all others of its file. */
export type CertificateChain = readonly [X509Certificate, ...X509Certificate[]];

/** @throws when the text contains no certificate, or one that is damaged */
export function readChain(pem: string): CertificateChain {
  const [first, ...others] = pem.match(PEM_CERTIFICATE) ?? [pem];
  return [new X509Certificate(first), ...others.map((one) => new X509Certificate(one))];
}
