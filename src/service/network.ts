/**
 * The resolver and the address guard of a process, as the configuration sets them. Every part that
 * looks names up or connects outward takes both from here, so that no part ignores a setting.
 */
import { networkInterfaces } from 'node:os';
import type { Config } from '../config/config.ts';
import type { World } from '../core/world.ts';
import { type AddressGuard, createAddressGuard } from '../net/addresses.ts';
import {
  createResolver,
  type OnLookup,
  type Resolver,
  systemServers,
} from '../net/dns/resolver.ts';

export type Network = { resolver: Resolver; guard: AddressGuard };

/** The caller closes the resolver. */
export function createNetwork(
  config: Pick<Config, 'allowPrivateNetworks' | 'dnsServers' | 'dnsTrustAd'>,
  world: Pick<World, 'monotonicMs'>,
  onLookup?: OnLookup,
): Network {
  const interfaces = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return {
    resolver: createResolver({
      servers: config.dnsServers ?? systemServers(),
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
