/**
 * Runs one node of the service under test and injects faults into it. When the node has ended, its keeper (`keep`)
 * starts it again, armed with its remaining failpoints. Every fault that can cause a duplicate is recorded as a
 * disturbance.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Service } from '../support/service.ts';
import type { Disturbance } from './ledger/ledger-types.ts';

/** Interval at which the log of a node is read and its process is checked. */
const POLL_EVERY_MS = 25;
/** Pattern of the first line of a crash. It does not match the rest of a log line that a kill has cut. */
const CRASH = /^(?:node:|Warning: |\w*Error\b)/;
/** Lines of a stack trace that are kept. */
const TRACE_LINES = 16;
/** Pattern of expected errors: bugs that a failpoint threw, and workers that are killed too often. */
const EXPECTED = /failpoint |The workers cannot run/;
const START_AGAIN_AFTER_MS = 300;

/** Log line that src/service/machine/failpoints.ts writes. */
export type PointLine = { failpoint: string; action: string; pid?: number };

export type NodeReport = {
  /** Called when a failpoint has acted. */
  onPoint: (line: PointLine) => void;
  onLine: (text: string) => void;
};

/** Returns LETTERHAUS_FAILPOINTS for a start of a node; `starts` counts its earlier starts. */
export type PointsFor = (node: string, starts: number) => string;

export class ChaosNode {
  readonly name: string;
  readonly service: Service;
  readonly workers: number;
  readonly disturbances: Disturbance[] = [];
  readonly #traces: string[][] = [];
  #traceLines = 0;
  /** True while the node responds and no stop was requested. */
  isUp = true;
  /** Process id of a worker that is stopped until the end of its fault. No other fault may stop or wake it. */
  frozenPid: number | null = null;
  /** True while supervisor and workers are stopped, until the end of this fault. */
  isFrozen = false;
  /** While this is set, the keeper does not start the node. */
  isKeptDown = false;
  starts = 1;
  readonly #report: NodeReport;
  readonly #pointsFor: PointsFor;
  #pid: number;
  #read = 0;
  #hasStoppedWell = false;
  #isStarting = false;
  #isKept = true;
  #keeping: Promise<unknown> = Promise.resolve();

  constructor(parts: {
    name: string;
    service: Service;
    workers: number;
    report: NodeReport;
    pointsFor: PointsFor;
  }) {
    this.#pointsFor = parts.pointsFor;
    this.name = parts.name;
    this.service = parts.service;
    this.workers = parts.workers;
    this.#report = parts.report;
    this.#pid = parts.service.pid;
  }

  /** Starts the node again whenever it has ended, until `release`. */
  keep(): void {
    this.#keeping = Promise.all([this.#keepAlive(), this.#keepReading()]);
  }

  async release(): Promise<void> {
    this.#isKept = false;
    await this.#keeping;
  }

  disturbed(what: string, fromMs = Date.now(), toMs = Date.now()): Disturbance {
    const disturbance = { node: this.name, fromMs, toMs, what };
    this.disturbances.push(disturbance);
    return disturbance;
  }

  workerPids(): Promise<number[]> {
    return this.service.workerPids();
  }

  async killSupervisor(): Promise<void> {
    this.signal(this.service.pid, 'SIGKILL');
    this.disturbed('supervisor killed');
  }

  /** Kills supervisor and workers at once. */
  async killWhole(): Promise<void> {
    this.isUp = false;
    await this.service.killGroup9();
    this.disturbed('node killed');
  }

  /**
   * Stops the node as an operator does.
   * @returns its exit code or signal
   */
  async stop(): Promise<number | NodeJS.Signals> {
    this.isUp = false;
    const fromMs = Date.now();
    const end = await this.service.stop('SIGTERM').catch((error: Error) => {
      this.#report.onLine(`${this.name}: ${error.message}`);
      return 'SIGKILL' as const;
    });
    this.#hasStoppedWell = end === 0;
    if (end !== 0) this.disturbed(`stop ended with ${end}`, fromMs);
    return end;
  }

  /**
   * Ends the mark of this frozen worker. The mark of another worker stays, which may be frozen by now when this one was
   * killed.
   */
  thawed(pid: number): void {
    if (this.frozenPid === pid) this.frozenPid = null;
  }

  signal(pid: number, signal: NodeJS.Signals): void {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  get isAlive(): boolean {
    try {
      return process.kill(this.service.pid, 0);
    } catch {
      return false;
    }
  }

  async #keepAlive(): Promise<void> {
    while (this.#isKept) {
      if (!this.isAlive && !this.isKeptDown) await this.#startAgain();
      await delay(POLL_EVERY_MS);
    }
  }

  async #startAgain(): Promise<void> {
    this.isUp = false;
    await delay(START_AGAIN_AFTER_MS);
    // A frozen worker that its supervisor left behind would never end by itself.
    await this.service.killGroup9();
    if (!this.#hasStoppedWell) this.disturbed('ended');
    this.#hasStoppedWell = false;
    this.readLogs();
    const { service } = this;
    service.env['LETTERHAUS_FAILPOINTS'] = this.#pointsFor(this.name, this.starts);
    this.#isStarting = true;
    try {
      await service.restart();
      this.isUp = true;
      this.starts += 1;
      this.readLogs();
      this.#isStarting = false;
      this.#report.onLine(`${this.name} is up again`);
    } catch (error) {
      const [reason = '', ...lines] = (error as Error).message.trim().split('\n');
      const why = lines.find((line) => line.startsWith('letterhaus:')) ?? lines.at(-1) ?? '';
      this.#report.onLine(`${this.name}: ${reason}; ${why}`);
      // Its last lines may arrive after its end, so all lines belong to the failed start until one start has succeeded.
    }
  }

  async #keepReading(): Promise<void> {
    while (this.#isKept) {
      this.readLogs();
      await delay(POLL_EVERY_MS);
    }
    this.readLogs();
  }

  readLogs(): void {
    const { pid, logs } = this.service;
    if (pid !== this.#pid) {
      this.#pid = pid;
      this.#read = 0;
    }
    const end = logs.lastIndexOf('\n') + 1;
    if (end <= this.#read) return;
    const lines = logs.slice(this.#read, end - 1).split('\n');
    this.#read = end;
    for (const line of lines) this.#readLogLine(line);
  }

  #readLogLine(line: string): void {
    const fields = parsed(line);
    if (fields === null) {
      if (CRASH.test(line)) {
        if (this.#traceLines <= 0) this.#traces.push([]);
        this.#traceLines = TRACE_LINES;
      }
      // A start may fail, because the database is unavailable or a failpoint ends a worker too early.
      if (this.#traceLines > 0 && !this.#isStarting) this.#traces.at(-1)!.push(line);
      this.#traceLines -= 1;
      return;
    }
    const { msg = '', failpoint, action = '', pid } = fields;
    const settled = settledLate(fields);
    if (settled !== null) {
      this.#report.onPoint(settled);
    } else if (failpoint !== undefined && action.startsWith('sql_')) {
      // A refusal excuses no duplicate. It counts as hit only when the refused outcome has been stored.
      this.#report.onLine(`${this.name}: ${failpoint} ${action} (process ${pid})`);
    } else if (msg.startsWith('stopped with outcomes that could not be stored')) {
      this.disturbed(msg);
    } else if (failpoint !== undefined) {
      this.disturbed(`${failpoint} ${action}`);
      this.#report.onPoint({ failpoint, action, ...(pid !== undefined && { pid }) });
    } else if (msg.includes('was expired while it was frozen')) {
      this.disturbed(msg, Date.now() - 30_000);
    } else if (isError(fields)) {
      if (!EXPECTED.test(line)) this.#noteCrash(line);
    } else if (msg === 'a worker died') {
      this.disturbed(msg);
      if (fields.signal === null) this.#noteCrash(line);
    }
  }

  #noteCrash(line: string): void {
    if (!this.#isStarting) this.#traces.push([line]);
  }

  /** Log lines that a working service never writes. */
  get crashes(): string[] {
    return this.#traces.filter((trace) => !isBirthWithoutSupervisor(trace)).flat();
  }
}

/**
 * Returns whether the trace is of a worker whose supervisor was killed before Node had connected the two. Node ends
 * such a worker before any code of the service runs.
 */
export function isBirthWithoutSupervisor(trace: readonly string[]): boolean {
  const has = (text: string): boolean => trace.some((line) => line.includes(text));
  return has('Error: write EPIPE') && has('at cluster._setupWorker');
}

/**
 * Returns whether a log line reports an error. A warning with the same words is about a database lock that was not
 * granted in time.
 */
export function isError({ level, msg = '' }: Fields): boolean {
  return level === 'fatal' || (level === 'error' && msg.includes('could not finish a'));
}

type Fields = {
  level?: string;
  msg?: string;
  signal?: unknown;
  /** SQLSTATE with which the database refused the outcome of an email or of a webhook. */
  sqlstate?: string;
  email_id?: string;
} & Partial<PointLine>;

/** Returns the failpoint when a refused outcome has been stored after all. Only failpoints cause these SQLSTATEs. */
export function settledLate({ msg, sqlstate, email_id }: Fields): PointLine | null {
  if (sqlstate === undefined || msg !== 'an outcome that the database had refused is stored')
    return null;
  const failpoint = email_id === undefined ? 'webhook_before_commit' : 'settle_before_commit';
  return { failpoint, action: `sql_${sqlstate.toLowerCase()}` };
}

function parsed(line: string): Fields | null {
  try {
    return JSON.parse(line) as Fields;
  } catch {
    return null;
  }
}
