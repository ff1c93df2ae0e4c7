/** Clock, randomness and ids as an argument. Only the service and commands create one. */
export type World = {
  /** Wall time, milliseconds since 1970. */
  now(): number;
  /** A monotonic clock, milliseconds. */
  monotonicMs(): number;
  /** A random number: 0 <= number < 1. */
  random(): number;
  /** A new UUIDv7: unique, and sorted by creation time. */
  newId(): string;
};

/** Makes an `lru-cache` use the clock of a World. The offset avoids time 0, which the cache treats as unset. */
export function cacheClock(world: Pick<World, 'monotonicMs'>) {
  return { ttlResolution: 0, perf: { now: () => world.monotonicMs() + 1 } };
}
