/** Certificates that the service orders from an authority (ACME). */
import { isIP } from 'node:net';
import { isLoopback } from '../net/ip-addresses.ts';
import { type EnvReader, parseOneOf, parsePort } from './env-reader.ts';

export type AcmeConfig = {
  directoryUrl: string;
  email: string | null;
  /** The account that the operator has made at the authority, or null when the authority needs none. */
  externalAccount: { keyId: string; macKey: string } | null;
  /** How the authority validates a name: a request to port 80, or a record that the DNS provider gets. */
  challenge: ChallengeType;
  /** Where challenges are answered. `host`: null for all addresses. */
  http: { host: string | null; port: number };
};

const CHALLENGE_TYPES = ['http-01', 'dns-01'] as const;
export type ChallengeType = (typeof CHALLENGE_TYPES)[number];

const LETS_ENCRYPT = 'https://acme-v02.api.letsencrypt.org/directory';
const HTTP_PORT = 80;

const URL_RULE = 'write the https URL of its directory, such as ' + LETS_ENCRYPT;
const PORT_RULE = 'write a port, such as 80, or an address with one, such as 10.0.0.5:80';
const EMAIL_RULE = 'write one address, such as ops@example.com';

export function readAcme(read: EnvReader): AcmeConfig | null {
  const isOn = read.flag('LETTERHAUS_ACME');
  const directoryUrl = read.parsed('LETTERHAUS_ACME_DIRECTORY_URL', parseDirectoryUrl, URL_RULE);
  const email = read.parsed('LETTERHAUS_ACME_EMAIL', parseEmail, EMAIL_RULE);
  const http = read.parsed('LETTERHAUS_ACME_HTTP_PORT', parseListener, PORT_RULE);
  const challenge = read.parsed(
    'LETTERHAUS_ACME_CHALLENGE',
    parseOneOf(CHALLENGE_TYPES),
    'write http-01 or dns-01',
  );
  const externalAccount = readExternalAccount(read);
  if (challenge === 'dns-01' && read.text('LETTERHAUS_DNS_PROVIDER') === null) {
    read.addProblem('LETTERHAUS_ACME_CHALLENGE', 'dns-01 needs LETTERHAUS_DNS_PROVIDER too.');
  }
  if (!isOn) return null;
  return {
    directoryUrl: directoryUrl ?? LETS_ENCRYPT,
    email,
    externalAccount,
    challenge: challenge ?? 'http-01',
    http: http ?? { host: null, port: HTTP_PORT },
  };
}

function readExternalAccount(read: EnvReader): AcmeConfig['externalAccount'] {
  const keyId = read.text('LETTERHAUS_ACME_EAB_KEY_ID');
  const macKey = read.secret(
    'LETTERHAUS_ACME_EAB_HMAC_KEY',
    (text) => (/^[\w-]{16,512}={0,2}$/.test(text) ? text : null),
    'write the key as the authority shows it, in base64url',
  );
  if (keyId === null && macKey === null) return null;
  if (keyId !== null && macKey !== null) return { keyId, macKey };
  if (read.text('LETTERHAUS_ACME_EAB_HMAC_KEY') === null || keyId === null)
    read.addProblem(
      'LETTERHAUS_ACME_EAB_KEY_ID',
      'LETTERHAUS_ACME_EAB_KEY_ID and LETTERHAUS_ACME_EAB_HMAC_KEY are needed together.',
    );
  return null;
}

/** Clear text is for a server on this machine only. */
function parseDirectoryUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '') return null;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isLocal = host === 'localhost' || (isIP(host) !== 0 && isLoopback(host));
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLocal) ? url.href : null;
}

function parseEmail(text: string): string | null {
  return /^[!-~]{1,64}@[a-z0-9.-]{1,253}$/i.test(text) && !/[,?]/.test(text) ? text : null;
}

function parseListener(text: string): AcmeConfig['http'] | null {
  const [, bracketed, plain, digits = ''] = /^(?:\[(.+)\]:|([^:]+):)?(\d+)$/.exec(text) ?? [];
  const host = bracketed ?? plain ?? null;
  const port = parsePort(digits, 0);
  return port === null || (host !== null && isIP(host) === 0) ? null : { host, port };
}
