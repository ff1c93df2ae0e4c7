/**
 * Runs steps and judges them: tools one after the other, then the files of all test steps, several
 * at a time, each in a process of its own.
 *
 * A tool passes when it exits 0; a test file when also at least one test ran, none was skipped, and
 * no process of it is left. A suite that silently runs less is worse than one that fails.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { findEngine, type KeptEngine, SHARED_ENGINE } from '../support/engine.ts';
import type { Kept } from '../support/keeper.ts';
import { findService, type KeptService, SHARED_SERVICE } from '../support/kept-service.ts';
import { WITHOUT_LINKS } from '../support/letterhaus.ts';
import { runCommand } from './command.ts';
import { reachedFrom } from './imports.ts';
import { ROOT, type Step, type TestStep, type ToolStep } from './steps.ts';

/** Ends tests that hang. On a machine with a load of twenty a test of 15 s takes minutes and is not wrong. */
const TEST_TIMEOUT_MS = 300_000;
const FILE_TIMEOUT_MS = 600_000;
const TOOL_TIMEOUT_MS = 300_000;

export type TestCounts = {
  passed: number;
  /** With those that were cancelled: timed out, or cut short by the end of the file. */
  failed: number;
  /** With those marked `todo`. */
  skipped: number;
};

export type FileResult = {
  path: string;
  step: TestStep;
  startedAtMs: number;
  endedAtMs: number;
  counts: TestCounts;
  output: string;
  /** One or more sentences; null when the file passed. */
  failure: string | null;
};

export type StepResult = {
  step: Step;
  durationMs: number;
  /** null for tools */
  counts: TestCounts | null;
  /** The output of a tool. */
  output: string;
  /** One or more sentences; null when the step passed. */
  failure: string | null;
};

export type RunOptions = {
  /** Test files that run at the same time. */
  jobs: number;
  /** As many more while cores are idle; by default none. */
  spareJobs?: number;
  onTool?: (result: StepResult) => void;
  /** @param left files that have not ended yet */
  onFile?: (result: FileResult, left: number) => void;
};

/** @returns the results in the order of the steps; a step that fails does not stop the others */
export async function runSteps(steps: readonly Step[], options: RunOptions): Promise<StepResult[]> {
  const results: StepResult[] = [];
  for (const step of steps) {
    if (step.kind !== 'tool') continue;
    const result = await runTool(step);
    options.onTool?.(result);
    results.push(result);
  }
  const tests = steps.filter((step) => step.kind === 'tests');
  const files = await runFiles(tests, options);
  return [...results, ...tests.map((step) => judge(step, files))];
}

async function runTool(step: ToolStep): Promise<StepResult> {
  const startedAtMs = performance.now();
  const [name, ...args] = step.command;
  const program = join(ROOT, 'node_modules/.bin', name);
  const end = await runCommand([program, ...args], { timeoutMs: TOOL_TIMEOUT_MS });
  return { step, durationMs: performance.now() - startedAtMs, counts: null, ...end };
}

type WaitingFile = Pick<FileResult, 'path' | 'step'>;

/**
 * Half of the jobs begin with the shortest files, so that a slip in pure code shows early, half with the
 * longest, which often wait: together they keep all cores busy. Some short ones are left for the end, when the
 * last of middle length would have cores to themselves.
 */
async function runFiles(steps: readonly TestStep[], options: RunOptions): Promise<FileResult[]> {
  const lasted = lastDurationsMs();
  const expectedMs = ({ path, step }: WaitingFile) =>
    lasted[path] ?? EXPECTED_MS[step.name] ?? EXPECTED_MS['unit'] ?? 0;
  const all = steps.flatMap((step): WaitingFile[] => step.files.map((path) => ({ path, step })));
  const alone = all.filter(({ step }) => step.alone !== undefined);
  const waiting = all
    .filter(({ step }) => step.alone === undefined)
    .toSorted((one, other) => expectedMs(one) - expectedMs(other));
  const shortCount = waiting.filter((file) => expectedMs(file) <= SHORT_MS).length;
  const forTheEnd = waiting.splice(shortCount / 2, shortCount / 2);
  const results: FileResult[] = [];
  const total = all.length;
  const shared = new SharedParts();
  const run = async (file: WaitingFile): Promise<void> => {
    const result = await runFile(file, shared);
    results.push(result);
    options.onFile?.(result, total - results.length);
  };
  const runNext = async (fromFront: boolean): Promise<boolean> => {
    const file = (fromFront ? waiting.shift() : waiting.pop()) ?? forTheEnd.pop();
    if (file === undefined) return false;
    await run(file);
    return true;
  };
  const work = async (job: number): Promise<void> => {
    while (await runNext(job % 2 === 0));
  };
  const isOver = () => waiting.length === 0;
  const workWhileIdle = async (): Promise<void> => {
    while (await coresAreIdle(isOver)) await runNext(false);
  };
  try {
    const { jobs, spareJobs = 0 } = options;
    const regular = Array.from({ length: jobs }, (_, job) => work(job));
    const spare = Array.from({ length: spareJobs }, workWhileIdle);
    await Promise.all([...regular, ...spare]);
    for (const group of groupsOf(alone)) {
      const working = Array.from({ length: jobs }, async () => {
        for (let file = group.shift(); file !== undefined; file = group.shift()) await run(file);
      });
      await Promise.all(working);
    }
  } finally {
    await shared.stop();
  }
  keepDurations(results);
  return results;
}

/** Those that run at the same time, in the order of their first files. */
function groupsOf(alone: readonly WaitingFile[]): WaitingFile[][] {
  const groups = Map.groupBy(
    alone,
    ({ path, step }) => step.alone?.groups.find((group) => group.includes(path)) ?? path,
  );
  return [...groups.values()];
}

/** Share of the time of all cores over MEASURE_MS. For less, cores are never idle: tests wait for one another. */
const IDLE_SHARE = 0.15;
const MEASURE_MS = 500;

/** @returns true when cores have been idle; false once it is over */
async function coresAreIdle(isOver: () => boolean): Promise<boolean> {
  while (!isOver()) {
    const before = coreTimes();
    await delay(MEASURE_MS);
    const after = coreTimes();
    if (after.idle - before.idle > IDLE_SHARE * (after.all - before.all)) return !isOver();
  }
  return false;
}

/** In milliseconds, of all cores together. */
function coreTimes(): { idle: number; all: number } {
  const times = cpus().map((core) => core.times);
  const all = times.flatMap((one) => Object.values(one)).reduce((sum, ms) => sum + ms, 0);
  return { idle: times.reduce((sum, { idle }) => sum + idle, 0), all };
}

const SHORT_MS = 1_000;
/** The time that each file took when it last passed in this clone. */
const DURATIONS = join(ROOT, 'node_modules/.cache/test-durations.json');
/** Expected time of a file that has not run in this clone, by the name of its step. */
const EXPECTED_MS: Readonly<Record<string, number>> = {
  unit: 1_000,
  launcher: 5_000,
  api: 6_000,
  journey: 15_000,
  browser: 30_000,
};

function lastDurationsMs(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(DURATIONS, 'utf8')) as Record<string, number>;
  } catch {
    return {}; // the first run, or another run is writing it: the order is only a matter of speed
  }
}

function keepDurations(results: readonly FileResult[]): void {
  const passed = results.filter(({ path, failure }) => failure === null && !isAbsolute(path));
  if (passed.length === 0) return;
  const took = passed.map(({ path, startedAtMs, endedAtMs }) => [
    path,
    Math.round(endedAtMs - startedAtMs),
  ]);
  mkdirSync(dirname(DURATIONS), { recursive: true });
  writeFileSync(DURATIONS, JSON.stringify({ ...lastDurationsMs(), ...Object.fromEntries(took) }));
}

async function runFile({ path, step }: WaitingFile, shared: SharedParts): Promise<FileResult> {
  const env = await shared.environmentFor(path);
  const startedAtMs = performance.now();
  const options = ['--test-reporter=spec', `--test-timeout=${TEST_TIMEOUT_MS}`];
  const args = [WITHOUT_LINKS, ...options, path];
  const { output, failure } = await runCommand(args, { env, timeoutMs: FILE_TIMEOUT_MS });
  const counts = readCounts(output);
  const complaints = [whyNotEnough(counts), failure].filter((text) => text !== null);
  return {
    path,
    step,
    startedAtMs,
    endedAtMs: performance.now(),
    counts,
    output,
    failure: complaints.length > 0 ? complaints.join(' ') : null,
  };
}

/** One PostgreSQL, and one service for those that share it, started for the first file that can use it. */
class SharedParts {
  #engine: Promise<Kept<KeptEngine>> | null = null;
  #service: Promise<Kept<KeptService>> | null = null;

  async environmentFor(path: string): Promise<Record<string, string>> {
    const reached = reachedFrom(path);
    if (!reached.has('test/support/engine.ts')) return {};
    this.#engine ??= findEngine();
    const engine = { [SHARED_ENGINE]: JSON.stringify(await this.#engine) };
    if (!reached.has('test/support/shared-service.ts')) return engine;
    this.#service ??= findService(engine);
    return { ...engine, [SHARED_SERVICE]: JSON.stringify(await this.#service) };
  }

  async stop(): Promise<void> {
    await (await this.#service)?.stop();
    await (await this.#engine)?.stop();
  }
}

/** @param output all that a test file wrote, in the format of Node's `spec` reporter */
function readCounts(output: string): TestCounts {
  const text = stripVTControlCharacters(output);
  const last = (name: string) => {
    const all = [...text.matchAll(new RegExp(`^ℹ ${name} (\\d+)$`, 'gm'))];
    return Number(all.at(-1)?.[1] ?? 0);
  };
  return {
    passed: last('pass'),
    failed: last('fail') + last('cancelled'),
    skipped: last('skipped') + last('todo'),
  };
}

function whyNotEnough({ passed, failed, skipped }: TestCounts): string | null {
  if (failed > 0) return `${failed} failed.`;
  // Elsewhere a test may have nothing to test on; here, all of them have.
  const complete = process.platform === 'linux' && process.arch === 'x64';
  if (complete && skipped > 0) return `${skipped} skipped; here all tests run.`;
  return passed + skipped === 0 ? 'No test ran.' : null;
}

function judge(step: TestStep, all: readonly FileResult[]): StepResult {
  const files = all.filter((file) => file.step === step);
  const sum = (name: keyof TestCounts) =>
    files.reduce((total, { counts }) => total + counts[name], 0);
  const failures = files.flatMap(({ path, failure }) => (failure ? [`${path}: ${failure}`] : []));
  if (step.files.length === 0) failures.push('There are no test files.');
  return {
    step,
    durationMs:
      files.length === 0
        ? 0
        : Math.max(...files.map((file) => file.endedAtMs)) -
          Math.min(...files.map((file) => file.startedAtMs)),
    counts: { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped') },
    output: '',
    failure: failures.length > 0 ? failures.join('\n') : null,
  };
}
