/** Explains to operators in one sentence why an ACME server did not issue a certificate, and names the remedy. */
import { parseJson } from '../../lib/json.ts';

const TYPE_PREFIX = 'urn:ietf:params:acme:error:';
const DETAIL_CHARACTERS_MAX = 400;

/**
 * `type`: the server's type without its prefix (RFC 8555 §6.7), or `unreachable`: no response or one that asks to
 * come back, or `protocol`: a response that ACME does not provide for.
 */
export class AcmeError extends Error {
  override readonly name = 'AcmeError';
  readonly type: string;
  /** The wait that the server asks for; null when it asks for none. */
  readonly retryAfterMs: number | null;

  constructor(type: string, message: string, wait: number | null = null) {
    super(message);
    this.type = type;
    this.retryAfterMs = wait;
  }
}

export function unreachable(url: string, error: unknown): AcmeError {
  const { message, cause } = error as Error & { cause?: { code?: string; message?: string } };
  const why = cause?.code ?? cause?.message ?? message;
  return new AcmeError('unreachable', `${hostOf(url)} does not respond (${clean(why)}).`);
}

export function problemOfResponse(response: {
  status: number;
  headers: Headers;
  text: string;
}): AcmeError {
  const { status, headers, text } = response;
  const { type, message } = problemOf(
    parseJson(text),
    `The server responded with status ${status}.`,
  );
  const isFault = type === 'protocol' && status >= 500;
  return new AcmeError(isFault ? 'unreachable' : type, message, retryAfterMs(headers));
}

/** Reads a problem document (RFC 9457), as responses, challenges and orders contain them. */
export function problemOf(body: unknown, fallback: string): { type: string; message: string } {
  const { type, detail } = (body ?? {}) as { type?: unknown; detail?: unknown };
  const isKnown = typeof type === 'string' && type.startsWith(TYPE_PREFIX);
  return {
    type: isKnown ? clean(type.slice(TYPE_PREFIX.length)) : 'protocol',
    message: typeof detail === 'string' && detail !== '' ? clean(detail) : fallback,
  };
}

/**
 * Returns the wait that the server asks for; null for none. A date is compared with the server's own clock, because
 * ours may be wrong.
 */
export function retryAfterMs(headers: Headers): number | null {
  const value = headers.get('retry-after') ?? '';
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000;
  const ms = Date.parse(value) - Date.parse(headers.get('date') ?? '');
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}

/** The text is logged and stored, and may contain text from the web server of a stranger. */
function clean(text: string): string {
  const printable = text.replaceAll(/[^\P{C}\t\n]|\s+/gu, ' ').trim();
  if (printable.length <= DETAIL_CHARACTERS_MAX) return printable.toWellFormed();
  return `${printable.slice(0, DETAIL_CHARACTERS_MAX).toWellFormed()}…`;
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? 'The server';
}

/** @param url of the directory @param challenge how the authority validates names */
export function remedyOf(
  { type }: AcmeError,
  { name, url, challenge = 'http-01' }: { name: string; url: string; challenge?: string },
): string {
  const again =
    'The service orders the certificate again within 12 hours, or at the time that the authority names.';
  const isAboutRecord = ['dns', 'unauthorized', 'incorrectResponse', 'connection'].includes(type);
  if (challenge === 'dns-01' && isAboutRecord)
    return `Look at the TXT records of _acme-challenge.${name}: all name servers of the zone must have the new one (docs/tls.md). ${again}`;
  switch (type) {
    case 'connection':
      return `Let everybody reach port 80 of ${name}, and forward it to the service (docs/tls.md). ${again}`;
    case 'dns':
      return `Publish an A or AAAA record of ${name} with the address of this machine. ${again}`;
    case 'unauthorized':
    case 'incorrectResponse':
      return `Another server answers on port 80 of ${name}: correct its address, or forward port 80 to the service (docs/tls.md). ${again}`;
    case 'caa':
      return `The CAA records of ${name} do not permit ${hostOf(url)}: add its name to them, or choose another authority. ${again}`;
    case 'rateLimited':
      return `${again} Until then the current certificate stays in use, or one from LETTERHAUS_TLS_CERT and LETTERHAUS_API_TLS_CERT.`;
    case 'rejectedIdentifier':
      return `${hostOf(url)} issues no certificates for ${name}: use a public name, or certificates of your own (docs/tls.md).`;
    case 'externalAccountRequired':
      return 'Make an account at this authority, and set LETTERHAUS_ACME_EAB_KEY_ID and LETTERHAUS_ACME_EAB_HMAC_KEY to the key that it shows (docs/tls.md).';
    case 'dnsProvider':
      return `Check LETTERHAUS_DNS_PROVIDER and its token (docs/going-live.md). ${again}`;
    case 'invalidContact':
    case 'unsupportedContact':
      return `Correct LETTERHAUS_ACME_EMAIL, or unset it. ${again}`;
    case 'unreachable':
      return `Permit outgoing connections to ${hostOf(url)}. ${again}`;
    default:
      return `Check LETTERHAUS_ACME_DIRECTORY_URL. ${again}`;
  }
}
