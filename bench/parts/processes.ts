/**
 * CPU time and memory of other processes, from /proc (Linux). Elsewhere there is nothing to read and
 * every figure is null.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** What /proc counts CPU time in; 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

type ProcessInfo = { pid: number; parent: number; cpuMs: number; program: string };

/** Milliseconds of CPU so far, by part of the system under test. */
export type CpuByPart = Record<string, number>;

/** Whose CPU is whose: all descendants of `roots[part]`, or as `partOf` tells. */
export type Roots = Record<string, number>;

/**
 * CPU of process trees. Time of children that have ended counts for the parent that waited for them.
 * A descendant that runs PostgreSQL counts as `postgres`, a worker of Posthorn's as `workers`.
 */
export function cpuOf(roots: Roots): CpuByPart | null {
  const processes = listProcesses();
  if (processes === null) return null;
  const children = Map.groupBy(processes, (one) => one.parent);
  const byPid = new Map(processes.map((one) => [one.pid, one]));
  const sums: CpuByPart = {};
  const add = (one: ProcessInfo, part: string): void => {
    sums[part] = (sums[part] ?? 0) + one.cpuMs;
    for (const child of children.get(one.pid) ?? []) add(child, partOf(child, part));
  };
  for (const [part, pid] of Object.entries(roots)) {
    const root = byPid.get(pid);
    if (root) add(root, part);
  }
  return sums;
}

function partOf(child: ProcessInfo, parentsPart: string): string {
  if (child.program.endsWith('/postgres') || parentsPart === 'postgres') return 'postgres';
  return parentsPart === 'supervisor' ? 'workers' : parentsPart;
}

/** CPU that the whole machine has spent since it was started, by all that ran; null where unknown. */
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

/** The workers of a service: its supervisor's children that are not the database. */
export function workersOf(supervisorPid: number): number[] {
  return (listProcesses() ?? [])
    .filter((one) => one.parent === supervisorPid && !one.program.endsWith('/postgres'))
    .map((one) => one.pid);
}

/** Megabytes (10^6) in memory now, and the most so far; null where /proc is not. */
export function memoryOf(pid: number): { nowMb: number; peakMb: number } | null {
  const status = read(`/proc/${pid}/status`);
  const kilobytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status ?? '')?.[1] ?? 0);
  if (status === null) return null;
  return { nowMb: kilobytes('VmRSS') * 1.024e-3, peakMb: kilobytes('VmHWM') * 1.024e-3 };
}

function listProcesses(): ProcessInfo[] | null {
  if (process.platform !== 'linux') return null;
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map((pid) => describe(Number(pid))).filter((one) => one !== null);
}

function describe(pid: number): ProcessInfo | null {
  const stat = read(`/proc/${pid}/stat`);
  const commandLine = read(`/proc/${pid}/cmdline`);
  if (stat === null || commandLine === null) return null;
  // The name, in parentheses, may itself have spaces and parentheses.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15);
  const cpuMs = ((user + system + childUser + childSystem) * 1000) / TICKS_PER_SECOND;
  return { pid, parent: fields[1] ?? 0, cpuMs, program: commandLine.split('\0', 1)[0] ?? '' };
}

/** null when the process has ended meanwhile. */
function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
