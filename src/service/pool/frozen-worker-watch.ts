/**
 * Kills frozen workers. The event loop of a worker answers a ping each second, and a worker that stays silent is
 * killed. Then its mail is released at once (worker-pool.ts) and its clients connect again. A frozen process would keep
 * both until it woke up.
 *
 * Silence counts in ticks of this process, not by a clock. A machine that was suspended, or a supervisor that was
 * stopped or blocked, counts one tick for the whole pause. So its workers have time to answer.
 */
import type { Logger } from 'pino';

const TICK_MS = 1_000;
/**
 * The upper bound is the lease: after 10 s without a heartbeat a worker sends no final dot any more
 * (delivery/queue/lease.ts), and after 15 s another node reclaims its mail. With 8, a worker dies at most 9 s after its
 * last answer. The lower bound is the longest pause of a healthy worker: at most 1 s on two busy cores.
 */
const SILENT_TICKS_MAX = 8;
/** Loading code blocks the event loop, for seconds on a busy machine. No work is claimed yet. */
const LOADING_TICKS_MAX = 60;

type WatchedWorker = {
  readonly id: number;
  readonly process: { readonly pid?: number | undefined; kill(signal: 'SIGKILL'): unknown };
};

type WorkerState = { silentTicks: number; isReady: boolean; isKilled: boolean };

type FrozenWorkerWatchOptions = {
  workers: () => readonly WatchedWorker[];
  ping: (id: number) => void;
  log: Pick<Logger, 'warn'>;
};

export class FrozenWorkerWatch {
  killedCount = 0;
  readonly #options: FrozenWorkerWatchOptions;
  readonly #states = new Map<number, WorkerState>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: FrozenWorkerWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => this.tick(), TICK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Called for any message of a worker, which shows that its event loop runs. */
  noteMessage(id: number): void {
    this.#stateOf(id).silentTicks = 0;
  }

  /** From now on, the shorter limit of silence applies. */
  noteReady(id: number): void {
    this.#stateOf(id).isReady = true;
  }

  /** @returns whether the worker, which has ended, was killed for its silence */
  remove(id: number): boolean {
    const isKilled = this.#states.get(id)?.isKilled ?? false;
    this.#states.delete(id);
    return isKilled;
  }

  tick(): void {
    for (const worker of this.#options.workers()) {
      const state = this.#stateOf(worker.id);
      state.silentTicks += 1;
      if (state.silentTicks > silentTicksMax(state)) this.#kill(worker, state);
      else this.#options.ping(worker.id);
    }
  }

  /** Kills a worker once: a process that waits for a disk ends only when the disk has answered. */
  #kill({ process }: WatchedWorker, state: WorkerState): void {
    if (state.isKilled) return;
    state.isKilled = true;
    this.killedCount += 1;
    this.#options.log.warn(
      { pid: process.pid, silent_s: (silentTicksMax(state) * TICK_MS) / 1_000 },
      'a worker did not answer and is killed; the supervisor releases its work and starts another; ' +
        'if this repeats, see docs/scale.md, "Frozen workers"',
    );
    process.kill('SIGKILL');
  }

  #stateOf(id: number): WorkerState {
    let state = this.#states.get(id);
    if (state === undefined) {
      state = { silentTicks: 0, isReady: false, isKilled: false };
      this.#states.set(id, state);
    }
    return state;
  }
}

function silentTicksMax({ isReady }: WorkerState): number {
  return isReady ? SILENT_TICKS_MAX : LOADING_TICKS_MAX;
}
