/** Makes a target of several formats. Each has samples, fragments to string together, and its reader. */
import type { RandomSource } from '../../chaos/random.ts';
import { filled, mutated, strung, unitOf } from '../generators.ts';
import type { Input, Target } from '../target.ts';

export type Format = {
  samples: () => readonly string[];
  fragments: readonly string[];
  read: (bytes: Buffer) => void | Promise<void>;
};

export function targetOf(
  { name, about }: Pick<Target, 'name' | 'about'>,
  formats: Readonly<Record<string, Format>>,
): Target {
  const kinds = Object.keys(formats);
  return {
    name,
    about,
    generate: (random) => generate(random, random.pick(kinds), formats),
    grow: (random) => grow(random, random.pick(kinds), formats),
    growsUpTo: 256 * 1024,
    cpuMsMax: 100,
    open: () => Promise.resolve({ read: ({ kind, bytes }) => formatOf(formats, kind).read(bytes) }),
  };
}

function formatOf(formats: Readonly<Record<string, Format>>, kind: string): Format {
  const format = formats[kind];
  if (format === undefined) throw new Error(`there is no format ${kind}`);
  return format;
}

function generate(
  random: RandomSource,
  kind: string,
  formats: Readonly<Record<string, Format>>,
): Input {
  const { samples, fragments } = formatOf(formats, kind);
  const text = random.chance(0.5)
    ? mutated(random, random.pick(samples()), fragments)
    : strung(random, fragments, 30);
  return { kind, bytes: Buffer.from(text, 'latin1') };
}

function grow(
  random: RandomSource,
  kind: string,
  formats: Readonly<Record<string, Format>>,
): (bytes: number) => Input {
  const { samples, fragments } = formatOf(formats, kind);
  const parts = {
    before: random.chance(0.5) ? '' : random.pick(samples()).slice(0, random.between(0, 200)),
    unit: unitOf(random, fragments),
    after: random.pick(['', 'x', '\r\n']),
  };
  return (bytes) => ({ kind, bytes: Buffer.from(filled(parts, bytes), 'latin1') });
}
