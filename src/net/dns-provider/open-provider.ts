/** The DNS providers by name, with the variables of their tokens and the addresses of their APIs. */
import type { ApiAccess } from './api-client.ts';
import { cloudflare } from './cloudflare.ts';
import { desec } from './desec.ts';
import { digitalOcean } from './digitalocean.ts';
import { createDnsProvider, type DnsProvider } from './dns-provider.ts';
import { hetzner } from './hetzner.ts';
import { route53 } from './route53.ts';

export const DNS_PROVIDERS = ['cloudflare', 'route53', 'hetzner', 'digitalocean', 'desec'] as const;
export type DnsProviderName = (typeof DNS_PROVIDERS)[number];

/** The variable of the token. Route 53 also needs AWS_ACCESS_KEY_ID. */
export const TOKEN_VARIABLES: Readonly<Record<DnsProviderName, string>> = {
  cloudflare: 'CLOUDFLARE_API_TOKEN',
  route53: 'AWS_SECRET_ACCESS_KEY',
  hetzner: 'HCLOUD_TOKEN',
  digitalocean: 'DIGITALOCEAN_ACCESS_TOKEN',
  desec: 'DESEC_TOKEN',
};

const BASE_URLS: Readonly<Record<DnsProviderName, string>> = {
  cloudflare: 'https://api.cloudflare.com/client/v4',
  route53: 'https://route53.amazonaws.com',
  hetzner: 'https://api.hetzner.cloud/v1',
  digitalocean: 'https://api.digitalocean.com/v2',
  desec: 'https://desec.io/api/v1',
};

/**
 * @property token for Route 53 the secret access key
 * @property accessKeyId only for Route 53
 * @property baseUrl null for the provider's own
 */
export type DnsProviderAccess = {
  name: DnsProviderName;
  token: string;
  accessKeyId: string | null;
  sessionToken: string | null;
  baseUrl: string | null;
};

const TOKEN_APIS = { cloudflare, hetzner, digitalocean: digitalOcean, desec };

/** Makes no request. */
export function openDnsProvider(
  access: DnsProviderAccess,
  { world, timing }: Pick<ApiAccess, 'world' | 'timing'>,
): DnsProvider {
  const { name, token, accessKeyId, sessionToken } = access;
  const baseUrl = (access.baseUrl ?? BASE_URLS[name]).replace(/\/+$/, '');
  const common = { baseUrl, world, timing };
  if (name !== 'route53') return createDnsProvider(TOKEN_APIS[name]({ ...common, token }));
  const key = { accessKeyId: accessKeyId ?? '', secretAccessKey: token, sessionToken };
  return createDnsProvider(route53({ ...common, ...key }));
}
