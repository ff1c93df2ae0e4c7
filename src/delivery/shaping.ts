/**
 * What the order of work (dispatcher.ts) is told about the receivers: which destinations are one
 * provider, how much of a provider may be under way, and whether it is to be left alone.
 *
 * A provider is the unit of turn and trouble: the provider once its mail servers are known
 * (net/providers.ts), the destination domain before.
 */
import type { Connections } from './connections.ts';

export type Shaping = {
  providerOf(destination: string): string;
  /** Deliveries of the provider that may be under way at once on this worker; 1 or more. */
  windowOf(provider: string): number;
  /**
   * More than 0: the provider is in trouble as a whole, and none of its deliveries is to be started for so
   * long. A delivery that would expire before the end is started all the same: the attempt decides.
   */
  suspendedForMs(provider: string): number;
  /** The listener hears when the provider's window grew or its rest began or ended. */
  onChange(listener: (provider: string) => void): void;
};

/** @param providerOf the provider of a destination; the destination itself while it is not known */
export function createShaping(
  connections: Connections,
  providerOf: (destination: string) => string,
): Shaping {
  return {
    providerOf: providerOf,
    windowOf: (provider) => connections.windowOf(provider),
    suspendedForMs: (provider) => connections.suspendedForMs(provider),
    onChange: (listener) => connections.onChange(listener),
  };
}
