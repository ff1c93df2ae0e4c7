/**
 * Reads CPU time, context switches and memory of processes from /proc (Linux). On other systems every figure is null.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** Unit of CPU time in /proc; 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

type ProcessInfo = { pid: number; parent: number; cpuMs: number; command: readonly string[] };

/** CPU time and context switches of a process so far, with all of its threads. */
export type Use = {
  cpuMs: number;
  /** Context switches because the process waited for something. */
  voluntary: number;
  /** Context switches because the kernel ran another process. */
  involuntary: number;
};

export type ProcessUse = Use & { pid: number; part: string; name: string };

/** Milliseconds of CPU so far, by part of the system under test. */
export type CpuByPart = Record<string, number>;

/** Process id of the root of each part. Descendants belong to the same part, unless `partOf` says otherwise. */
export type Roots = Record<string, number>;

/** Returns the sums of `usesOf` by part. */
export function cpuOf(roots: Roots): CpuByPart | null {
  const uses = usesOf(roots);
  if (uses === null) return null;
  const sums: CpuByPart = {};
  for (const { part, cpuMs } of uses) sums[part] = (sums[part] ?? 0) + cpuMs;
  return sums;
}

/**
 * Returns the processes of these trees. The CPU time of an ended child counts for the parent that waited for it. A
 * descendant that runs PostgreSQL counts as `postgres`, and a worker of Letterhaus as `workers`.
 */
export function usesOf(roots: Roots): ProcessUse[] | null {
  const processes = listProcesses();
  if (processes === null) return null;
  const children = Map.groupBy(processes, (one) => one.parent);
  const byPid = new Map(processes.map((one) => [one.pid, one]));
  const uses: ProcessUse[] = [];
  let workers = 0;
  const add = (one: ProcessInfo, part: string): void => {
    const { pid, cpuMs, command } = one;
    const name = nameOf(command, part);
    if (name === 'worker') workers += 1;
    const numbered = name === 'worker' ? `worker ${workers}` : name;
    uses.push({ pid, part, name: numbered, cpuMs, ...switchesOf(pid) });
    for (const child of children.get(pid) ?? []) add(child, partOf(child, part));
  };
  for (const [part, pid] of Object.entries(roots)) {
    const root = byPid.get(pid);
    if (root) add(root, part);
  }
  return uses;
}

/** Returns the name of a process in the table: `worker`, `postgres: walwriter`. All backends have one name. */
export function nameOf(command: readonly string[], part: string): string {
  const [program = ''] = command;
  if (part === 'postgres') {
    const title = /^postgres: (.+?)(?: \d+)?\s*$/.exec(program)?.[1] ?? 'postmaster';
    return `postgres: ${/\[local\]|\(\d+\)/.test(title) ? 'backends' : title}`;
  }
  return command.some((word) => basename(word) === 'worker.ts') ? 'worker' : part;
}

/** Adds up the counts of the threads. Counts of threads that have ended are lost. */
function switchesOf(pid: number): Pick<Use, 'voluntary' | 'involuntary'> {
  const sums = { voluntary: 0, involuntary: 0 };
  for (const thread of list(`/proc/${pid}/task`)) {
    const status = read(`/proc/${pid}/task/${thread}/status`) ?? '';
    sums.voluntary += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1] ?? 0);
    sums.involuntary += Number(/^nonvoluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1] ?? 0);
  }
  return sums;
}

/** @returns a function that returns the use of this process since this call */
export function startOwnUse(): () => Use {
  const before = process.resourceUsage();
  return () => {
    const after = process.resourceUsage();
    const since = (name: keyof NodeJS.ResourceUsage): number => after[name] - before[name];
    return {
      cpuMs: (since('userCPUTime') + since('systemCPUTime')) / 1000,
      voluntary: since('voluntaryContextSwitches'),
      involuntary: since('involuntaryContextSwitches'),
    };
  };
}

function partOf(child: ProcessInfo, parentsPart: string): string {
  if (isPostgres(child) || parentsPart === 'postgres') return 'postgres';
  return parentsPart === 'supervisor' ? 'workers' : parentsPart;
}

/** Returns the CPU time of all programs since the machine started; null where /proc is not available. */
export function machineCpuMs(): number | null {
  const stat = read('/proc/stat');
  if (stat === null) return null;
  const [user = 0, nice = 0, system = 0, , , interrupts = 0, softInterrupts = 0] = stat
    .slice('cpu '.length, stat.indexOf('\n'))
    .trim()
    .split(' ')
    .map(Number);
  const ticks = user + nice + system + interrupts + softInterrupts;
  return (ticks * 1000) / TICKS_PER_SECOND;
}

/** Returns the workers of a service: the children of its supervisor, without the database. */
export function workersOf(supervisorPid: number): number[] {
  return (listProcesses() ?? [])
    .filter((one) => one.parent === supervisorPid && !isPostgres(one))
    .map((one) => one.pid);
}

/** Returns megabytes (10^6) in memory now and at the peak; null where /proc is not available. */
export function memoryOf(pid: number): { nowMb: number; peakMb: number } | null {
  const status = read(`/proc/${pid}/status`);
  const kilobytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status ?? '')?.[1] ?? 0);
  if (status === null) return null;
  return { nowMb: kilobytes('VmRSS') * 1.024e-3, peakMb: kilobytes('VmHWM') * 1.024e-3 };
}

function listProcesses(): ProcessInfo[] | null {
  if (process.platform !== 'linux') return null;
  const pids = list('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map((pid) => describe(Number(pid))).filter((one) => one !== null);
}

function describe(pid: number): ProcessInfo | null {
  const stat = read(`/proc/${pid}/stat`);
  const commandLine = read(`/proc/${pid}/cmdline`);
  if (stat === null || commandLine === null) return null;
  // The name is in parentheses, and may itself contain spaces and parentheses.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15);
  const cpuMs = ((user + system + childUser + childSystem) * 1000) / TICKS_PER_SECOND;
  return { pid, parent: fields[1] ?? 0, cpuMs, command: commandLine.split('\0') };
}

function isPostgres({ command: [program = ''] }: ProcessInfo): boolean {
  return program.endsWith('/postgres');
}

/** Lists a folder of /proc. Returns an empty list when the process has ended. */
function list(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/** Reads a file of /proc. Returns null when the process has ended. */
function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
