/** The real clock and randomness; only service/, cli/ and main.ts pass it down. */
import type { World } from '../../lib/world.ts';
import { newId } from '../../database/ids.ts';

export const systemWorld: World = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  random: () => Math.random(),
  newId,
};
