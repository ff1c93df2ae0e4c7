/** The real clock and random source. */
import type { World } from '../../lib/world.ts';
import { newId } from '../../database/ids.ts';

export const systemWorld: World = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  random: () => Math.random(),
  newId,
};
