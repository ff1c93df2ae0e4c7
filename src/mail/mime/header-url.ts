/**
 * URLs in headers (RFC 3986): ASCII without white space. Other characters (RFC 3987) are converted by the rules of
 * browsers: the host to A-labels, the rest to percent-encoded UTF-8. Encoded parts do not change.
 */
import { domainToASCII } from 'node:url';
import { percentEncode } from './header.ts';

const URL_PARTS = /^([A-Za-z][A-Za-z0-9+.-]*:)(?:\/\/([^/?#]*))?([^]*)$/;
/** Characters outside of the unreserved and reserved ones (RFC 3986 §2), and a `%` without an octet. */
const NOT_IN_URLS = /%(?![0-9A-Fa-f]{2})|[^!#-;=?-[\]_a-z~]/gu;
const BEYOND_ASCII = /[^\0-\x7f]/;
/** With other characters, the mapping to A-labels could end the host at a slash and drop the rest. */
const HOST = /^[\w.\u0080-\uffff-]*$/;
/** These schemes need a host (RFC 9110 §4.2); `https:/acme.com` has none. */
const NEEDS_HOST = /^https?:$/i;

/** Returns the URL in ASCII; null when the text is not an absolute URL or contains white space. */
export function asciiUrl(text: string): string | null {
  const [, scheme, authority, rest = ''] = URL_PARTS.exec(text) ?? [];
  if (scheme === undefined || /\s/.test(text)) return null;
  if (scheme.toLowerCase() === 'mailto:') return mailtoUrl(scheme, rest, authority);
  if (!authority && NEEDS_HOST.test(scheme)) return null;
  if (authority === undefined) return rest === '' ? null : `${scheme}${encodeUrl(rest)}`;
  const host = hostAfter(authority, authority.lastIndexOf('@') + 1);
  const url = host === null ? null : `${scheme}//${host}${encodeUrl(rest)}`;
  return url !== null && URL.canParse(url) ? url : null;
}

/** Addresses separated by commas, then header fields (RFC 6068 §2). */
function mailtoUrl(scheme: string, rest: string, authority: string | undefined): string | null {
  const [, addresses = '', fields = ''] = /^([^?]*)([^]*)$/.exec(rest) ?? [];
  if (authority !== undefined || !/@|%40/.test(rest)) return null;
  const hosts = addresses
    .split(',')
    .map((address) => hostAfter(address, address.lastIndexOf('@') + 1));
  return hosts.includes(null) ? null : `${scheme}${hosts.join(',')}${encodeUrl(fields)}`;
}

/** Returns the text with the host at this offset as A-labels; null when it is not a host name. */
function hostAfter(text: string, at: number): string | null {
  const [, host = '', port = ''] = /^(.*?)((?::\d*)?)$/.exec(text.slice(at)) ?? [];
  if (BEYOND_ASCII.test(host) && !HOST.test(host)) return null;
  const ascii = BEYOND_ASCII.test(host) ? domainToASCII(host) : encodeUrl(host);
  return ascii === '' && host !== '' ? null : `${encodeUrl(text.slice(0, at))}${ascii}${port}`;
}

function encodeUrl(text: string): string {
  return text.replace(NOT_IN_URLS, percentEncode);
}
