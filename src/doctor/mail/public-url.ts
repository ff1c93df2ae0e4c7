/** Checks the URLs in emails: whether the service answers there, through its proxy and with a valid certificate. */
import { guardedRequest } from '../../net/http/guarded-client.ts';
import { createAddressGuard } from '../../net/ip-addresses.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const RESPONSE_WITHIN_MS = 10_000;
const RESPONSE_BYTES_MAX = 1_024;

export const PUBLIC_URL: Check = {
  id: 'public_url',
  title: 'Public URL',
  async run(context) {
    const { publicUrl, trackingUrl } = context.config;
    if (publicUrl === null) {
      return [
        yellow('LETTERHAUS_PUBLIC_URL is not set.', {
          meaning: 'Live mail cannot have one-click unsubscribe links, which bulk mail needs.',
          remedy: 'Set it to the https:// address at which recipients reach this service.',
        }),
      ];
    }
    const urls = new Set([publicUrl, ...(trackingUrl === null ? [] : [trackingUrl])]);
    return Promise.all([...urls].map((url) => checkUrl(context, url)));
  },
};

async function checkUrl(context: CheckContext, url: string): Promise<Finding> {
  const { config, resolver, world } = context;
  const isPlain = url.startsWith('http:');
  if (isPlain && !config.allowPrivateNetworks) {
    return yellow(`${url} is without TLS.`, {
      subject: url,
      meaning: 'Mail programs do not use one-click unsubscribe links without https.',
      remedy: 'Set LETTERHAUS_PUBLIC_URL to an https:// address (docs/tls.md).',
    });
  }
  const response = await guardedRequest({
    url: `${url}/healthz`,
    method: 'GET',
    headers: {},
    // The operator chose the address, and it is often one of this machine.
    guard: createAddressGuard({ allowPrivate: true }),
    resolver,
    world,
    allowHttp: true,
    timeoutMs: RESPONSE_WITHIN_MS,
    maxResponseBytes: RESPONSE_BYTES_MAX,
  });
  if (response.kind === 'response' && response.status === 200 && /"ok"/.test(response.bodyStart)) {
    return green(`The service answers at ${url}.`, url);
  }
  const what =
    response.kind === 'failed'
      ? `cannot be reached: ${response.message}`
      : `responds with ${response.status}`;
  const command = `curl -si ${url}/healthz`;
  if (!context.machine.isServiceRunning) {
    const remedy = 'Start the service, and run the check again.';
    return unknown(`${url} ${what}.`, { subject: url, remedy, command });
  }
  return red(`${url} ${what}.`, {
    subject: url,
    meaning: 'Links to unsubscribe and tracked links in sent mail do not work.',
    remedy: 'Correct the proxy, its certificate or LETTERHAUS_PUBLIC_URL (docs/tls.md).',
    command,
  });
}
