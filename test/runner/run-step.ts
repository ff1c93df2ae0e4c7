/**
 * Runs one step in a process group of its own and judges it.
 *
 * A step passes when its command exits 0 and, for tests: at least one test ran, none was skipped,
 * no file was empty, and no process of it is left. The rules are there because a suite that
 * quietly runs less is worse than one that fails.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readTestReport, type TestCounts } from './read-test-report.ts';
import { ROOT, type Step } from './steps.ts';

/** Two cores, and journeys mostly wait for sockets. */
const CONCURRENCY = 2;
const TEST_TIMEOUT_MS = 120_000;
const STEP_TIMEOUT_MS = 900_000;
/** Time for the last processes of a step to end after the step. */
const LINGER_MS = 1_000;
/** Time to clean up between asking a step to end and killing it. */
const GRACE_MS = 5_000;

export type StepResult = {
  step: Step;
  durationMs: number;
  counts: TestCounts | null;
  output: string;
  /** One sentence; null when the step passed. */
  failure: string | null;
};

let running: number | null = null;
let givenUp = false;

/** @param verbose write the output through as it comes */
export async function runStep(step: Step, verbose: boolean): Promise<StepResult> {
  const startedAt = performance.now();
  const finish = (
    output: string,
    counts: TestCounts | null,
    failure: string | null,
  ): StepResult => ({
    step,
    durationMs: performance.now() - startedAt,
    counts,
    output,
    failure,
  });
  if (step.kind === 'tests' && step.files.length === 0) {
    return finish('', null, 'There are no test files.');
  }
  const end = await runCommand(commandOf(step), verbose);
  const counts = step.kind === 'tests' ? readTestReport(end.output) : null;
  const complaints = [counts && whyNotEnough(counts), end.failure].filter((text) => text !== null);
  return finish(end.output, counts, complaints.length > 0 ? complaints.join(' ') : null);
}

/**
 * Ends what runs now, with everything it started, and resolves when that is gone. Its `runStep`
 * never resolves, so that nothing is started or said any more: this process is about to end.
 */
export async function stopRunningStep(): Promise<void> {
  givenUp = true;
  if (running !== null) await endGroup(running);
}

function commandOf(step: Step): string[] {
  if (step.kind === 'tool') {
    const [name, ...args] = step.command;
    return [join(ROOT, 'node_modules/.bin', name), ...args];
  }
  return [
    '--test',
    '--test-reporter=spec',
    `--test-concurrency=${CONCURRENCY}`,
    `--test-timeout=${TEST_TIMEOUT_MS}`,
    ...(step.globalSetup === null ? [] : [`--test-global-setup=${step.globalSetup}`]),
    ...step.files,
  ];
}

type CommandEnd = { output: string; failure: string | null };

async function runCommand(args: string[], verbose: boolean): Promise<CommandEnd> {
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const group = child.pid ?? 0;
  running = group;
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (verbose) process.stdout.write(text);
    });
  }
  const closed = once(child, 'close');
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | string);
  const failure = await Promise.race([ended.then(describeEnd), describeTimeout()]);
  const leftBehind = !(await isGoneWithin(LINGER_MS, group));
  if (leftBehind) await endGroup(group);
  running = null;
  await closed;
  if (givenUp) await new Promise<never>(() => {});
  return { output, failure: failure ?? (leftBehind ? 'It left processes behind.' : null) };
}

/** Without what would make a nested runner think that it is a test of ours. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _, ...rest } = process.env;
  return rest;
}

function describeEnd(end: number | string): string | null {
  if (end === 0) return null;
  return typeof end === 'number' ? `It ended with exit code ${end}.` : `It was ended by ${end}.`;
}

async function describeTimeout(): Promise<string> {
  await delay(STEP_TIMEOUT_MS, null, { ref: false });
  return `It did not end within ${STEP_TIMEOUT_MS / 60_000} minutes.`;
}

function whyNotEnough(counts: TestCounts): string | null {
  if (counts.emptyFiles.length > 0) return `No tests in ${counts.emptyFiles.join(', ')}.`;
  if (counts.passed + counts.failed === 0) return 'No test ran.';
  if (counts.failed > 0) return `${counts.failed} failed.`;
  // Elsewhere a test may have nothing to test on; here, all of them have.
  const complete = process.platform === 'linux' && process.arch === 'x64';
  return complete && counts.skipped > 0 ? `${counts.skipped} skipped; here all tests run.` : null;
}

async function endGroup(group: number): Promise<void> {
  signalGroup(group, 'SIGTERM');
  if (!(await isGoneWithin(GRACE_MS, group))) signalGroup(group, 'SIGKILL');
}

async function isGoneWithin(limitMs: number, group: number): Promise<boolean> {
  const givenUpAt = performance.now() + limitMs;
  while (isAlive(group)) {
    if (performance.now() > givenUpAt) return false;
    await delay(20);
  }
  return true;
}

function isAlive(group: number): boolean {
  if (!signalGroup(group, 0)) return false;
  return process.platform !== 'linux' || hasLivingMember(group);
}

/** False when nobody is left in the group. */
function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal);
  } catch {
    return false;
  }
}

/** Signals reach the dead too, until they are buried, and in a container often nobody does that. */
function hasLivingMember(group: number): boolean {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.some((pid) => {
    const [state, , processGroup] = statOf(pid);
    return Number(processGroup) === group && state !== 'Z' && state !== 'X';
  });
}

/** proc(5): the fields after the name in brackets, which may hold anything. */
function statOf(pid: string): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return []; // it has just ended
  }
}
