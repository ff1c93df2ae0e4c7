/** The real clock and randomness; only service/, cli/ and main.ts pass it down. */
import type { World } from '../core/world.ts';
import { newId } from '../store/ids.ts';

export const systemWorld: World = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  random: () => Math.random(),
  newId,
};
