/**
 * Starts, watches, queries and stops one server process, and rotates its log.
 *
 * The server runs in its own session. So Ctrl-C in the terminal does not end it before the service has drained, and it
 * survives a killed service (running-server.ts then adopts it). The settings for durability and privacy are on its
 * command line, where no file can override them.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, copyFileSync, openSync, readSync, rmSync } from 'node:fs';
import { statSync, truncateSync } from 'node:fs';
import pg from 'pg';
import { CHILD_ENV, SUPERUSER, type ClusterConfig } from './cluster.ts';
import { type Layout, SOCKET_PORT } from './layout.ts';
import { readPidFile } from './pid-file.ts';
import { EngineProblem } from './problem.ts';
import { type Clock, poll, isStillRunning } from './process.ts';
import { MIB } from '../../lib/units.ts';

/** Crash recovery replays up to max_wal_size, possibly from a slow disk. */
const START_TIMEOUT_MS = 600_000;
const START_NOTICE_MS = 5_000;

export type ServerSetup = {
  layout: Layout;
  program: string;
  args: readonly string[];
  /** Identifies version and settings. A server with another stamp is not adopted. */
  stamp: string;
  log: (line: string, level?: 'warn') => void;
  clock: Clock;
  /** Milliseconds before a postmaster.pid that names another program is moved aside. */
  stalePidWaitMs: number;
  signal: AbortSignal;
  startTimeoutMs?: number;
};

export type Postmaster = {
  readonly pid: number;
  /** True when the server is no child of this process, because a killed service left it running. */
  readonly isAdopted: boolean;
  hasEnded(): boolean;
  readonly exited: Promise<string>;
};

export type StopMode = 'fast' | 'immediate';

export function commandLine(layout: Layout, version: string, config: ClusterConfig) {
  const settings = {
    config_file: config.configFile,
    hba_file: config.hbaFile,
    ident_file: config.identFile,
    listen_addresses: '',
    port: SOCKET_PORT,
    // Quoted, because the setting is a list and a comma in the path would split it.
    unix_socket_directories: `"${layout.socketDir}"`,
    unix_socket_permissions: '0700',
    fsync: 'on',
    full_page_writes: 'on',
  };
  const args = ['-D', layout.pgDir];
  for (const [name, value] of Object.entries(settings)) args.push('-c', `${name}=${value}`);
  const seed = JSON.stringify([version, args, config.text]);
  const stamp = createHash('sha256').update(seed).digest('hex').slice(0, 16);
  return { args: [...args, '-c', `letterhaus.stamp=${stamp}`], stamp };
}

export type LaunchResult = { postmaster: Postmaster } | { failed: string };

export async function launchServer(setup: ServerSetup): Promise<LaunchResult> {
  const { logFile } = setup.layout;
  const logStart = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
  const child = spawnServer(setup);
  const postmaster = childPostmaster(child);
  const ready = await waitUntilReady(setup, postmaster);
  if (ready) return { postmaster };
  if (!postmaster.hasEnded()) await stopPostmaster(postmaster, 'fast', setup.clock);
  setup.signal.throwIfAborted();
  const reason = await postmaster.exited;
  return { failed: `${reason}. ${readLogFrom(logFile, logStart)}` };
}

function spawnServer({ layout, program, args }: ServerSetup): ChildProcess {
  // A file instead of a pipe, so that the server can write after this process has ended.
  const log = openSync(layout.logFile, 'a', 0o600);
  try {
    return spawn(program, args, {
      cwd: '/',
      env: CHILD_ENV,
      detached: true,
      stdio: ['ignore', log, log],
      ...layout.owner,
    });
  } finally {
    closeSync(log);
  }
}

function childPostmaster(child: ChildProcess): Postmaster {
  let isGone = child.pid === undefined;
  const exited = new Promise<string>((resolve) => {
    const end = (reason: string) => {
      isGone = true;
      resolve(reason);
    };
    child.once('error', (error) => end(`It cannot be run: ${error.message}`));
    child.once('exit', (code, signal) => end(signal ? `killed by ${signal}` : `exit code ${code}`));
  });
  child.unref();
  return { pid: child.pid ?? -1, isAdopted: false, hasEnded: () => isGone, exited };
}

/** Waits until the server accepts connections. Returns false when it ended or timed out. */
export async function waitUntilReady(setup: ServerSetup, postmaster: Postmaster): Promise<boolean> {
  const { clock, layout, signal } = setup;
  const checkReady = (): boolean | null => {
    if (postmaster.hasEnded() || signal.aborted) return false;
    const file = readPidFile(layout.pgDir);
    return file?.pid === postmaster.pid && file.status === 'ready' ? true : null;
  };
  const isReady = await poll({ clock, timeoutMs: START_NOTICE_MS, everyMs: 5 }, checkReady);
  if (isReady !== null) return isReady;
  setup.log('The database is still starting: it may be recovering from a crash.');
  const timeoutMs = setup.startTimeoutMs ?? START_TIMEOUT_MS;
  return (await poll({ clock, timeoutMs }, checkReady)) ?? false;
}

/** Wraps a server that is no child of this process. Polling detects its end. */
export function adoptedPostmaster(pid: number, pgDir: string): Postmaster {
  const hasEnded = () => !isStillRunning(pid, pgDir);
  const exited = new Promise<string>((resolve) => {
    const timer = setInterval(() => {
      if (!hasEnded()) return;
      clearInterval(timer);
      resolve('the process is gone');
    }, 250);
    timer.unref();
  });
  return { pid, isAdopted: true, hasEnded, exited };
}

/** Stops the server: `fast` rolls back and writes a checkpoint, `immediate` relies on recovery. */
export async function stopPostmaster(
  postmaster: Postmaster,
  mode: StopMode,
  clock: Clock,
): Promise<void> {
  const forcedSteps = [['SIGQUIT', 5_000] as const, ['SIGKILL', 5_000] as const];
  const steps = mode === 'fast' ? [['SIGINT', 30_000] as const, ...forcedSteps] : forcedSteps;
  for (const [signal, timeoutMs] of steps) {
    if (postmaster.hasEnded()) return;
    sendSignal(signal, postmaster.pid);
    const ended = () => (postmaster.hasEnded() ? true : null);
    if (await poll({ clock, timeoutMs, everyMs: 5 }, ended)) return;
  }
  throw new EngineProblem(
    'start-failed',
    `The database server (pid ${postmaster.pid}) cannot be stopped. End it manually, then try again.`,
  );
}

function sendSignal(signal: NodeJS.Signals, pid: number): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // it has already ended
  }
}

const QUERY_TIMEOUT_MS = 10_000;

/** Returns the address of a database behind the socket. `ssl` is set, so that PGSSLMODE has no effect. */
export function socketAddress(
  socketDir: string,
  database: string = SUPERUSER,
  user: string = SUPERUSER,
): pg.ClientConfig {
  return { host: socketDir, port: SOCKET_PORT, database, user, ssl: false };
}

export function socketUrl(socketDir: string, database = SUPERUSER, user = SUPERUSER): string {
  return `postgresql://${user}@${encodeURIComponent(socketDir)}:${SOCKET_PORT}/${database}`;
}

export async function withClient<Result>(
  address: pg.ClientConfig,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({
    ...address,
    connectionTimeoutMillis: QUERY_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
  });
  client.on('error', () => {}); // the running query fails with the reason
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end();
  }
}

export async function ensureDatabase(socketDir: string): Promise<string> {
  return withClient(socketAddress(socketDir, 'postgres'), async (client) => {
    const { rows } = await client.query<{ version: string; exists: boolean }>(
      `select current_setting('server_version') as version,
              exists (select from pg_database where datname = $1) as exists`,
      [SUPERUSER],
    );
    if (!rows[0]?.exists) await client.query(`create database ${SUPERUSER}`);
    return rows[0]?.version ?? '';
  });
}

const LOG_BYTES_MAX = 8 * MIB;
const REASON_BYTES_MAX = 2_000;

export function rotateLargeLog(file: string): void {
  const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 };
  if (size <= LOG_BYTES_MAX) return;
  try {
    copyFileSync(file, `${file}.1`);
  } catch {
    rmSync(`${file}.1`, { force: true }); // the disk is full: free its space
  }
  truncateSync(file);
}

/** Returns the text written from `start` on, shortened: the reason of a failed start. */
export function readLogFrom(file: string, start: number): string {
  const log = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(REASON_BYTES_MAX);
    return bytes.toString('utf8', 0, readSync(log, bytes, 0, bytes.length, start)).trim();
  } finally {
    closeSync(log);
  }
}
