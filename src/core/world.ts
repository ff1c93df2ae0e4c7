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
