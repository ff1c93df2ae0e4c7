/**
 * The resolver and the address guard of a process, by the configuration. Every part that looks names up or connects
 * outward takes both from here, so no part ignores a setting.
 */
import { networkInterfaces } from 'node:os';
import type { Config } from '../../config/config.ts';
import type { World } from '../../lib/world.ts';
import { type AddressGuard, createAddressGuard } from '../../net/ip-addresses.ts';
import {
  createResolver,
  type OnLookup,
  type Resolver,
  systemServers,
} from '../../net/dns/resolver.ts';

export type Network = { resolver: Resolver; guard: AddressGuard; servers: readonly string[] };

/** The caller closes the resolver. */
export function createNetwork(
  config: Pick<Config, 'allowPrivateNetworks' | 'dnsServers' | 'dnsTrustAd'>,
  world: Pick<World, 'monotonicMs'>,
  onLookup?: OnLookup,
): Network {
  const servers = config.dnsServers ?? systemServers();
  const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return {
    servers,
    resolver: createResolver({
      servers,
      world,
      trustAuthenticatedData: config.dnsTrustAd,
      ...(onLookup && { onLookup }),
    }),
    guard: createAddressGuard({
      allowPrivate: config.allowPrivateNetworks,
      ownAddresses: interfaces.map(({ address }) => address),
    }),
  };
}
