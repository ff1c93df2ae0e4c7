/** The variables of the DNS provider that may write records (docs/going-live.md). */
import {
  DNS_PROVIDERS,
  type DnsProviderAccess,
  TOKEN_VARIABLES,
} from '../net/dns-provider/providers.ts';
import { isLoopback } from '../net/ip-addresses.ts';
import { type EnvReader, parseOneOf } from './env-reader.ts';

export type DnsProviderConfig = {
  /** null when no provider is configured, and nothing writes records. */
  dnsProvider: Readonly<DnsProviderAccess> | null;
};

export function readDnsProvider(read: EnvReader): DnsProviderConfig {
  const name = read.parsed(
    'LETTERHAUS_DNS_PROVIDER',
    parseOneOf(DNS_PROVIDERS),
    `write one of ${DNS_PROVIDERS.join(', ')}`,
  );
  const baseUrl = read.secret(
    'LETTERHAUS_DNS_API_URL',
    parseApiUrl,
    'write an https URL without credentials, such as https://desec.example.org/api/v1',
  );
  if (name === null) return { dnsProvider: null };
  const token = read.text(TOKEN_VARIABLES[name]);
  const accessKeyId = name === 'route53' ? read.text('AWS_ACCESS_KEY_ID') : null;
  if (token === null || (name === 'route53' && accessKeyId === null)) {
    const needed = name === 'route53' ? 'AWS_ACCESS_KEY_ID and ' : '';
    read.addProblem(
      'LETTERHAUS_DNS_PROVIDER',
      `${name} needs ${needed}${TOKEN_VARIABLES[name]} too.`,
    );
    return { dnsProvider: null };
  }
  const sessionToken = name === 'route53' ? read.text('AWS_SESSION_TOKEN') : null;
  return { dnsProvider: Object.freeze({ name, token, accessKeyId, sessionToken, baseUrl }) };
}

/** Accepts clear text only to this machine: every request contains the token. */
function parseApiUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || `${url.search}${url.hash}${url.username}` !== '') return null;
  const isSafe =
    url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
  return isSafe ? url.href.replace(/\/+$/, '') : null;
}
