/**
 * The outside world as an argument. Only the service, the configuration and commands read clocks and random
 * numbers; a test passes its own World.
 */
export type World = {
  /** Wall time, milliseconds since 1970. */
  now(): number;
  /** A monotonic clock, milliseconds. */
  monotonicMs(): number;
  /** A random number, 0 (inclusive) to 1. */
  random(): number;
  /** A new UUIDv7: unique, sortable by creation. */
  newId(): string;
};

/**
 * Options with which an `lru-cache` uses the clock of a World. The offset avoids the time 0, which the
 * cache treats as unset.
 */
export function agesBy(world: Pick<World, 'monotonicMs'>) {
  return { ttlResolution: 0, perf: { now: () => world.monotonicMs() + 1 } };
}
