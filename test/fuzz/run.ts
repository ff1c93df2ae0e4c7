/**
 * Gives a target its inputs and detects exceptions, too much CPU time for an input, and time that grows faster than the
 * input. The seed and its number identify an input.
 */
import { type RandomSource, randomFor } from '../chaos/random.ts';
import type { Input, Reader, Target } from './target.ts';

export type Finding = { number: number; what: string; input: Input };

export type Outcome = {
  runs: number;
  finding: Finding | null;
  /** Maximum CPU time of an input in milliseconds. */
  slowestMs: number;
  /** Number of grown inputs, and the steepest growth of their time: 1 is linear. */
  grown: number;
  steepest: number;
};

export type RunOptions = {
  seed: number;
  /** Number of the first input. */
  from: number;
  runs: number;
  /** Interval of grown inputs, which are read in two sizes. Default: 200. */
  grownEvery?: number;
  /** Called before each input. */
  onInput?: (number: number) => void;
};

const GROWN_EVERY = 200;
/** Ratio of the long input's length to that of the short one. Quadratic growth takes the square of it in time. */
const FACTOR = 8;
const STEEPNESS_MAX = 4;
/** Milliseconds below which a measurement is mostly noise. */
const MEASURABLE_MS = 5;
const REPEATED = 4;

export async function runTarget(target: Target, options: RunOptions): Promise<Outcome> {
  const reader = await target.open();
  try {
    return await readAll({ target, reader }, options);
  } finally {
    await reader.close?.();
  }
}

type Fuzzed = { target: Target; reader: Reader };

async function readAll(
  fuzzed: Fuzzed,
  { seed, from, runs, grownEvery = GROWN_EVERY, onInput }: RunOptions,
): Promise<Outcome> {
  const { target } = fuzzed;
  const outcome: Outcome = { runs: 0, finding: null, slowestMs: 0, grown: 0, steepest: 0 };
  for (let number = from; number < from + runs; number += 1) {
    onInput?.(number);
    const isGrown = number % grownEvery === 0;
    const random = randomFor(seed, `${target.name} ${number}`);
    const input = isGrown ? shortOf(target, random) : target.generate(random);
    const what = await problemWith(input, fuzzed, outcome);
    outcome.runs += 1;
    if (what !== null) return { ...outcome, finding: { number, what, input } };
    if (!isGrown) continue;
    const steep = await growthProblem(randomFor(seed, `${target.name} ${number}`), fuzzed, outcome);
    outcome.grown += 1;
    if (steep !== null) return { ...outcome, finding: { number, ...steep } };
  }
  return outcome;
}

/** Returns the input with this number, in the form that a run reads first. */
export function inputOf(target: Target, seed: number, number: number): Input {
  const random = randomFor(seed, `${target.name} ${number}`);
  return number % GROWN_EVERY === 0 ? shortOf(target, random) : target.generate(random);
}

function shortOf(target: Target, random: RandomSource): Input {
  return target.grow(random)(target.growsUpTo / FACTOR);
}

/** Returns the problem as a sentence, or null. */
async function problemWith(input: Input, fuzzed: Fuzzed, outcome: Outcome): Promise<string | null> {
  try {
    const firstMs = await cpuMs(input, fuzzed.reader);
    const { cpuMsMax } = fuzzed.target;
    // A slow first reading may be due to garbage collection or uncompiled code, so only repeated slowness counts.
    const tookMs = firstMs <= cpuMsMax / 2 ? firstMs : await leastCpuMs(input, fuzzed.reader);
    outcome.slowestMs = Math.max(outcome.slowestMs, tookMs);
    return tookMs > cpuMsMax ? `took ${tookMs.toFixed(1)} ms of CPU, ${cpuMsMax} may be` : null;
  } catch (error) {
    return error instanceof Error
      ? `threw ${error.stack ?? error.message}`
      : `threw ${String(error)}`;
  }
}

async function growthProblem(
  random: RandomSource,
  { target, reader }: Fuzzed,
  outcome: Outcome,
): Promise<{ what: string; input: Input } | null> {
  const ofLength = target.grow(random);
  const short = ofLength(target.growsUpTo / FACTOR);
  const long = ofLength(target.growsUpTo);
  const what = await problemWith(long, { target, reader }, outcome);
  if (what !== null) return { what, input: long };
  const measure = () => steepnessOf({ short, long }, reader);
  let found = await measure();
  // A steep growth is measured again, because all code is compiled by now.
  for (let left = 2; left > 0 && found.steepness > STEEPNESS_MAX; left -= 1) {
    found = await measure();
  }
  outcome.steepest = Math.max(outcome.steepest, found.steepness);
  if (found.steepness <= STEEPNESS_MAX) return null;
  return { what: `takes longer than linear: ${found.measured}`, input: long };
}

/** Returns the growth of the time per byte; 0 when the time is too short to measure. */
async function steepnessOf(
  { short, long }: { short: Input; long: Input },
  reader: Reader,
): Promise<{ steepness: number; measured: string }> {
  const longMs = await leastCpuMs(long, reader);
  // The short input is read FACTOR times in one measurement, because CPU clocks are coarse. In linear time this equals
  // the long one.
  const manyMs = await leastCpuMs(short, reader, FACTOR);
  const shortMs = Math.max(manyMs, MEASURABLE_MS) / FACTOR;
  const steepness = longMs / shortMs / (long.bytes.length / short.bytes.length);
  const measured = `${shortMs.toFixed(2)} ms for ${short.bytes.length}, ${longMs.toFixed(2)} ms for ${long.bytes.length} bytes`;
  return { steepness: longMs < MEASURABLE_MS ? 0 : steepness, measured };
}

async function leastCpuMs(input: Input, reader: Reader, times = 1): Promise<number> {
  let least = Infinity;
  for (let left = REPEATED; left > 0; left -= 1) {
    least = Math.min(least, await cpuMs(input, reader, times));
  }
  return least;
}

/** Measures the CPU time of this thread, which does not depend on other programs. */
async function cpuMs(input: Input, reader: Reader, times = 1): Promise<number> {
  const before = process.threadCpuUsage();
  for (let left = times; left > 0; left -= 1) {
    const reading = reader.read(input);
    // A reader that finishes synchronously needs no turn of the event loop.
    if (reading !== undefined) await reading;
  }
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
