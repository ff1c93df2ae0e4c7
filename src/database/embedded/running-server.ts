/**
 * Keeps the server running until it is stopped. A server that exits is restarted after increasing waits, at most five
 * times a minute.
 *
 * Before a start it handles the leftovers of a killed service: a server that still runs, or a postmaster.pid that names
 * another process. The caller has the lock of the data directory, so no other process can start this cluster.
 *
 *     postmaster.pid            action
 *     absent, or its pid dead   none: PostgreSQL replaces the file itself
 *     a server of this cluster  wait until ready; adopt it if it has the same stamp, else stop it
 *     a zombie                  move the file aside
 *     anything else             move it aside after 10 s: the pid belongs to another program
 */
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { SOCKET_PORT } from './layout.ts';
import { readPidFile } from './pid-file.ts';
import { socketAddress, adoptedPostmaster, rotateLargeLog, launchServer } from './postmaster.ts';
import { stopPostmaster, waitUntilReady, withClient } from './postmaster.ts';
import type { LaunchResult, Postmaster, ServerSetup, StopMode } from './postmaster.ts';
import { EngineProblem } from './problem.ts';
import { isAlive, isPostgresOf, isZombie, poll } from './process.ts';

/** Waits before the 1st, 2nd, … restart within RESTART_WINDOW_MS. The last one is followed by no restart. */
const RESTART_WAITS_MS = [0, 250, 500, 1_000, 2_000];
const RESTART_WINDOW_MS = 60_000;
const LOG_CHECK_MS = 60_000;

export class RunningServer {
  readonly #setup: ServerSetup;
  readonly #stop: AbortController;
  readonly #logCheck: NodeJS.Timeout;
  readonly #listeners: ((reason: string) => void)[] = [];
  #current: Postmaster;
  #restarting: Promise<Postmaster | null> = Promise.resolve(null);
  #restartTimes: number[] = [];

  /** @param stop the controller of `setup.signal` */
  constructor(setup: ServerSetup, first: Postmaster, stop: AbortController) {
    this.#setup = setup;
    this.#stop = stop;
    this.#current = first;
    void this.#restartOnExit();
    this.#logCheck = setInterval(() => rotateLargeLog(setup.layout.logFile), LOG_CHECK_MS).unref();
  }

  get pid(): number {
    return this.#current.pid;
  }

  onExit(listener: (reason: string) => void): void {
    this.#listeners.push(listener);
  }

  async stop(mode: StopMode): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#logCheck);
    await this.#restarting;
    // The timer that polls an adopted server does not keep this process alive. Waiting here does.
    await stopPostmaster(this.#current, mode, this.#setup.clock);
  }

  async #restartOnExit(): Promise<void> {
    for (;;) {
      const reason = await this.#current.exited;
      if (this.#stop.signal.aborted) return;
      this.#setup.log(
        `The database exited (${reason}) and is restarted; no mail is accepted meanwhile. If it was killed, ` +
          `check the memory of this machine. The log of the database is ${this.#setup.layout.logFile}.`,
        'warn',
      );
      this.#restarting = this.#restart(reason);
      const next = await this.#restarting;
      if (next === null) return;
      this.#current = next;
      this.#setup.log('The database runs again.');
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
        this.#setup.log(reason, 'warn');
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

const SETTLE_TIMEOUT_MS = 60_000;

/** Errors after which the start is retried. "Still in use": shared memory of a killed server's backends. */
const RETRIED_ERRORS = /is still in use|is starting up|is shutting down/;

export async function startPostmaster(setup: ServerSetup): Promise<Postmaster> {
  const adopted = await adoptLeftover(setup);
  if (adopted) return adopted;
  removeSockets(setup.layout.socketDir);
  let lastFailure = '';
  const launched = await poll<LaunchResult>(
    { clock: setup.clock, timeoutMs: SETTLE_TIMEOUT_MS, everyMs: 100 },
    async () => {
      const outcome = await launchServer(setup);
      if ('failed' in outcome) lastFailure = outcome.failed;
      return 'failed' in outcome && RETRIED_ERRORS.test(outcome.failed) ? null : outcome;
    },
  );
  if (launched && 'postmaster' in launched) return launched.postmaster;
  throw new EngineProblem(
    'start-failed',
    `The database did not start; the reason is in ${setup.layout.logFile}. ${lastFailure}`,
  );
}

/** Returns the server that was left running, if it can be adopted; null when none runs. */
async function adoptLeftover(setup: ServerSetup): Promise<Postmaster | null> {
  const pid = await leftoverPid(setup);
  if (pid === null) return null;
  const postmaster = adoptedPostmaster(pid, setup.layout.pgDir);
  const ready = await waitUntilReady(setup, postmaster);
  if (postmaster.hasEnded()) return null;
  if (ready && (await readStamp(setup)) === setup.stamp) {
    setup.log(`Took over the database that an earlier service left running (pid ${pid}).`);
    return postmaster;
  }
  setup.log(`Stopping the database that an earlier service left running (pid ${pid}).`);
  await stopPostmaster(postmaster, 'fast', setup.clock);
  return null;
}

/** Returns the pid of a live server of this cluster. Moves the pid file of another program aside. */
async function leftoverPid(setup: ServerSetup): Promise<number | null> {
  const { pgDir } = setup.layout;
  const leftover = await poll({ clock: setup.clock, timeoutMs: setup.stalePidWaitMs }, () => {
    const file = readPidFile(pgDir);
    if (file === null) return 'none';
    if (file.pid === null) return null;
    if (!isAlive(file.pid)) return 'none';
    // In a container whose first process reaps no children, a zombie never disappears.
    if (isZombie(file.pid)) return 'zombie';
    return isPostgresOf(file.pid, pgDir) ? file.pid : null;
  });
  if (leftover === null || leftover === 'zombie') movePidFileAside(setup);
  return typeof leftover === 'number' ? leftover : null;
}

function movePidFileAside({ layout, log }: ServerSetup): void {
  const file = join(layout.pgDir, 'postmaster.pid');
  const pid = readPidFile(layout.pgDir)?.pid ?? 'no process';
  renameSync(file, `${file}.stale`);
  log(`Moved ${file} aside: it names ${pid}, which is not a server of this database.`);
}

async function readStamp({ layout }: ServerSetup): Promise<string | null> {
  try {
    return await withClient(socketAddress(layout.socketDir, 'postgres'), async (client) => {
      const { rows } = await client.query<{ stamp: string | null }>(
        `select current_setting('letterhaus.stamp', true) as stamp`,
      );
      return rows[0]?.stamp ?? null;
    });
  } catch {
    return null;
  }
}

/** Removes the socket and its lock file, which also names a pid. No server of this cluster runs now. */
function removeSockets(socketDir: string): void {
  for (const end of ['', '.lock'])
    rmSync(join(socketDir, `.s.PGSQL.${SOCKET_PORT}${end}`), { force: true });
}
