/**
 * URLs as headers carry them (RFC 3986): ASCII without white space. A URL that is typed or stored with other
 * characters (RFC 3987) becomes the same URL by the rules that browsers use: the host as A-labels, all else as
 * percent-encoded UTF-8. What is encoded already stays as it is.
 */
import { domainToASCII } from 'node:url';
import { percents } from './header.ts';

const URL_PARTS = /^([A-Za-z][A-Za-z0-9+.-]*:)(?:\/\/([^/?#]*))?([^]*)$/;
/** All but unreserved and reserved characters (RFC 3986 §2), and a `%` that begins no octet. */
const NOT_IN_URLS = /%(?![0-9A-Fa-f]{2})|[^!#-;=?-[\]_a-z~]/gu;
const BEYOND_ASCII = /[^\0-\x7f]/;
/** In others the mapping to A-labels would end the host at a slash, and drop the rest. */
const HOST = /^[\w.\u0080-\uffff-]*$/;
/** They have a host (RFC 9110 §4.2), which `https:/acme.com` has not. */
const NEEDS_HOST = /^https?:$/i;

/** The URL in ASCII; null: the text is no absolute URL, or has white space in it. */
export function asciiUrl(text: string): string | null {
  const [, scheme, authority, rest = ''] = URL_PARTS.exec(text) ?? [];
  if (scheme === undefined || /\s/.test(text)) return null;
  if (scheme.toLowerCase() === 'mailto:') return mailtoUrl(scheme, rest, authority);
  if (!authority && NEEDS_HOST.test(scheme)) return null;
  if (authority === undefined) return rest === '' ? null : `${scheme}${encoded(rest)}`;
  const host = hostAfter(authority, authority.lastIndexOf('@') + 1);
  const url = host === null ? null : `${scheme}//${host}${encoded(rest)}`;
  return url !== null && URL.canParse(url) ? url : null;
}

/** RFC 6068 §2: addresses, which are separated by commas, then header fields. */
function mailtoUrl(scheme: string, rest: string, authority: string | undefined): string | null {
  const [, addresses = '', fields = ''] = /^([^?]*)([^]*)$/.exec(rest) ?? [];
  if (authority !== undefined || !/@|%40/.test(rest)) return null;
  const written = addresses.split(',').map((one) => hostAfter(one, one.lastIndexOf('@') + 1));
  return written.includes(null) ? null : `${scheme}${written.join(',')}${encoded(fields)}`;
}

/** The text with the host that begins at this offset as A-labels; null: it is not a host name. */
function hostAfter(text: string, at: number): string | null {
  const [, host = '', port = ''] = /^(.*?)((?::\d*)?)$/.exec(text.slice(at)) ?? [];
  if (BEYOND_ASCII.test(host) && !HOST.test(host)) return null;
  const ascii = BEYOND_ASCII.test(host) ? domainToASCII(host) : encoded(host);
  return ascii === '' && host !== '' ? null : `${encoded(text.slice(0, at))}${ascii}${port}`;
}

function encoded(text: string): string {
  return text.replace(NOT_IN_URLS, percents);
}
