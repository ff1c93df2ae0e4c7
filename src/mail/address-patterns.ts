/**
 * Patterns for addresses, of keys that may send from or to some addresses only: `jo@acme.com` is one address,
 * `acme.com` every address of this domain, `*.acme.com` every address of its subdomains.
 */
import { addressKey, domainOf, parseAddress, parseDomain, type Address } from './address.ts';

const SUBDOMAINS = '*.';

/** Returns the pattern in the form in which patterns compare; null for other text. */
export function parseAddressPattern(text: string): string | null {
  const trimmed = text.trim();
  if (trimmed.includes('@')) {
    const address = parseAddress(trimmed);
    return address === null ? null : addressKey(address);
  }
  if (!trimmed.startsWith(SUBDOMAINS)) return parseDomain(trimmed);
  const domain = parseDomain(trimmed.slice(SUBDOMAINS.length));
  return domain === null ? null : `${SUBDOMAINS}${domain}`;
}

/** @param patterns results of parseAddressPattern */
export function matchesPattern(patterns: readonly string[], address: Address): boolean {
  const key = addressKey(address);
  const domain = domainOf(key as Address);
  return patterns.some((pattern) => {
    if (pattern.includes('@')) return pattern === key;
    if (pattern.startsWith(SUBDOMAINS)) return domain.endsWith(pattern.slice(1));
    return pattern === domain;
  });
}

/** Returns the domain of a pattern. That of `*.acme.com` is the pattern itself. */
export function domainOfPattern(pattern: string): string {
  return pattern.slice(pattern.lastIndexOf('@') + 1);
}
