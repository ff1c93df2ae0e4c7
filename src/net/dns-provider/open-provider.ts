/** Opens the API of a DNS provider (providers.ts). */
import type { ApiAccess } from './api-client.ts';
import { cloudflare } from './cloudflare.ts';
import { desec } from './desec.ts';
import { digitalOcean } from './digitalocean.ts';
import { createDnsProvider, type DnsProvider } from './dns-provider.ts';
import { hetzner } from './hetzner.ts';
import type { DnsProviderAccess, DnsProviderName } from './providers.ts';
import { route53 } from './route53.ts';

const BASE_URLS: Readonly<Record<DnsProviderName, string>> = {
  cloudflare: 'https://api.cloudflare.com/client/v4',
  route53: 'https://route53.amazonaws.com',
  hetzner: 'https://api.hetzner.cloud/v1',
  digitalocean: 'https://api.digitalocean.com/v2',
  desec: 'https://desec.io/api/v1',
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
