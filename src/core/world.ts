/**
 * The outside world as an argument. Below server.ts nothing reads a clock or throws dice by
 * itself: a test passes its own world in three lines.
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
