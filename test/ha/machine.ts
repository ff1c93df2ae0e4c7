/**
 * One of three database machines: etcd, Patroni and the PostgreSQL that Patroni starts, with the files of deploy/ha.
 * Its address is one of loopback, so all ports are those of the files.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAlive, isZombie } from '../../src/database/embedded/process.ts';
import { childrenOf } from '../support/processes.ts';
import { waitFor } from '../support/wait.ts';
import type { Programs } from './programs.ts';

const DEPLOY = join(import.meta.dirname, '../../deploy/ha');
const GONE_WITHIN_MS = 60_000;
const DEMOTED_WITHIN_MS = 240_000;
/** PostgreSQL does not run as root. */
export type Account = { uid: number; gid: number };

type MachineOptions = {
  /** From 1 on: db1 has the address 10.0.0.11 in the files. */
  number: number;
  /** The network of the check instead of 10.0.0: `127.9.8`. */
  network: string;
  folder: string;
  programs: Programs;
  account: Account | null;
};

/** Replaces the example's addresses and folders, and makes the file of db1 that of another machine. */
export function fileOf(
  name: string,
  { number, network, folder, programs }: MachineOptions,
): string {
  const mine = `10.0.0.1${number}`;
  return readFileSync(join(DEPLOY, name), 'utf8')
    .replaceAll(/^(?:.*(?:hosts:|INITIAL_CLUSTER=).*|(.*))$/gm, (line, own?: string) =>
      own === undefined ? line : own.replaceAll('10.0.0.11', mine).replaceAll('db1', `db${number}`),
    )
    .replaceAll('10.0.0.0/24', '127.0.0.0/8')
    .replaceAll('10.0.0.', `${network}.`)
    .replaceAll('/usr/lib/postgresql/15/bin', programs.postgresBin)
    .replaceAll('/var/lib', join(folder, 'lib'))
    .replaceAll('/etc/pgbouncer', folder)
    .replaceAll('/run/postgresql', folder);
}

export class DatabaseMachine {
  readonly name: string;
  readonly address: string;
  readonly #options: MachineOptions;
  #etcd: ChildProcess | null = null;
  #patroni: ChildProcess | null = null;

  constructor(options: MachineOptions) {
    this.#options = options;
    this.name = `db${options.number}`;
    this.address = `${options.network}.1${options.number}`;
    for (const path of ['', 'lib', 'lib/etcd', 'lib/postgresql', 'lib/postgresql/15']) {
      const made = join(options.folder, path);
      mkdirSync(made, { recursive: true, mode: 0o700 });
      if (options.account !== null) chownSync(made, options.account.uid, options.account.gid);
    }
    this.#write('patroni.yml');
  }

  #write(name: string): string {
    const file = join(this.#options.folder, name);
    writeFileSync(file, fileOf(name, this.#options));
    return file;
  }

  start(): void {
    this.startEtcd();
    this.startPatroni();
  }

  startEtcd(): void {
    const variables = fileOf('etcd.env', this.#options).matchAll(/^(ETCD_\w+)=(.*)$/gm);
    const env = Object.fromEntries([...variables].map(([, name, value]) => [name, value!]));
    this.#etcd = this.#spawn('etcd', [this.#options.programs.etcd], env);
  }

  startPatroni(): void {
    const { programs, folder } = this.#options;
    const command = ['/usr/bin/python3', programs.patroni, join(folder, 'patroni.yml')];
    this.#patroni = this.#spawn('patroni', command, {});
  }

  /** Starts a program as the service manager does, in its own process group and with a log in the folder. */
  #spawn(
    name: string,
    [program = '', ...args]: string[],
    env: Record<string, string>,
  ): ChildProcess {
    const { folder, programs, account } = this.#options;
    const log = openSync(join(folder, `${name}.log`), 'a');
    return spawn(program, args, {
      cwd: folder,
      env: { ...programs.env, ...env },
      stdio: ['ignore', log, log],
      detached: true,
      ...account,
    });
  }

  /** The superuser of patroni.yml. */
  get superuser(): { user: string; password: string } {
    const [, password = ''] = /superuser:\n.*\n\s+password: (\S+)/.exec(
      fileOf('patroni.yml', this.#options),
    )!;
    return { user: 'postgres', password };
  }

  /** Kills everything at once, like a power failure. */
  async kill9(): Promise<void> {
    const pids = await this.#pids();
    // First stop all, so that none reacts to the end of another.
    for (const pid of pids) signal(pid, 'SIGSTOP');
    for (const pid of pids) signal(pid, 'SIGKILL');
    await this.#gone(pids);
  }

  /** Kills the programs when the check is interrupted. PostgreSQL's other processes end without their postmaster. */
  killNow(): void {
    for (const pid of [this.#patroni?.pid, this.#etcd?.pid, this.#postmaster()])
      signal(pid ?? 0, 'SIGKILL');
  }

  async killPatroni(): Promise<void> {
    const pid = this.#patroni?.pid ?? 0;
    signal(pid, 'SIGKILL');
    await this.#gone([pid]);
  }

  /** Stops the machine as a hypervisor does; `SIGCONT` lets it continue. */
  async signalAll(name: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    for (const pid of await this.#pids()) signal(pid, name);
  }

  signalEtcd(name: 'SIGSTOP' | 'SIGCONT'): void {
    signal(this.#etcd?.pid ?? 0, name);
  }

  /** Waits until its own PostgreSQL accepts no writes any more. */
  async untilStandby(): Promise<void> {
    const isStandby = async (): Promise<boolean> => {
      const response = await fetch(`http://${this.address}:8008/patroni`).catch(() => null);
      return ((await response?.json()) as { role?: string } | undefined)?.role === 'replica';
    };
    await waitFor(isStandby, { what: `${this.name} to step down`, timeoutMs: DEMOTED_WITHIN_MS });
  }

  async #gone(pids: readonly number[]): Promise<void> {
    const isGone = (pid: number): boolean => !isAlive(pid) || isZombie(pid);
    const what = `the processes of ${this.name} to end`;
    await waitFor(() => pids.every(isGone), { what, timeoutMs: GONE_WITHIN_MS });
  }

  async #pids(): Promise<number[]> {
    const parents = [this.#patroni?.pid, this.#etcd?.pid, this.#postmaster()]
      .filter((pid) => pid !== undefined)
      .filter((pid) => isAlive(pid) && !isZombie(pid));
    const children = await Promise.all(parents.map((pid) => childrenOf(pid)));
    return [...parents, ...children.flat()];
  }

  #postmaster(): number | undefined {
    try {
      const file = join(this.#options.folder, 'lib/postgresql/15/letterhaus/postmaster.pid');
      return Number(readFileSync(file, 'utf8').split('\n')[0]) || undefined;
    } catch {
      return undefined;
    }
  }

  /** The end of Patroni's log, for a failed check. */
  log(): string {
    return readFileSync(join(this.#options.folder, 'patroni.log'), 'utf8').slice(-2_000);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  if (pid <= 0) return;
  try {
    process.kill(pid, name);
  } catch {
    // It has ended meanwhile.
  }
}
