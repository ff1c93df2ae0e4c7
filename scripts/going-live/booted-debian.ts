/**
 * A machine with Debian that has booted: systemd runs in namespaces of its own, on a root folder, and sees neither the
 * files nor the network of this machine. Units start as on a server, with everything that they forbid. Needs root.
 *
 * Machines wait before they boot until a cable connects them, so that services find their addresses.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { waitFor } from '../../test/support/wait.ts';
import { pidInside } from '../image/root-folder.ts';

export type Output = { code: number | null; stdout: string; stderr: string };

export type BootedDebian = AsyncDisposable & {
  /** The process of systemd, seen from outside. */
  readonly pid: number;
  /** Runs a command as root, and returns when it ends. */
  run(command: readonly string[]): Promise<Output>;
};

const BOOTED_WITHIN_MS = 240_000;
const ENVIRONMENT = ['env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'LANG=C.UTF-8'];
const NAMESPACES = ['--mount', '--pid', '--ipc', '--uts', '--net', '--cgroup'];

/** Mounts what systemd expects of a container, and leaves the files of this machine before it starts. */
const BOOT = `
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  : >dev/$device
  mount --bind /dev/$device dev/$device
done
ln -s /proc/self/fd dev/fd
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
hostname "$2"
ip link set lo up
read -r cable
pivot_root . mnt
exec chroot . sh -c 'umount -l /mnt; exec env -i container=other PATH=$PATH /lib/systemd/systemd' <dev/null
`;

export type WaitingDebian = { pid: number; boot(): Promise<BootedDebian> } & AsyncDisposable;

/** Prepares a machine that waits for its cable. */
export async function prepareDebian(root: string, name: string): Promise<WaitingDebian> {
  const words = [...NAMESPACES, '--fork', '--kill-child', 'sh', '-euc', BOOT, 'sh', root, name];
  const child = spawn('unshare', words, { stdio: ['pipe', 'inherit', 'inherit'] });
  process.once('exit', () => child.kill('SIGKILL'));
  const pid = await waitFor(() => pidInside(child), { what: `the namespaces of ${name}` });
  return {
    pid,
    boot: async () => {
      child.stdin.end('connected\n');
      const booted = machineOf(child, pid);
      const look = ['systemctl', 'is-system-running'];
      let state = '';
      const isBooted = async () => {
        state = (await booted.run(look)).stdout.trim();
        return state === 'running' || state === 'degraded';
      };
      await waitFor(isBooted, { what: `${name} to boot`, timeoutMs: BOOTED_WITHIN_MS });
      return booted;
    },
    [Symbol.asyncDispose]: () => end(child),
  };
}

function machineOf(child: ChildProcess, pid: number): BootedDebian {
  return {
    pid,
    run: async (command) => {
      const enter = ['--target', `${pid}`, ...NAMESPACES, ...ENVIRONMENT];
      const running = spawn('nsenter', [...enter, ...command], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const output = { stdout: '', stderr: '' };
      running.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
      running.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
      const [code] = (await once(running, 'close')) as [number | null];
      return { code, ...output };
    },
    [Symbol.asyncDispose]: () => end(child),
  };
}

/** The end of PID 1 of a namespace ends all of its processes. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** Puts a cable between two machines, each with an `eth0` that has these addresses of one network. */
export async function connectMachines(
  ends: readonly [{ pid: number; addresses: string[] }, { pid: number; addresses: string[] }],
): Promise<void> {
  const [one, other] = ends;
  const cable = ['link', 'add', 'eth0', 'netns', `${one.pid}`, 'type', 'veth'];
  await ip([...cable, 'peer', 'name', 'eth0', 'netns', `${other.pid}`]);
  for (const { pid, addresses } of ends) {
    for (const address of addresses) await ip(['address', 'add', address, 'dev', 'eth0'], pid);
    await ip(['link', 'set', 'eth0', 'up'], pid);
  }
}

async function ip(words: readonly string[], pid?: number): Promise<void> {
  const enter = pid === undefined ? [] : ['nsenter', '--target', `${pid}`, '--net'];
  const [command = '', ...args] = [...enter, 'ip', ...words];
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`ip ${words.join(' ')} failed with exit code ${code}`);
}
