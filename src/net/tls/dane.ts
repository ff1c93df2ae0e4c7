/**
 * DANE for SMTP (RFC 7672, 6698, 7671): whether a mail server's certificate chain matches its TLSA records.
 *
 * Node validates certificates by the public authorities only, and skips the check of the name when that fails. So
 * DANE validates the chain that the server sent after the handshake. DANE-EE(3) matches the server's certificate or
 * key, and does not check names and dates. DANE-TA(2) matches an authority of the chain, and checks signatures,
 * dates and the name. The PKIX usages 0 and 1 do not apply to SMTP (§3.1.3).
 */
import { createHash, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto';
import type { TlsaRecord } from '../dns/resolver.ts';

export type DaneExpectation = {
  /** One or more usable records. */
  records: readonly TlsaRecord[];
  /** With DANE-TA the certificate must have the TLSA name, the recipient's domain or its CNAME target (§3.2.2). */
  names: readonly string[];
  /** Wall-clock time, for the dates of certificates with DANE-TA. */
  nowMs: number;
};

/** Matches an authority instead of the server's certificate; the name of the server is checked. */
export const DANE_TA = 2;
const DANE_EE = 3;
/** Hexadecimal digits of a digest by matching type; 0 is the whole certificate or key. */
const DIGEST_DIGITS: Readonly<Record<number, number>> = { 1: 64, 2: 128 };
const CHAIN_MAX = 10;
/** Limit on the signature checks: each record may need one for each certificate of the chain. */
const RECORDS_MAX = 20;

/** Returns checkable records. A weaker digest beside a stronger one is outdated and ignored (RFC 7671 §9). */
export function usableRecords(records: readonly TlsaRecord[]): TlsaRecord[] {
  const usable = records.filter(isUsable).slice(0, RECORDS_MAX);
  return usable.filter(
    ({ usage, selector, matching }) =>
      matching !== 1 ||
      !usable.some((o) => o.usage === usage && o.selector === selector && o.matching === 2),
  );
}

function isUsable({ usage, selector, matching, dataHex }: TlsaRecord): boolean {
  if (usage !== DANE_TA && usage !== DANE_EE) return false;
  if (selector !== 0 && selector !== 1) return false;
  if (matching !== 0) return dataHex.length === DIGEST_DIGITS[matching];
  return selector === 0 ? certificateOf(dataHex) !== null : keyOf(dataHex) !== null;
}

/** Returns why the chain does not match; null when it does. The server's own certificate comes first. */
export function daneProblem(
  chain: readonly X509Certificate[],
  expected: DaneExpectation,
): string | null {
  const [leaf] = chain;
  if (leaf === undefined) return 'the server sent no certificate';
  const records = expected.records.filter(({ usage }) => usage === DANE_EE);
  if (records.some((record) => matches(leaf, record))) return null;
  const anchors = expected.records.filter(({ usage }) => usage === DANE_TA);
  if (anchors.length === 0) return 'the certificate is not the one that the TLSA records name';
  const problem = anchorProblem(chain.slice(0, CHAIN_MAX), anchors, expected.nowMs);
  if (problem !== null) return problem;
  if (
    expected.names.some((name) => leaf.checkHost(name, { partialWildcards: false }) !== undefined)
  )
    return null;
  return `the certificate is not for ${expected.names.join(' or ')}`;
}

function anchorProblem(
  chain: readonly X509Certificate[],
  anchors: readonly TlsaRecord[],
  nowMs: number,
): string | null {
  let current = chain[0];
  const others = new Set(chain.slice(1));
  while (current !== undefined) {
    const below: X509Certificate = current;
    if (!isCurrent(below, nowMs)) return 'a certificate of the chain is expired or not valid yet';
    if (anchors.some((record) => isSignedByAnchor(below, record))) return null;
    const issuer = [...others].find((candidate) => isIssuedBy(below, candidate));
    if (issuer !== undefined) {
      others.delete(issuer);
      if (anchors.some((record) => matches(issuer, record))) {
        return isCurrent(issuer, nowMs) ? null : 'the authority of the chain is expired';
      }
    }
    current = issuer;
  }
  return 'the certificate has no authority that the TLSA records name';
}

/** A record with the whole authority matches even if the chain lacks that authority. */
function isSignedByAnchor(below: X509Certificate, { selector, matching, dataHex }: TlsaRecord) {
  if (matching !== 0) return false;
  if (selector === 1) {
    const key = keyOf(dataHex);
    return key !== null && isSignedWith(below, key);
  }
  const anchor = certificateOf(dataHex);
  return anchor !== null && isIssuedBy(below, anchor);
}

function isIssuedBy(below: X509Certificate, issuer: X509Certificate): boolean {
  return issuer.ca && below.checkIssued(issuer) && isSignedWith(below, issuer.publicKey);
}

function isSignedWith(below: X509Certificate, key: KeyObject): boolean {
  try {
    return below.verify(key);
  } catch {
    return false; // a key of another kind than the signature
  }
}

function isCurrent(certificate: X509Certificate, nowMs: number): boolean {
  const { validFromDate, validToDate } = certificate;
  return validFromDate.getTime() <= nowMs && nowMs <= validToDate.getTime();
}

function matches(certificate: X509Certificate, record: TlsaRecord): boolean {
  const bytes = record.selector === 0 ? certificate.raw : keyBytes(certificate);
  if (record.matching === 0) return bytes.toString('hex') === record.dataHex;
  const digest = createHash(record.matching === 1 ? 'sha256' : 'sha512').update(bytes);
  return digest.digest('hex') === record.dataHex;
}

function keyBytes(certificate: X509Certificate): Buffer {
  return certificate.publicKey.export({ type: 'spki', format: 'der' });
}

function certificateOf(hex: string): X509Certificate | null {
  try {
    return new X509Certificate(Buffer.from(hex, 'hex'));
  } catch {
    return null;
  }
}

function keyOf(hex: string): KeyObject | null {
  try {
    return createPublicKey({ key: Buffer.from(hex, 'hex'), format: 'der', type: 'spki' });
  } catch {
    return null;
  }
}
