/**
 * One `letterhaus start --json` in its own process group. It dies with the test process, unless kill -9 ends that.
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { MAIN, WITHOUT_LINKS, type Env } from './letterhaus.ts';
import { waitFor } from './wait.ts';

export type ReadyLine = {
  url: string;
  pid: number;
  data_dir: string;
  database: string;
  metrics_url?: string;
  inbound_port?: number;
  submission_ports?: number[];
  test_key?: string;
  sign_in_url?: string;
};

/** Options of the runner (test/runner/run.ts) that services use as well. */
const NODE_ARGS = process.execArgv.filter((arg) => arg === WITHOUT_LINKS);
/** Nine workers on two busy cores took more than 100 s. */
const READY_WITHIN_MS = 240_000;
/** A service may take 30 s to drain. */
const STOP_WITHIN_MS = 90_000;

const groups = new Set<number>();

process.once('exit', killAll);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    killAll();
    process.kill(process.pid, signal);
  });
}

export class ServiceProcess {
  /** Its stderr so far, in whole lines until it has ended: tests parse them. */
  logs = '';
  /** Supervisor and workers have ended, so no process writes to the log. */
  isSilent = false;
  /** Exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  #stdout = '';
  #lastLine = '';
  #end: number | NodeJS.Signals | null = null;

  constructor(
    args: readonly string[],
    env: Env,
    {
      launcher = MAIN,
      logFile,
    }: { launcher?: string | undefined; logFile?: string | undefined } = {},
  ) {
    // Set like the launcher does. The launcher becomes the service: one process, one pid.
    const { NODE_COMPILE_CACHE } = process.env;
    this.#child = spawn(process.execPath, [...NODE_ARGS, launcher, 'start', '--json', ...args], {
      env: { NODE_COMPILE_CACHE, ...env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    groups.add(this.pid);
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => (this.#stdout += text));
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => this.#log(text));
    if (logFile !== undefined) this.#child.stderr.pipe(createWriteStream(logFile));
    this.#child.stderr.once('close', () => {
      this.logs += this.#lastLine;
      this.isSilent = true;
    });
    this.ended = once(this.#child, 'exit').then(([code, signal]) => {
      this.#end = (signal ?? code) as number | NodeJS.Signals;
      return this.#end;
    });
  }

  /** A chunk may end within a line, when much was written since the last one. */
  #log(text: string): void {
    const lines = this.#lastLine + text;
    const end = lines.lastIndexOf('\n') + 1;
    this.logs += lines.slice(0, end);
    this.#lastLine = lines.slice(end);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get isRunning(): boolean {
    return this.#end === null;
  }

  /** Waits for the ready line. @throws with its log when it ends instead */
  async ready(): Promise<ReadyLine> {
    await waitFor(() => this.#stdout.includes('\n') || this.#end !== null, {
      what: 'the service to be ready',
      timeoutMs: READY_WITHIN_MS,
    });
    if (this.#stdout.includes('\n')) return JSON.parse(this.#stdout) as ReadyLine;
    throw new Error(`the service ended with ${this.#end} instead of starting\n${this.logs}`);
  }

  /** Stops it like a service manager. @returns how it ended */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | NodeJS.Signals> {
    if (this.isRunning) process.kill(this.pid, signal);
    return this.#stopped();
  }

  /** Sends SIGINT to supervisor and workers, like Ctrl-C. @returns how it ended */
  async interrupt(): Promise<number | NodeJS.Signals> {
    process.kill(-this.pid, 'SIGINT');
    return this.#stopped();
  }

  /** Kills only the supervisor. */
  async kill9(): Promise<void> {
    process.kill(this.pid, 'SIGKILL');
    await this.ended;
  }

  /** Kills supervisor and workers at once, but not an embedded database, which leads its own group. */
  async killGroup9(): Promise<void> {
    killGroup(this.pid);
    this.#gone(await this.ended);
  }

  /** Waits until it has ended and all its output is read. */
  #stopped(): Promise<number | NodeJS.Signals> {
    return waitFor(() => this.isSilent && this.#end !== null && { end: this.#end }, {
      what: 'the service to stop',
      timeoutMs: STOP_WITHIN_MS,
    }).then(({ end }) => this.#gone(end));
  }

  #gone<End>(end: End): End {
    groups.delete(this.pid);
    return end;
  }
}

function killAll(): void {
  for (const group of groups) killGroup(group);
}

function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
