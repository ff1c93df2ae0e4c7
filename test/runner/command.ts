/**
 * Runs a program with the bundled Node in a process group of its own, and notices when it leaves
 * processes behind: they are ended, and the run counts as failed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { ROOT } from './steps.ts';

/** Time for the last processes of a group to end after its leader, on a busy machine. */
const LINGER_MS = 3_000;
/** Time to clean up between asking a group to end and killing it. */
const GRACE_MS = 5_000;

export type CommandEnd = {
  /** stdout and stderr, as they came. */
  output: string;
  /** One sentence; null when it ended with 0 and left nothing behind. */
  failure: string | null;
};

const running = new Set<number>();
let givenUp = false;

/** @param args of Node: options, script, its arguments */
export async function runCommand(
  args: readonly string[],
  { env = {}, timeoutMs }: { env?: Record<string, string>; timeoutMs: number },
): Promise<CommandEnd> {
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...environment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const group = child.pid ?? 0;
  running.add(group);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const closed = once(child, 'close');
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | string);
  const failure = await Promise.race([ended.then(describeEnd), describeTimeout(timeoutMs)]);
  const leftBehind = !(await isGoneWithin(failure === null ? LINGER_MS : 0, group));
  if (leftBehind) await endGroup(group);
  await closed;
  running.delete(group);
  if (givenUp) await new Promise<never>(() => {});
  return { output, failure: failure ?? (leftBehind ? 'It left processes behind.' : null) };
}

/**
 * Ends what runs now, with everything it started, and resolves when that is gone. Its `runCommand`
 * never resolves, so that nothing is started or printed any more: this process is about to end.
 */
export async function stopCommands(): Promise<void> {
  givenUp = true;
  await Promise.all([...running].map(endGroup));
}

/** Without what would make a nested runner take itself for a test file of ours. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _, ...rest } = process.env;
  return rest;
}

function describeEnd(end: number | string): string | null {
  if (end === 0) return null;
  return typeof end === 'number' ? `It ended with exit code ${end}.` : `It was ended by ${end}.`;
}

async function describeTimeout(timeoutMs: number): Promise<string> {
  await delay(timeoutMs, null, { ref: false });
  return `It did not end within ${timeoutMs / 60_000} minutes.`;
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

/** False when the group has no member any more. */
function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal);
  } catch {
    return false;
  }
}

/** Signals reach zombies too, and in a container often no process reaps them. */
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
