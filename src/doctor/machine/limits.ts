/** Checks the limits of the system that a mail server reaches first: open files, memory, local ports. */
import { readFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { green, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const MB = 1024 ** 2;
const OPEN_FILES_MIN = 4_096;
const OPEN_FILES_WANTED = 65_536;
const MEMORY_BYTES_MIN = 900 * MB;
const PORTS_MIN = 10_000;

export const OPEN_FILES: Check = {
  id: 'open_files',
  title: 'Limit on open files',
  async run() {
    const limits = await readOrNull('/proc/self/limits');
    const text = /^Max open files\s+(?<soft>\S+)\s+(?<hard>\S+)/m.exec(limits ?? '')?.groups;
    if (text === undefined) return [unknown('This system does not show its limit on open files.')];
    // Node raises its soft limit to the hard one.
    const { hard = '' } = text;
    const files = hard === 'unlimited' ? Infinity : Number(hard);
    if (files >= OPEN_FILES_MIN) return [green(`A process may have ${hard} files open.`)];
    return [
      yellow(`A process may have only ${files} files open.`, {
        meaning: 'Every connection is one of them. At the limit, connections fail.',
        remedy: `Raise the limit to ${OPEN_FILES_WANTED}: LimitNOFILE= in the systemd unit, or ulimit -n before the start.`,
        command: 'ulimit -Hn',
      }),
    ];
  },
};

export const MEMORY: Check = {
  id: 'memory',
  title: 'Memory',
  async run({ machine: { workers } }) {
    const bytes = Math.min(totalmem(), (await containerLimit()) ?? Infinity);
    const found = `The database and ${workers} workers share ${Math.round(bytes / MB)} MB of memory.`;
    if (bytes >= MEMORY_BYTES_MIN) return [green(found)];
    return [
      yellow(found, {
        meaning: 'The system may kill the database or a worker under load.',
        remedy: 'Give the machine at least 1 GB of memory, or start with --workers 1.',
      }),
    ];
  },
};

/** Returns the limit of the container (cgroup 2), or null when there is none. */
async function containerLimit(): Promise<number | null> {
  const text = (await readOrNull('/sys/fs/cgroup/memory.max'))?.trim() ?? 'max';
  return /^\d+$/.test(text) ? Number(text) : null;
}

export const LOCAL_PORTS: Check = {
  id: 'local_ports',
  title: 'Ports for outgoing connections',
  async run() {
    const range = await readOrNull('/proc/sys/net/ipv4/ip_local_port_range');
    const [first, last] = (range ?? '').trim().split(/\s+/).map(Number);
    if (!first || !last) return [unknown('This system does not show its range of local ports.')];
    const ports = last - first + 1;
    if (ports >= PORTS_MIN) return [green(`${ports} local ports are for outgoing connections.`)];
    return [
      yellow(`Only ${ports} local ports are for outgoing connections.`, {
        meaning:
          'A closed connection keeps its port for a minute, so many short sessions use them up.',
        remedy: 'Widen the range.',
        command: 'sysctl -w net.ipv4.ip_local_port_range="32768 60999"',
      }),
    ];
  },
};

function readOrNull(path: string): Promise<string | null> {
  return readFile(path, 'utf8').catch(() => null);
}
