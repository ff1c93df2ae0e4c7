/**
 * Keeps the server running until it is told to stop: one that dies is started again, after growing
 * waits, and given up after five times in a minute.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { startPostmaster } from './leftover.ts';
import { stopPostmaster, type Postmaster, type Setup, type StopMode } from './postmaster.ts';
import { boundLog } from './server-log.ts';

/** Before the 1st, 2nd, ... restart within RESTART_WINDOW_MS; after the last one it is given up. */
const RESTART_WAITS_MS = [0, 250, 500, 1_000, 2_000];
const RESTART_WINDOW_MS = 60_000;
const LOG_CHECK_MS = 60_000;

export class Supervisor {
  readonly #setup: Setup;
  readonly #stop: AbortController;
  readonly #logCheck: NodeJS.Timeout;
  readonly #listeners: ((reason: string) => void)[] = [];
  #current: Postmaster;
  #restarting: Promise<Postmaster | null> = Promise.resolve(null);
  #restartTimes: number[] = [];

  /** @param stop the controller of `setup.signal` */
  constructor(setup: Setup, first: Postmaster, stop: AbortController) {
    this.#setup = setup;
    this.#stop = stop;
    this.#current = first;
    void this.#watch();
    this.#logCheck = setInterval(() => boundLog(setup.layout.logFile), LOG_CHECK_MS).unref();
  }

  get pid(): number {
    return this.#current.pid;
  }

  /** Called once, if the server is given up. */
  onExit(listener: (reason: string) => void): void {
    this.#listeners.push(listener);
  }

  async stop(mode: StopMode): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#logCheck);
    await this.#restarting;
    // Not until it was seen to be gone: what looks for that in a server that was taken over does not
    // keep this process alive, which then ended in the middle of its stop.
    await stopPostmaster(this.#current, mode, this.#setup.clock);
  }

  async #watch(): Promise<void> {
    for (;;) {
      const reason = await this.#current.exited;
      if (this.#stop.signal.aborted) return;
      this.#setup.log(`The database ended by itself (${reason}); starting it again.`);
      this.#restarting = this.#restart(reason);
      const next = await this.#restarting;
      if (next === null) return;
      this.#current = next;
    }
  }

  async #restart(firstReason: string): Promise<Postmaster | null> {
    let reason = firstReason;
    for (;;) {
      const waitMs = this.#nextWaitMs();
      if (waitMs === null) return this.#giveUp(reason);
      try {
        await pause(waitMs, null, { signal: this.#stop.signal });
        return await startPostmaster(this.#setup);
      } catch (error) {
        if (this.#stop.signal.aborted) return null;
        reason = (error as Error).message;
        this.#setup.log(reason);
      }
    }
  }

  #nextWaitMs(): number | null {
    const now = this.#setup.clock.monotonicMs();
    this.#restartTimes = this.#restartTimes.filter((time) => now - time < RESTART_WINDOW_MS);
    const waitMs = RESTART_WAITS_MS[this.#restartTimes.length] ?? null;
    this.#restartTimes.push(now);
    return waitMs;
  }

  #giveUp(reason: string): null {
    for (const listener of this.#listeners) listener(reason);
    return null;
  }
}
