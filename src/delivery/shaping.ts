/**
 * What the order of work (dispatcher.ts) is told about the receivers: which destinations are one
 * lane, how much of a lane may be under way, and whether it is to be left alone.
 *
 * A lane is the unit of turn and trouble: the provider once its mail servers are known
 * (net/providers.ts), the destination domain before. Next: connections.ts.
 */
import type { Connections } from './connections.ts';

export type Shaping = {
  laneOf(destination: string): string;
  /** Jobs of the lane that may be under way at once on this worker; 1 or more. */
  windowOf(lane: string): number;
  /**
   * More than 0: the lane is in trouble as a whole, and none of its jobs is to be started for so
   * long. A job that would expire before the end is started all the same: the attempt decides.
   */
  restsForMs(lane: string): number;
  /** The listener hears when the lane's window grew or its rest began or ended. */
  onChange(listener: (lane: string) => void): void;
};

/** @param providerOf the provider of a destination; the destination itself while it is not known */
export function createShaping(
  connections: Connections,
  providerOf: (destination: string) => string,
): Shaping {
  return {
    laneOf: providerOf,
    windowOf: (lane) => connections.windowOf(lane),
    restsForMs: (lane) => connections.restsForMs(lane),
    onChange: (listener) => connections.onChange(listener),
  };
}
