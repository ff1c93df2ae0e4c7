/** Temporary data directories, engines in this process, and engines in processes that can be killed. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { EngineSearch } from '../../src/database/embedded/binaries.ts';
import { withClient } from '../../src/database/embedded/postmaster.ts';
import { openEngine, type Engine, type EngineOptions } from '../../src/database/embedded/engine.ts';
import { readPidFile } from '../../src/database/embedded/pid-file.ts';
import { isPostgresOf } from '../../src/database/embedded/process.ts';
import { waitFor } from './wait.ts';

const HOLDER = fileURLToPath(new URL('engine-holder.ts', import.meta.url));
const WORLD = { monotonicMs: () => performance.now() };

/** An unprivileged user id, for tests that run as root. */
export const OTHER_UID = 65_534;
export const AS_ROOT = process.geteuid?.() === 0;

/** Returns a folder with a path short enough for sockets. It is removed at the end, with the engines in it. */
export function temporaryFolder(): string {
  const base = process.platform === 'darwin' ? '/tmp' : tmpdir();
  const folder = mkdtempSync(join(base, 'letterhaus-test-'));
  chmodSync(folder, 0o711); // root's database runs as another user, who needs access
  after(async () => {
    const running = globSync(`${folder}/**/pg/postmaster.pid`).map((file) => dirname(file));
    await Promise.all(running.map(killLeftover));
    rmSync(folder, { recursive: true });
  });
  return folder;
}

/** Ends the server that a killed service or a failed test has left on a cluster, if any. */
export async function killLeftover(pgDir: string): Promise<void> {
  const pid = readPidFile(pgDir)?.pid ?? 0;
  if (!isPostgresOf(pid, pgDir)) return;
  process.kill(pid, 'SIGQUIT');
  await waitFor(() => !isPostgresOf(pid, pgDir), { what: 'a leftover server to end' });
}

export type Opened = Engine & { lines: string[] };

/** Returns options for an engine in this process. `lines` receives its messages to the operator. */
export function optionsFor(dataDir: string, lines: string[] = []): EngineOptions {
  return { dataDir, log: (line) => lines.push(line), world: WORLD };
}

export async function open(dataDir: string, options: Partial<EngineOptions> = {}): Promise<Opened> {
  const lines: string[] = [];
  const engine = await openEngine({ ...optionsFor(dataDir, lines), ...options });
  return Object.assign(engine, { lines });
}

/** Returns the first column of the first row; null when there is none. */
export async function ask(engine: Pick<Engine, 'address'>, sql: string): Promise<unknown> {
  return withClient(engine.address(), async (client) => {
    const { rows } = await client.query<Record<string, unknown>>(sql);
    return Object.values(rows[0] ?? {})[0] ?? null;
  });
}

export type HolderOptions = {
  dataDir: string;
  /** Address that the holder publishes as the service's. */
  url?: string;
  /** User that a holder started by root becomes first. */
  asUser?: number;
  search?: EngineSearch;
};
export type HolderReport = { pid: number; socketDir: string; version: string; adopted: boolean };
export type Holder = {
  process: ChildProcess;
  engine: HolderReport;
  /** Kills the whole process group with SIGKILL, like a terminal or a service manager. */
  kill(): Promise<void>;
  /** Stops the engine in order. */
  stop(): Promise<void>;
};

/** Opens the engine in a process that leads its own group. */
export async function startHolder(options: HolderOptions): Promise<Holder> {
  const child = spawn(process.execPath, [HOLDER, JSON.stringify(options)], {
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exit = once(child, 'exit');
  const lines = createInterface(child.stdout);
  const [line] = (await Promise.race([once(lines, 'line'), exit.then(() => ['{}'])])) as [string];
  const engine = JSON.parse(line) as HolderReport;
  if (engine.pid === undefined) throw new Error(`the holder did not start: ${line}`);
  return {
    process: child,
    engine,
    async kill() {
      process.kill(-(child.pid as number), 'SIGKILL');
      await exit;
    },
    async stop() {
      child.stdin.end();
      await exit;
    },
  };
}

/** Waits until the database answers. @returns the rows */
export function askUntilAnswered(engine: Engine, sql: string): Promise<unknown> {
  return waitFor(() => ask(engine, sql).catch(() => null), { what: 'the database to answer' });
}
