/**
 * The outside world as an argument. Below service/ nothing reads a clock or a source of randomness
 * directly: a test passes its own World.
 */
export type World = {
  /** Wall time, milliseconds since 1970. */
  now(): number;
  /** A clock that never jumps, milliseconds. */
  monotonicMs(): number;
  /** A random number, 0 (inclusive) to 1. */
  random(): number;
  /** A new UUIDv7: unique, sortable by creation. */
  newId(): string;
};

/**
 * Options with which an `lru-cache` measures ages by the clock of a World. It takes the time 0 for
 * unset.
 */
export function agesBy(world: Pick<World, 'monotonicMs'>) {
  return { ttlResolution: 0, perf: { now: () => world.monotonicMs() + 1 } };
}
