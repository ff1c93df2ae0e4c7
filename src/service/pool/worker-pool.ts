/**
 * The worker processes of this machine: forks them, sends their setup, restarts dead ones, and stops all together.
 * Frozen ones are killed (frozen-worker-watch.ts). They load their code when they are forked, and begin to work when
 * `run` sends the setup. The cluster module lets them share one listening socket (in-transit-connections.ts). The
 * broker, which grants them connections to mail servers (delivery/broker/running-broker.ts), runs here.
 */
import cluster, { type Worker } from 'node:cluster';
import { totalmem } from 'node:os';
import type { Logger } from 'pino';
import type { Unready } from '../../core/unready.ts';
import type { OpensslTuning } from '../machine/openssl-tuning.ts';
import { RunningBroker } from '../../delivery/broker/running-broker.ts';
import type { ClockState } from '../readiness/clock-watch.ts';
import type { Sample } from '../metrics/installation-samples.ts';
import type { ArchivedTimes, BackupState } from '../metrics/pool-metrics.ts';
import { systemWorld } from '../machine/system-world.ts';
import { ReadinessLog } from '../readiness/readiness-log.ts';
import { nextWorkerFailpoint } from '../machine/failpoints.ts';
import {
  type FromWorker,
  type Metrics,
  MetricsRequests,
  type ToWorker,
  type WorkerSetup,
} from '../worker/worker-messages.ts';
import { InTransitConnections } from './in-transit-connections.ts';
import { FrozenWorkerWatch } from './frozen-worker-watch.ts';
import { moduleFile } from '../../config/module-file.ts';
import { GIB } from '../../lib/units.ts';

/** The message contains the trace of the worker, so this error needs none. */
export class WorkersCannotRun extends Error {}

/** `env`: variables for workers beside the environment of this process. */
export type WorkerPoolOptions = { count: number; log: Logger; env: OpensslTuning };

export type RunningWorkers = AsyncDisposable & {
  ready: Promise<'ready'>;
  failed: Promise<string>;
};

/** Causes for which the supervisor refuses mail. Each has one reason at a time. */
export type RefusalSource = 'disk' | 'database_size' | 'schema' | 'clock' | 'secret_key';

/** `everyMs`: the interval of the schedule. */
type EndedBackup = { isGood: boolean; atMs: number; everyMs: number };

type V8Flags = { atStart: string[]; whenLoaded: string };

type OnDeath = (leaseId: string) => Promise<void>;

const STOP_WITHIN_MS = 30_000;
const RESTART_AFTER_MS = 500;
const METRICS_FRESH_MS = 1_000;
/**
 * Keeps the owner's log-in (database/server/database-roles.ts), and the keys to backups and their bucket, from
 * workers.
 */
const NOT_FOR_WORKERS = {
  DATABASE_URL: undefined,
  LETTERHAUS_BACKUP_PASSPHRASE: undefined,
  AWS_ACCESS_KEY_ID: undefined,
  AWS_SECRET_ACCESS_KEY: undefined,
  AWS_SESSION_TOKEN: undefined,
};
/** A service whose workers die this often within a minute cannot run. */
const DEATHS_PER_MINUTE_MAX = 20;
/** Memory per worker from which on less CPU time is worth more memory. */
const LARGE_HEAP_BYTES = 2 * GIB;
const YOUNG_AT_FULL_SIZE = ['--min-semi-space-size=16', '--initial-old-space-size=128'];

/**
 * Returns how workers collect garbage (docs/decisions/0019-garbage-collection.md). They collect on the thread that made
 * it: all cores have workers, so helper threads of one would take time from another. The heap may grow to four times
 * its live objects before a full collection, or to 1.75 times where memory is scarce.
 *
 * Loading code makes much garbage. Where memory is not scarce, the young generation therefore begins at its full size,
 * which it reaches under load anyway. Workers set `whenLoaded` themselves when they have loaded their code: V8 discards
 * code that was compiled under another percentage, and Node's own modules are.
 * @param memoryBytes of the machine, or of the container
 */
export function chooseV8Flags(memoryBytes: number, workerCount: number): V8Flags {
  const isLarge = memoryBytes / workerCount >= LARGE_HEAP_BYTES;
  return {
    atStart: ['--single-threaded-gc', ...(isLarge ? YOUNG_AT_FULL_SIZE : [])],
    whenLoaded: `--heap-growing-percent=${isLarge ? 300 : 75}`,
  };
}

function availableBytes(): number {
  // `constrainedMemory` is 0 without a limit.
  return Math.min(totalmem(), process.constrainedMemory() || Infinity);
}

export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #v8Flags: V8Flags;
  readonly #ready = Promise.withResolvers<'ready'>();
  readonly #failed = Promise.withResolvers<string>();
  readonly #leaseIds = new Map<number, string>();
  readonly #connections = new InTransitConnections();
  readonly #metricsRequests = new MetricsRequests();
  readonly #watch: FrozenWorkerWatch;
  readonly #readinessLog: ReadinessLog;
  #setup: WorkerSetup | null = null;
  #onDeath: OnDeath = () => Promise.resolve();
  #loaded: Worker[] = [];
  #readyCount = 0;
  #deaths: number[] = [];
  #isStopping = false;
  #isPaused = false;
  #broker: RunningBroker | null = null;
  readonly #refusals = new Map<RefusalSource, Unready>();
  #warnings: readonly string[] = [];
  #skewMs = 0;
  #backup: BackupState | null = null;
  #pointInTime: ArchivedTimes | null = null;
  #metrics: Promise<string> | null = null;
  #installationSamples: () => readonly Sample[] = () => [];
  #diedCount = 0;
  /** Workers that have not yet confirmed the newest secret keys. */
  readonly #withOldSecretKeys = new Set<number>();
  #onSecretKeysConfirmed: () => void = () => {};

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#v8Flags = chooseV8Flags(availableBytes(), options.count);
    this.#watch = new FrozenWorkerWatch({ workers: runningWorkers, ping, log: options.log });
    this.#readinessLog = new ReadinessLog({ log: options.log, world: systemWorld });
    this.#ready.promise.catch(() => {});
    cluster.setupPrimary({
      exec: moduleFile(new URL('../worker/worker.ts', import.meta.url)),
      execArgv: [...process.execArgv, ...this.#v8Flags.atStart],
    });
    cluster.on('exit', this.#onExit);
    for (let index = 0; index < options.count; index += 1) this.#fork();
    this.#watch.start();
  }

  /** Sends the setup to the workers. Disposing waits up to 30 s for each to finish its work. */
  run(setup: WorkerSetup, onDeath: OnDeath): RunningWorkers {
    this.#setup = setup;
    this.#onDeath = onDeath;
    this.#broker = new RunningBroker({
      settings: setup.config.shaping,
      world: systemWorld,
      log: this.#options.log,
      send: (id, messages) => {
        const worker = cluster.workers?.[id];
        if (worker) send(worker, { type: 'broker', messages });
      },
    });
    for (const worker of this.#loaded.splice(0)) this.#setUp(worker, setup);
    return {
      ready: this.#ready.promise,
      failed: this.#failed.promise,
      [Symbol.asyncDispose]: () => this.#stop(),
    };
  }

  /** Refuses emails for this reason, beside the reasons of other sources. With null it no longer does. */
  refuseMail(source: RefusalSource, refusal: Unready | null): void {
    const before = this.#refusals.get(source);
    if (before?.code === refusal?.code && before?.reason === refusal?.reason) return;
    if (refusal === null) this.#refusals.delete(source);
    else this.#refusals.set(source, refusal);
    this.#sendAll(this.#readinessMessage());
  }

  /** Sets the warnings that `GET /readyz` shows beside a 200. */
  setWarnings(warnings: readonly string[]): void {
    if (warnings.join() === this.#warnings.join()) return;
    this.#warnings = warnings;
    this.#sendAll(this.#readinessMessage());
  }

  #readinessMessage(): ToWorker {
    const refusals = [...this.#refusals.values()];
    return { type: 'readiness', refusals, warnings: this.#warnings };
  }

  setClockState({ skewMs, refusal }: ClockState): void {
    this.#skewMs = skewMs;
    this.refuseMail('clock', refusal === null ? null : { code: 'clock', reason: refusal });
  }

  /** Resolves when every worker has confirmed these secret keys. Later workers start with them. */
  useSecretKeys(secretKey: string): Promise<void> {
    if (this.#setup) this.#setup = { ...this.#setup, secretKey };
    for (const worker of runningWorkers()) this.#withOldSecretKeys.add(worker.id);
    this.#sendAll({ type: 'secret_keys', secretKey });
    return new Promise((resolve) => {
      this.#onSecretKeysConfirmed = resolve;
      if (this.#withOldSecretKeys.size === 0) resolve();
    });
  }

  #confirmSecretKeys(worker: Worker): void {
    this.#withOldSecretKeys.delete(worker.id);
    if (this.#withOldSecretKeys.size === 0) this.#onSecretKeysConfirmed();
  }

  recordBackup({ isGood, atMs, everyMs }: EndedBackup): void {
    this.#backup = {
      goodAtMs: isGood ? atMs : (this.#backup?.goodAtMs ?? 0),
      failures: (this.#backup?.failures ?? 0) + (isGood ? 0 : 1),
      everyMs,
    };
  }

  setArchivedTimes(times: ArchivedTimes): void {
    this.#pointInTime = times;
  }

  endHold(): void {
    if (this.#setup) this.#setup = { ...this.#setup, isOnHold: false };
    this.#sendAll({ type: 'hold_ended' });
  }

  /** Pauses claiming and sending while the database is moved. Workers still accept mail. */
  pauseSending(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#sendAll({ type: 'paused', isPaused });
  }

  pollNow(): void {
    this.#sendAll({ type: 'poll_now' });
  }

  /** Makes workers log which of their emails the database lacks after a fail-over. */
  reportFailover(): void {
    this.#sendAll({ type: 'failed_over' });
  }

  /** Kills all workers. The next start reclaims their work. */
  killWorkers(): void {
    this.#isStopping = true;
    for (const worker of runningWorkers()) worker.process.kill('SIGKILL');
  }

  async #stop(): Promise<void> {
    this.#isStopping = true;
    const exits = runningWorkers().map(
      (worker) => new Promise<void>((resolve) => worker.once('exit', () => resolve())),
    );
    for (const worker of runningWorkers()) this.#connections.closeRefusedBy(worker);
    this.#sendAll({ type: 'stop' });
    const timer = setTimeout(() => this.killWorkers(), STOP_WITHIN_MS);
    await Promise.all(exits);
    clearTimeout(timer);
    this.#watch.stop();
    this.#broker?.stop();
    cluster.off('exit', this.#onExit);
  }

  #setUp(worker: Worker, setup: WorkerSetup): void {
    send(worker, this.#readinessMessage());
    if (this.#isPaused) send(worker, { type: 'paused', isPaused: true });
    const { whenLoaded: v8Flag } = this.#v8Flags;
    send(worker, { type: 'setup', v8Flag, setup: { ...setup, failpoint: nextWorkerFailpoint() } });
  }

  #fork(): void {
    const worker = cluster.fork({ ...this.#options.env, ...NOT_FOR_WORKERS });
    worker.on('message', (message: FromWorker) => this.#receive(worker, message));
    this.#connections.recordSends(worker);
    // Sending fails when the worker is about to end.
    worker.on('error', () => {});
  }

  #receive(worker: Worker, message: FromWorker): void {
    this.#watch.noteMessage(worker.id);
    switch (message.type) {
      case 'hello':
        if (this.#setup) this.#setUp(worker, this.#setup);
        else this.#loaded.push(worker);
        break;
      case 'pong':
        break;
      case 'ready':
        this.#watch.noteReady(worker.id);
        // Joins only now, because earlier messages of the broker would be lost.
        this.#broker?.addWorker(worker.id);
        this.#readyCount += 1;
        if (this.#readyCount === this.#options.count) this.#ready.resolve('ready');
        break;
      case 'failed':
        this.#ready.reject(new WorkersCannotRun(message.message));
        this.#failed.resolve(message.message);
        break;
      case 'lease':
        this.#leaseIds.set(worker.id, message.id);
        break;
      case 'broker':
        this.#broker?.receive(worker.id, message.messages);
        break;
      case 'unready':
        this.#readinessLog.note(worker.id, message.reasons);
        break;
      case 'secret_keys_used':
        this.#confirmSecretKeys(worker);
        break;
      case 'smtp_log_in':
        for (const other of runningWorkers()) if (other !== worker) send(other, message);
        break;
      case 'ask_metrics':
        void this.#sendMetrics(worker, message.id);
        break;
      case 'metrics_response':
        this.#metricsRequests.resolve(message);
        break;
    }
  }

  readonly #onExit = (worker: Worker, code: number, signal: string | null): void => {
    const leaseId = this.#leaseIds.get(worker.id);
    this.#leaseIds.delete(worker.id);
    const wasFrozen = this.#watch.remove(worker.id);
    this.#connections.closeLast(worker);
    this.#broker?.removeWorker(worker.id);
    this.#readinessLog.note(worker.id, []);
    this.#confirmSecretKeys(worker);
    if (this.#isStopping && code === 0) return;
    if (leaseId !== undefined) void this.#onDeath(leaseId).then(() => this.pollNow());
    if (this.#isStopping) return;
    this.#diedCount += 1;
    this.#options.log.error({ pid: worker.process.pid, code, signal }, 'a worker died');
    // Before the service is ready, a dead worker is not restarted, because it would die again. Frozen workers do not
    // count: otherwise requests that block an event loop would end the service.
    const isReady = this.#readyCount >= this.#options.count;
    if (!isReady || (!wasFrozen && this.#recordDeath())) {
      const problem = new WorkersCannotRun('The workers cannot run; the log says why.');
      this.#ready.reject(problem);
      this.#failed.resolve(problem.message);
      return;
    }
    setTimeout(() => {
      if (!this.#isStopping) this.#fork();
    }, RESTART_AFTER_MS);
  };

  #recordDeath(): boolean {
    const nowMs = performance.now();
    this.#deaths = [...this.#deaths.filter((ms) => nowMs - ms < 60_000), nowMs];
    return this.#deaths.length > DEATHS_PER_MINUTE_MAX;
  }

  /** Returns the metrics of all workers as one text. Collected at most once a second. */
  metricsText(): Promise<string> {
    this.#metrics ??= this.#collectMetrics().finally(() => {
      setTimeout(() => (this.#metrics = null), METRICS_FRESH_MS).unref();
    });
    return this.#metrics;
  }

  setInstallationSamples(samples: () => readonly Sample[]): void {
    this.#installationSamples = samples;
  }

  async #collectMetrics(): Promise<string> {
    const responses = await Promise.all(
      runningWorkers().map((worker) =>
        this.#metricsRequests.request((message) => send(worker, message)),
      ),
    );
    const own = await this.#ownMetrics();
    return mergeMetrics([...responses, [...own, ...this.#installationSamples()]]);
  }

  async #ownMetrics(): Promise<Metrics> {
    // Only a scrape needs it, and forking waits for the imports of this file.
    const { poolMetrics } = await import('../metrics/pool-metrics.ts');
    return poolMetrics({
      running: runningWorkers().length,
      wanted: this.#options.count,
      died: this.#diedCount,
      killed: this.#watch.killedCount,
      skewMs: this.#skewMs,
      isOnHold: this.#setup?.isOnHold === true,
      backup: this.#backup,
      pointInTime: this.#pointInTime,
    });
  }

  async #sendMetrics(worker: Worker, id: number): Promise<void> {
    send(worker, { type: 'metrics_response', id, value: await this.metricsText() });
  }

  #sendAll(message: ToWorker): void {
    for (const worker of runningWorkers()) send(worker, message);
  }
}

/** Merges the metrics of all workers. The library is loaded for the first scrape: it takes 25 ms of CPU time. */
async function mergeMetrics(responses: readonly unknown[]): Promise<string> {
  const { AggregatorRegistry } = await import('prom-client');
  const metrics = responses.filter((one) => one !== null) as Metrics[];
  return AggregatorRegistry.aggregate(metrics).metrics();
}

function runningWorkers(): Worker[] {
  return Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
}

function ping(id: number): void {
  const worker = cluster.workers?.[id];
  if (worker) send(worker, { type: 'ping' });
}

function send(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message);
}
