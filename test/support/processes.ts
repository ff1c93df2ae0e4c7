/** The child processes of a process: from /proc on Linux, elsewhere from `ps`. */
import { execFile } from 'node:child_process';
import { readFile, readdir } from 'node:fs/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

type Process = { pid: number; parent: number; command: string };

/** @returns the pids of the service's workers, given its supervisor's */
export function workersOf(supervisor: number): Promise<number[]> {
  return childrenOf(supervisor, 'worker.ts');
}

/** @returns the pids of children whose command line contains the text */
export async function childrenOf(pid: number, command = ''): Promise<number[]> {
  const all = process.platform === 'linux' ? await fromProc() : await fromPs();
  const children = all.filter((one) => one.parent === pid && one.command.includes(command));
  return children.map((one) => one.pid);
}

async function fromProc(): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map((pid) => oneFromProc(Number(pid)).catch(() => null)));
  return found.filter((one) => one !== null);
}

/** @throws when the process has ended meanwhile */
async function oneFromProc(pid: number): Promise<Process> {
  const [stat, command] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readFile(`/proc/${pid}/cmdline`, 'utf8'),
  ]);
  // "pid (name) state parent ...": a name may contain anything.
  const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { pid, parent: Number(parent), command };
}

async function fromPs(): Promise<Process[]> {
  const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=,args=']);
  return stdout.split('\n').map((line) => {
    const [, pid, parent, command = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    return { pid: Number(pid), parent: Number(parent), command };
  });
}
