/** From fragments and samples to inputs: what all generators share. */
import type { Dice } from '../chaos/random.ts';

export function times<Item>(count: number, make: (index: number) => Item): Item[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** So many fragments one after the other, now and then one of them many times. */
export function strung(dice: Dice, fragments: readonly string[], max: number): string {
  return times(dice.between(0, max), () => {
    const fragment = dice.pick(fragments);
    return dice.chance(0.05) ? fragment.repeat(dice.between(2, 60)) : fragment;
  }).join('');
}

/** Of few repetitions most often, of very many sometimes. */
export function manyTimes(dice: Dice): number {
  const most = dice.pick([3, 3, 10, 10, 60, 300, dice.chance(0.02) ? 5_000 : 300]);
  return dice.between(1, most);
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

/** A text in Latin-1 with something cut out, doubled, put in or turned round in a few places. */
export function mutated(dice: Dice, text: string, fragments: readonly string[]): string {
  let changed = text;
  for (let left = dice.between(0, 4); left > 0; left -= 1) {
    const at = dice.between(0, changed.length);
    const to = Math.min(changed.length, at + manyTimes(dice));
    changed = `${changed.slice(0, at)}${change(dice, changed.slice(at, to), fragments)}${changed.slice(to)}`;
  }
  return dice.chance(0.05) ? changed.slice(0, dice.between(0, changed.length)) : changed;
}

function change(dice: Dice, piece: string, fragments: readonly string[]): string {
  switch (dice.between(0, 5)) {
    case 0:
      return '';
    case 1:
      return piece.repeat(Math.min(manyTimes(dice), Math.ceil(20_000 / (piece.length + 1))));
    case 2:
      return `${piece}${dice.pick(fragments)}`;
    case 3:
      return `${dice.pick(NOISE).repeat(manyTimes(dice))}${piece}`;
    case 4:
      return piece.split('').toReversed().join('');
    default:
      return `${String.fromCharCode(dice.between(0, 255))}${piece.slice(1)}`;
  }
}

/** `before`, then `unit` again and again up to so many characters, then `after`. */
export function filled(
  { before, unit, after }: { before: string; unit: string; after: string },
  length: number,
): string {
  const room = Math.max(1, length - before.length - after.length);
  return `${before}${unit.repeat(Math.ceil(room / Math.max(1, unit.length))).slice(0, room)}${after}`;
}

/** What runs are made of: patterns that may begin anew at each of them take the square of the run. */
const RUNS = [...' \t.-"<@=0a>(;,'.split(''), ' ', ' ', '\r', '\n', 'a', '"a', 'a.', '(a'];
const LENGTHS = [1, 30, 400, 1_000, 1_000, 8_000, 60_000];

/** A unit for growing: a line with a long run in it, or a few fragments and runs in any order. */
export function unitOf(dice: Dice, fragments: readonly string[]): string {
  const run = () => dice.pick(RUNS).repeat(dice.pick(LENGTHS));
  const repeated = () => dice.pick(fragments).repeat(dice.pick([1, 1, 3, 30, 120]));
  const begin = dice.chance(0.5) ? dice.pick(fragments) : '';
  const end = dice.pick(['', 'x', 'x ', '@', '"', ';', ':']);
  switch (dice.between(0, 3)) {
    case 0:
      return `${run()}${end}${repeated()}\r\n`;
    case 1:
      return `${begin}${run()}${end}\r\n`;
    case 2:
      return `${begin}${repeated()}${end}`;
    default:
      return times(dice.between(1, 4), () => (dice.chance(0.5) ? run() : repeated())).join('');
  }
}
