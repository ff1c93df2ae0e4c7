/**
 * Domain names as mail uses them: A-labels in lower case, so that one domain has one spelling.
 *
 * Unicode is mapped by UTS #46 (node:url, which also brings it to NFC). What comes out is checked
 * here, label by label: that mapping lets `a..b` and broken punycode pass and reads `1.2.3` as an
 * address.
 */
import { domainToASCII, domainToUnicode } from 'node:url';
import { isSingleScript } from './single-script.ts';

/** RFC 1035 §2.3.4, without the root. */
const DOMAIN_OCTETS_MAX = 253;

/** Letters, digits, inner hyphens, at most 63 (RFC 1123 §2.1). */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** A last label that starts with a digit makes the name an IPv4 address to somebody: `1.2`, `0x7f`. */
const TOP_LABEL = /^[a-z]/;

/**
 * The A-label form in lower case. Null for everything that is not a fully qualified name: one label
 * alone, an IP address, a final dot, labels that are empty, too long or hold something else than
 * letters, digits and inner hyphens, punycode that means nothing, scripts mixed in one label.
 */
export function parseDomain(text: string): string | null {
  if (text.length > DOMAIN_OCTETS_MAX || hasForeignAscii(text)) return null;
  const domain = isAscii(text) ? text.toLowerCase() : domainToASCII(text);
  if (domain.length > DOMAIN_OCTETS_MAX) return null;
  const labels = domain.split('.');
  const isName = labels.length >= 2 && labels.every(isLabel) && TOP_LABEL.test(labels.at(-1)!);
  return isName ? domain : null;
}

/** ASCII that no host name has. The mapping would take some of it for a port, a path, an escape. */
function hasForeignAscii(text: string): boolean {
  return /[^A-Za-z0-9.\-\u0080-\uffff]/.test(text);
}

function isAscii(text: string): boolean {
  return !/[\u0080-\uffff]/.test(text);
}

function isLabel(label: string): boolean {
  if (!LABEL.test(label)) return false;
  return !label.startsWith('xn--') || isHonestIdn(label);
}

/** An A-label stands for the one U-label that is encoded as it, and that one mixes no scripts. */
function isHonestIdn(label: string): boolean {
  const unicode = domainToUnicode(label);
  return unicode !== label && domainToASCII(unicode) === label && isSingleScript(unicode);
}

const RESERVED = /(?:^|\.)(?:test|example|invalid|localhost|example\.(?:com|net|org))$/;

/**
 * Whether the domain belongs to nobody for ever (RFC 2606, RFC 6761).
 * @param domain as parseDomain gives it
 */
export function isReservedDomain(domain: string): boolean {
  return RESERVED.test(domain);
}
