/** The DNS providers by name. The configuration reads this file, so it loads neither their APIs nor a library. */

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
