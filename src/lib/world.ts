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

/**
 * Makes an `lru-cache` hold at most this many entries. With its option `max` it would allocate memory for all of them
 * at once, which takes 14 ms of a worker's start.
 */
export function cacheUpTo(entriesMax: number) {
  return { maxSize: entriesMax, sizeCalculation: () => 1 };
}

/**
 * Returns the least skew. The other clock was read at some moment between the two times of this machine, so a slow
 * answer is no skew. Positive: this machine is ahead.
 */
export function leastSkewMs(read: { begunMs: number; otherMs: number; endedMs: number }): number {
  const { begunMs, otherMs, endedMs } = read;
  if (otherMs < begunMs) return begunMs - otherMs;
  return Math.min(0, endedMs - otherMs);
}
