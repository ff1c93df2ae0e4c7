/**
 * `npm run fuzz`: gives generated inputs to all parsers of untrusted input. Each target runs in a thread, so that the
 * main thread notices a hang.
 */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { loadSamples } from './targets/report-samples.ts';
import { TARGETS } from './targets.ts';
import type { Target } from './target.ts';
import { type Finding, inputOf, type Outcome, type RunOptions } from './run.ts';

const SEED_MAX = 2 ** 31 - 1;
const RUNS_MAX = 1_000_000_000;
const RUNS = 10_000;

const HELP = `Generates inputs for each parser, and searches for one that throws, hangs or takes more than linear time.

  npm run fuzz -- [--runs N] [--seed S] [--only target,...] [--at N] [--samples FOLDER]

  --runs N          generate N inputs for each target (default: ${RUNS})
  --seed S          repeat an earlier run; the default is random and printed
  --only target,... test only these targets
  --at N            begin with input number N; with --runs 1 it repeats a counterexample
  --samples FOLDER  also derive reports from the messages (*.eml) of this folder
  --help            show this text

Targets:

${TARGETS.map(({ name, about }) => `  ${name.padEnd(10)}${about}`).join('\n')}

Prints one line for each target. The exit code is 1 when an input failed. Progress goes to stderr.
`;

type Options = RunOptions & { targets: readonly Target[]; samples: string | null };

const SILENT_MS_MAX = 60_000;
const PROGRESS_MS = 10_000;

async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args);
  if (options === 'help') {
    process.stdout.write(HELP);
    return 0;
  }
  if ('problem' in options) {
    process.stderr.write(`fuzz: ${options.problem}\n`);
    return 2;
  }
  process.stdout.write(`seed ${options.seed}\n`);
  let findings = 0;
  for (const target of options.targets) {
    const startedMs = performance.now();
    const outcome = await runInThread(target, options);
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
    process.stdout.write(`${lineOf(target, outcome, seconds)}\n`);
    if (outcome.finding === null) continue;
    findings += 1;
    process.stdout.write(`${describe(target, outcome.finding, options)}\n`);
  }
  return findings > 0 ? 1 : 0;
}

function readOptions(args: readonly string[]): Options | 'help' | { problem: string } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        runs: { type: 'string' },
        seed: { type: 'string' },
        only: { type: 'string', default: '' },
        at: { type: 'string' },
        samples: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) return 'help';
    const names = values.only.split(',').filter((name) => name !== '');
    const unknown = names.find((name) => !TARGETS.some((target) => target.name === name));
    if (unknown !== undefined) {
      return { problem: `there is no target ${unknown}; --help names them.` };
    }
    return {
      runs: numberOf('runs', values.runs, RUNS_MAX) ?? RUNS,
      seed: numberOf('seed', values.seed, SEED_MAX) ?? randomInt(1, SEED_MAX),
      from: numberOf('at', values.at, RUNS_MAX) ?? 0,
      targets: TARGETS.filter(({ name }) => names.length === 0 || names.includes(name)),
      samples: values.samples ?? null,
    };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function numberOf(name: string, text: string | undefined, max: number): number | null {
  if (text === undefined) return null;
  const number = Number(text);
  if (/^\d+$/.test(text) && number <= max) return number;
  throw new Error(`--${name}: write a number up to ${max}, not ${JSON.stringify(text)}.`);
}

/** Runs a target in a thread, which reports the number of its current input. */
async function runInThread(target: Target, options: Options): Promise<Outcome> {
  const { seed, from, runs, samples } = options;
  const current = new Int32Array(new SharedArrayBuffer(4));
  const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
  const worker = new Worker(new URL('thread.ts', import.meta.url), {
    workerData: { target: target.name, seed, from, runs, samples, current },
  });
  let last = { number: -1, atMs: performance.now(), loggedMs: performance.now() };
  const watch = setInterval(() => {
    const number = Atomics.load(current, 0);
    const nowMs = performance.now();
    if (number !== last.number) last = { ...last, number, atMs: nowMs };
    if (nowMs - last.loggedMs > PROGRESS_MS) {
      last.loggedMs = nowMs;
      process.stderr.write(`${target.name}: ${number - from} of ${runs}\n`);
    }
    if (nowMs - last.atMs > SILENT_MS_MAX) resolve(hanging(target, number, options));
  }, 1_000);
  worker.on('message', resolve).on('error', reject);
  try {
    return await promise;
  } finally {
    clearInterval(watch);
    await worker.terminate();
  }
}

function hanging(target: Target, number: number, { seed, from, samples }: Options): Outcome {
  if (samples !== null) loadSamples(samples);
  const finding = { number, what: 'hangs', input: inputOf(target, seed, number) };
  return { runs: number - from, finding, slowestMs: SILENT_MS_MAX, grown: 0, steepest: 0 };
}

function lineOf({ name }: Target, outcome: Outcome, seconds: string): string {
  const { runs, finding, slowestMs, grown, steepest } = outcome;
  const found = finding === null ? 'nothing found' : 'FOUND';
  return (
    `${name}: ${runs} inputs, ${seconds} s, ${found}; slowest ${slowestMs.toFixed(1)} ms of CPU, ` +
    `${grown} grown, steepest ${steepest.toFixed(2)} of linear`
  );
}

const SHOWN_MAX = 2_000;

function describe({ name }: Target, { number, what, input }: Finding, options: Options): string {
  // A buffer that arrives from a thread is only a Uint8Array.
  const bytes = Buffer.from(input.bytes);
  const text = JSON.stringify(bytes.toString('latin1').slice(0, SHOWN_MAX));
  const samples = options.samples === null ? '' : ` --samples ${options.samples}`;
  return [
    `  ${input.kind}, input ${number}, ${bytes.length} bytes: ${what}`,
    `  ${text}`,
    `  again: npm run fuzz -- --only ${name} --seed ${options.seed} --at ${number} --runs 1${samples}`,
  ].join('\n');
}

process.exitCode = await main(process.argv.slice(2));
