/**
 * Gives a target its inputs and detects exceptions, more CPU than any input may
 * take, time that grows faster than the input. An input is known by the seed and its number.
 */
import { type RandomSource, randomFor } from '../chaos/random.ts';
import type { Input, Reader, Target } from './target.ts';

export type Finding = { number: number; what: string; input: Input };

export type Outcome = {
  runs: number;
  finding: Finding | null;
  /** The most CPU that one input took, ms. */
  slowestMs: number;
  /** How many inputs were grown, and the steepest growth: 1 is linear. */
  grown: number;
  steepest: number;
};

export type RunOptions = {
  seed: number;
  /** The number of the first input. */
  from: number;
  runs: number;
  /** Every so many inputs one is read in three sizes; 200 when nothing is said. */
  grownEvery?: number;
  /** Called before each input. */
  onInput?: (number: number) => void;
};

const GROWN_EVERY = 200;
/** How many times as long; quadratic growth takes the square of it. */
const FACTOR = 8;
const STEEPNESS_MAX = 4;
/** Below this a measurement is mostly noise. */
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

/** The input of a number, as a run reads it first. */
export function inputOf(target: Target, seed: number, number: number): Input {
  const random = randomFor(seed, `${target.name} ${number}`);
  return number % GROWN_EVERY === 0 ? shortOf(target, random) : target.generate(random);
}

function shortOf(target: Target, random: RandomSource): Input {
  return target.grow(random)(target.growsUpTo / FACTOR);
}

/** A sentence, or null. */
async function problemWith(input: Input, fuzzed: Fuzzed, outcome: Outcome): Promise<string | null> {
  try {
    const firstMs = await cpuMs(input, fuzzed.reader);
    const { cpuMsMax } = fuzzed.target;
    // A collection of garbage, or code that was not compiled yet: only what stays slow counts.
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
  // Once more before it is believed: by now all code is compiled.
  for (let left = 2; left > 0 && found.steepness > STEEPNESS_MAX; left -= 1) {
    found = await measure();
  }
  outcome.steepest = Math.max(outcome.steepest, found.steepness);
  if (found.steepness <= STEEPNESS_MAX) return null;
  return { what: `takes longer than linear: ${found.measured}`, input: long };
}

/** Growth of the time per byte; 0 where the time is too short to measure. */
async function steepnessOf(
  { short, long }: { short: Input; long: Input },
  reader: Reader,
): Promise<{ steepness: number; measured: string }> {
  const longMs = await leastCpuMs(long, reader);
  // As much work in one piece as the long one if it is linear: clocks of CPU are coarse.
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
    // A reader that is done at once needs no turn of the event loop.
    if (reading !== undefined) await reading;
  }
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
