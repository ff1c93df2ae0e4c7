/** Finds the addresses that mail leaves from. */
import { isPublicAddress } from '../../net/ip-addresses.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

/** An address, and the name in EHLO of connections from it. */
export type Source = CheckContext['config']['sources'][number];

/**
 * Returns the configured addresses, else the public ones of this machine, else those of its host name: behind a NAT
 * only DNS knows the public address. Empty with a relay, which has addresses of its own.
 */
export async function findSources(context: CheckContext): Promise<readonly Source[]> {
  const { config, machine, resolver } = context;
  const { sources, hostname: heloName, relay } = config;
  if (relay !== null) return [];
  if (sources.length > 0) return sources;
  const own = machine.localIps.filter(isPublicAddress).map((ip) => ({ ip, heloName }));
  if (own.length > 0) return own;
  const answers = await Promise.all([resolver.a(heloName), resolver.aaaa(heloName)]);
  return answers
    .flatMap((answer) => (answer.kind === 'records' ? answer.records : []))
    .map((ip) => ({ ip, heloName }));
}

/** The finding of checks about sources when there is none. */
export function withoutSources({ config }: CheckContext): Finding {
  if (config.relay !== null) {
    return green('Mail leaves through a relay, which has addresses of its own.');
  }
  return unknown('The public address of this machine is not known.', {
    remedy: `Add an address record for ${config.hostname}.`,
  });
}

export const SOURCE_ADDRESSES: Check = {
  id: 'source_addresses',
  title: 'Addresses that mail leaves from',
  async run(context) {
    const { config, machine } = context;
    if (config.relay !== null) return [withoutSources(context)];
    const isPublic = (ip: string): boolean => config.allowPrivateNetworks || isPublicAddress(ip);
    if (config.sources.length > 0) {
      const findings = config.sources.map(async ({ ip }) =>
        isPublic(ip) ? green(`${ip} is an address of this machine.`, ip) : behindNat(context, ip),
      );
      return Promise.all(findings);
    }
    const found = machine.localIps.filter(isPublic);
    if (found.length > 0) return found.map((ip) => green(`${ip} is a public address.`, ip));
    return [await behindNat(context, machine.localIps[0] ?? null)];
  },
};

/** Only DNS says which public address a router uses. Receivers show the true one in `Received`. */
async function behindNat(context: CheckContext, ip: string | null): Promise<Finding> {
  const { hostname } = context.config;
  const found =
    ip === null
      ? 'This machine has no address but loopback.'
      : `${ip} is a private address: a router (NAT) replaces it by a public one.`;
  const answer = await context.resolver.a(hostname);
  const named = answer.kind === 'records' ? answer.records.filter(isPublicAddress) : [];
  if (named.length > 0) {
    return unknown(
      `${found} The public one should be ${named.join(', ')}, as DNS says of ${hostname}.`,
      {
        subject: ip,
        remedy: `Compare it with the address in the header Received of a delivered email, or ask a web page.`,
        command: 'curl -4 https://ifconfig.co',
      },
    );
  }
  return yellow(found, {
    subject: ip,
    meaning: 'Reverse DNS and SPF must name the public address, which is not known here.',
    remedy: `Find the public address of this machine, and publish it as the A record of ${hostname}.`,
    command: 'curl -4 https://ifconfig.co',
  });
}
