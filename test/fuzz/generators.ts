/** Makes inputs from fragments and samples. All generators share these functions. */
import type { RandomSource } from '../chaos/random.ts';

export function times<Item>(count: number, make: (index: number) => Item): Item[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** Strings together up to `max` fragments. Now and then it repeats one of them many times. */
export function strung(random: RandomSource, fragments: readonly string[], max: number): string {
  return times(random.between(0, max), () => {
    const fragment = random.pick(fragments);
    return random.chance(0.05) ? fragment.repeat(random.between(2, 60)) : fragment;
  }).join('');
}

/** Draws a number of repetitions: mostly few, sometimes very many. */
export function manyTimes(random: RandomSource): number {
  const most = random.pick([3, 3, 10, 10, 60, 300, random.chance(0.02) ? 5_000 : 300]);
  return random.between(1, most);
}

const NOISE = [
  ...'" \' < > ( ) [ ] { } @ , ; : = ? % & \\ / . - _ + * # | ^'.split(' '),
  ' ',
  '\0',
  '\t',
  '\r',
  '\n',
  '\r\n',
  '\n\n',
  '\r\n\r\n',
  '\u00ff',
  '\u00c3\u00a9',
  '\u00ed\u00a0\u0080',
  '=?',
  '?=',
  '""',
  '..',
];

/** Changes a Latin-1 text in a few places: removes, doubles, inserts or reverses a piece. */
export function mutated(random: RandomSource, text: string, fragments: readonly string[]): string {
  let changed = text;
  for (let left = random.between(0, 4); left > 0; left -= 1) {
    const at = random.between(0, changed.length);
    const to = Math.min(changed.length, at + manyTimes(random));
    changed = `${changed.slice(0, at)}${change(random, changed.slice(at, to), fragments)}${changed.slice(to)}`;
  }
  return random.chance(0.05) ? changed.slice(0, random.between(0, changed.length)) : changed;
}

function change(random: RandomSource, piece: string, fragments: readonly string[]): string {
  switch (random.between(0, 5)) {
    case 0:
      return '';
    case 1:
      return piece.repeat(Math.min(manyTimes(random), Math.ceil(20_000 / (piece.length + 1))));
    case 2:
      return `${piece}${random.pick(fragments)}`;
    case 3:
      return `${random.pick(NOISE).repeat(manyTimes(random))}${piece}`;
    case 4:
      return piece.split('').toReversed().join('');
    default:
      return `${String.fromCharCode(random.between(0, 255))}${piece.slice(1)}`;
  }
}

/** Returns `before`, then `unit` repeated, then `after`, together `length` characters long. */
export function filled(
  { before, unit, after }: { before: string; unit: string; after: string },
  length: number,
): string {
  const room = Math.max(1, length - before.length - after.length);
  return `${before}${unit.repeat(Math.ceil(room / Math.max(1, unit.length))).slice(0, room)}${after}`;
}

/** Pieces of long runs. A pattern that may begin anew at each piece takes quadratic time for a run. */
const RUNS = [...' \t.-"<@=0a>(;,'.split(''), ' ', ' ', '\r', '\n', 'a', '"a', 'a.', '(a'];
const LENGTHS = [1, 30, 400, 1_000, 1_000, 8_000, 60_000];

/** Returns a unit for growing inputs: a line with a long run in it, or a few fragments and runs in any order. */
export function unitOf(random: RandomSource, fragments: readonly string[]): string {
  const run = () => random.pick(RUNS).repeat(random.pick(LENGTHS));
  const repeated = () => random.pick(fragments).repeat(random.pick([1, 1, 3, 30, 120]));
  const begin = random.chance(0.5) ? random.pick(fragments) : '';
  const end = random.pick(['', 'x', 'x ', '@', '"', ';', ':']);
  switch (random.between(0, 3)) {
    case 0:
      return `${run()}${end}${repeated()}\r\n`;
    case 1:
      return `${begin}${run()}${end}\r\n`;
    case 2:
      return `${begin}${repeated()}${end}`;
    default:
      return times(random.between(1, 4), () => (random.chance(0.5) ? run() : repeated())).join('');
  }
}
