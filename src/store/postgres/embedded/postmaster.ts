/**
 * One server process: started, watched, queried, stopped; and its log.
 *
 * It leads a session of its own, so that a Ctrl-C in the terminal does not end it before the
 * service has drained, and it outlives a killed service (running-server.ts takes it over then). The
 * settings for durability and privacy are on its command line, where no file can change them.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, copyFileSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { CHILD_ENV, SUPERUSER, type ClusterConfig } from './cluster.ts';
import { type Layout, PORT } from './layout.ts';
import { EngineProblem } from './problem.ts';
import { type Clock, poll, isStillRunning } from './process.ts';

/** Crash recovery replays at most max_wal_size, from a slow disk perhaps. */
const START_TIMEOUT_MS = 600_000;
const START_NOTICE_MS = 5_000;

/** What a server is started from. */
export type Setup = {
  layout: Layout;
  /** The server program. */
  program: string;
  args: readonly string[];
  /** Names version and settings; a server that was started with another is not taken over. */
  stamp: string;
  log: (line: string) => void;
  clock: Clock;
  /** How long to wait before a postmaster.pid that names another program is moved aside. */
  stalePidWaitMs: number;
  /** Ends an attempt to start. */
  signal: AbortSignal;
};

export type Postmaster = {
  readonly pid: number;
  /** Not a child of this process: left running by a service that was killed. */
  readonly adopted: boolean;
  hasEnded(): boolean;
  /** Resolves at its end, with the reason. */
  readonly exited: Promise<string>;
};

export type StopMode = 'fast' | 'immediate';

/** The command line, and the stamp that names it. The stamp is a setting of the server itself. */
export function commandLine(layout: Layout, version: string, config: ClusterConfig) {
  const settings = {
    config_file: config.configFile,
    hba_file: config.hbaFile,
    ident_file: config.identFile,
    listen_addresses: '',
    port: PORT,
    // A list: a comma in the path would split it.
    unix_socket_directories: `"${layout.socketDir}"`,
    unix_socket_permissions: '0700',
    fsync: 'on',
    full_page_writes: 'on',
  };
  const args = ['-D', layout.pgDir];
  for (const [name, value] of Object.entries(settings)) args.push('-c', `${name}=${value}`);
  const seed = JSON.stringify([version, args, config.text]);
  const stamp = createHash('sha256').update(seed).digest('hex').slice(0, 16);
  return { args: [...args, '-c', `posthorn.stamp=${stamp}`], stamp };
}

export type Launched = { postmaster: Postmaster } | { failed: string };

/** Starts the server and waits until it takes connections, through crash recovery if need be. */
export async function launch(setup: Setup): Promise<Launched> {
  const { logFile } = setup.layout;
  const logStart = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
  const child = spawnServer(setup);
  const postmaster = childPostmaster(child);
  const ready = await waitUntilReady(setup, postmaster);
  if (ready) return { postmaster };
  if (!postmaster.hasEnded()) await stopPostmaster(postmaster, 'fast', setup.clock);
  setup.signal.throwIfAborted();
  const reason = await postmaster.exited;
  return { failed: `${reason}. ${readFrom(logFile, logStart)}` };
}

function spawnServer({ layout, program, args }: Setup): ChildProcess {
  // A file, not a pipe: the server must be able to write after this process has ended.
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
  let gone = child.pid === undefined;
  const exited = new Promise<string>((resolve) => {
    const end = (reason: string) => {
      gone = true;
      resolve(reason);
    };
    child.once('error', (error) => end(`It cannot be run: ${error.message}`));
    child.once('exit', (code, signal) => end(signal ? `killed by ${signal}` : `exit code ${code}`));
  });
  child.unref();
  return { pid: child.pid ?? -1, adopted: false, hasEnded: () => gone, exited };
}

/** Waits until the server takes connections; false when it ended, or took too long. */
export async function waitUntilReady(setup: Setup, postmaster: Postmaster): Promise<boolean> {
  const { clock, layout, signal } = setup;
  const look = (): boolean | null => {
    if (postmaster.hasEnded() || signal.aborted) return false;
    const file = readPidFile(layout.pgDir);
    return file?.pid === postmaster.pid && file.status === 'ready' ? true : null;
  };
  const soon = await poll({ clock, timeoutMs: START_NOTICE_MS, everyMs: 5 }, look);
  if (soon !== null) return soon;
  setup.log('The database is still starting: it may be repairing itself after a crash.');
  return (await poll({ clock, timeoutMs: START_TIMEOUT_MS }, look)) ?? false;
}

/** A server that is not a child of this process: its end is found by polling. */
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
  return { pid, adopted: true, hasEnded, exited };
}

/** Ends the server: `fast` rolls back and writes a checkpoint, `immediate` leaves it to recovery. */
export async function stopPostmaster(
  postmaster: Postmaster,
  mode: StopMode,
  clock: Clock,
): Promise<void> {
  const quick = [['SIGQUIT', 5_000] as const, ['SIGKILL', 5_000] as const];
  const steps = mode === 'fast' ? [['SIGINT', 30_000] as const, ...quick] : quick;
  for (const [signal, timeoutMs] of steps) {
    if (postmaster.hasEnded()) return;
    send(signal, postmaster.pid);
    const ended = () => (postmaster.hasEnded() ? true : null);
    if (await poll({ clock, timeoutMs, everyMs: 5 }, ended)) return;
  }
  throw new EngineProblem(
    'start-failed',
    `The database server (pid ${postmaster.pid}) cannot be stopped: end it by hand, then try again.`,
  );
}

function send(signal: NodeJS.Signals, pid: number): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // it ended by itself
  }
}

/** The content of postmaster.pid. `pid` is null when PostgreSQL did not write the file. */
export type PidFile = { pid: number | null; status: string };

/** Reads postmaster.pid: the pid is its first line, the status its eighth. */
export function readPidFile(pgDir: string): PidFile | null {
  try {
    const lines = readFileSync(join(pgDir, 'postmaster.pid'), 'utf8').split('\n');
    const pid = Math.abs(Number(lines[0])); // negative: it runs in single-user mode
    return { pid: pid > 0 ? pid : null, status: lines[7]?.trim() ?? '' };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

const TIMEOUT_MS = 10_000;

/** The address of a database behind the socket. `ssl` is given, so that PGSSLMODE is not read. */
export function addressOf(
  socketDir: string,
  database: string = SUPERUSER,
  user: string = SUPERUSER,
): pg.ClientConfig {
  return { host: socketDir, port: PORT, database, user, ssl: false };
}

/** The same as a connection URL, as psql and DATABASE_URL understand it. */
export function urlOf(socketDir: string, database = SUPERUSER, user = SUPERUSER): string {
  return `postgresql://${user}@${encodeURIComponent(socketDir)}:${PORT}/${database}`;
}

export async function withClient<Result>(
  address: pg.ClientConfig,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({
    ...address,
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
  });
  client.on('error', () => {}); // the query that runs fails too, with the reason
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Makes the service's database at the first start; returns the server's version. */
export async function ensureDatabase(socketDir: string): Promise<string> {
  return withClient(addressOf(socketDir, 'postgres'), async (client) => {
    const { rows } = await client.query<{ version: string; exists: boolean }>(
      `select current_setting('server_version') as version,
              exists (select from pg_database where datname = $1) as exists`,
      [SUPERUSER],
    );
    if (!rows[0]?.exists) await client.query(`create database ${SUPERUSER}`);
    return rows[0]?.version ?? '';
  });
}

const LOG_BYTES_MAX = 8 * 1024 * 1024;
const REASON_BYTES_MAX = 2_000;

/** Moves the content to `<file>.1` once there are 8 MB of it. */
export function boundLog(file: string): void {
  const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 };
  if (size <= LOG_BYTES_MAX) return;
  try {
    copyFileSync(file, `${file}.1`);
  } catch {
    rmSync(`${file}.1`, { force: true }); // a full disk: old lines matter less than room
  }
  truncateSync(file);
}

/** What was written from `start` on, shortened: the reason of a failed start. */
export function readFrom(file: string, start: number): string {
  const log = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(REASON_BYTES_MAX);
    return bytes.toString('utf8', 0, readSync(log, bytes, 0, bytes.length, start)).trim();
  } finally {
    closeSync(log);
  }
}
