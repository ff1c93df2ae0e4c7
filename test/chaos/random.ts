/**
 * Makes random numbers that are the same for the same seed, with one stream for each purpose. The load's draws do not
 * shift those of the faults, however the two interleave.
 */

export type RandomSource = {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  next(): number;
  /** Returns an integer from `min` to `max`, both included. */
  between(min: number, max: number): number;
  pick<Item>(items: readonly Item[]): Item;
  /** Returns true with this probability: 0 never, 1 always. */
  chance(share: number): boolean;
  shuffled<Item>(items: readonly Item[]): Item[];
};

export function randomFor(seed: number, purpose: string): RandomSource {
  let state = hashOf(`${seed} ${purpose}`);
  /** Mulberry32, which is small and random enough for this purpose. */
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1));
  return {
    next,
    between,
    pick: (items) => items[between(0, items.length - 1)]!,
    chance: (share) => next() < share,
    shuffled(items) {
      const left = [...items];
      return items.map(() => left.splice(between(0, left.length - 1), 1)[0]!);
    },
  };
}

/** Returns the FNV-1a hash. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash;
}
