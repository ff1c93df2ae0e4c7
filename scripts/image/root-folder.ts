/**
 * A root folder with a small Debian, and processes in it that see nothing else: namespaces of Linux for mounts,
 * processes and network, as a container has them. Needs root. Debian comes from debootstrap: the one on the path, or
 * that of Debian's package, unpacked into a temporary folder.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const MIRROR = 'http://deb.debian.org/debian';
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const HOST_CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt';
/** The certificates of this machine, for a command that is not sealed. */
const CERTIFICATES_INSIDE = '/tmp/certificates.crt';
/** Programs of util-linux and iproute2, which Debian always has. */
const TOOLS = ['unshare', 'nsenter', 'setpriv', 'chroot', 'mount', 'ip'];

/** @returns a sentence with the reason why this machine cannot run processes in a root folder, or null */
export function whyNoRootFolders(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'it needs root on Linux';
  const missing = TOOLS.find((tool) => spawnSync(tool, ['--help'], { stdio: 'ignore' }).error);
  if (missing !== undefined) return `${missing} is not on the path`;
  const { status } = spawnSync('unshare', ['--mount', '--pid', '--net', '--fork', 'true']);
  return status === 0 ? null : 'this machine does not permit namespaces';
}

/**
 * Creates a minimal Debian of a suite in a new folder, about a minute.
 * @param at a folder for the tools
 * @returns false when Debian cannot be had
 */
export function createDebian(suite: string, folder: string, at: string): boolean {
  const look = ['-c', 'command -v debootstrap'];
  const installed = spawnSync('sh', look, { encoding: 'utf8' }).stdout.trim();
  const script = installed || unpackDebootstrap(at);
  if (script === null) return false;
  const env = installed
    ? process.env
    : { ...process.env, DEBOOTSTRAP_DIR: join(at, 'unpacked/usr/share/debootstrap') };
  const keyring = existsSync(KEYRING) ? [`--keyring=${KEYRING}`] : [];
  const words = [script, '--variant=minbase', ...keyring, suite, folder, MIRROR];
  const { status, stdout } = spawnSync('sh', words, { env, encoding: 'utf8' });
  if (status !== 0) process.stderr.write(stdout.split('\n').slice(-10).join('\n'));
  return status === 0;
}

function unpackDebootstrap(at: string): string | null {
  mkdirSync(at, { recursive: true });
  const options = { cwd: at, stdio: 'ignore' } as const;
  const isDownloaded =
    spawnSync('apt-get', ['download', 'debootstrap'], options).status === 0 ||
    (spawnSync('apt-get', ['update'], options).status === 0 &&
      spawnSync('apt-get', ['download', 'debootstrap'], options).status === 0);
  const [archive] = globSync('debootstrap_*.deb', { cwd: at });
  if (!isDownloaded || archive === undefined) return null;
  spawnSync('dpkg-deb', ['-x', archive, 'unpacked'], options);
  return join(at, 'unpacked/usr/sbin/debootstrap');
}

export type Account = { uid: number; gid: number };

export type Inside = {
  root: string;
  workdir: string;
  env: Record<string, string>;
  /** Root with all capabilities when missing; otherwise an ordinary user without any. */
  user?: Account | undefined;
  /** Only loopback, a root that nobody can write, and these writable folders: path inside to folder outside. */
  sealed?: { volumes: Record<string, string> } | undefined;
};

/** Starts a command as PID 1 of its own namespaces. It ends with this process. */
export function startInside(inside: Inside, command: readonly string[]): ChildProcess {
  const { sealed } = inside;
  const namespaces = ['--mount', '--pid', '--ipc', '--uts', '--fork', '--kill-child'];
  const words = [...namespaces, ...(sealed ? ['--net'] : []), 'sh', '-euc', prepare(inside), 'sh'];
  const child = spawn('unshare', [...words, ...enter(inside), ...command], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  process.once('exit', () => child.kill('SIGKILL'));
  return child;
}

/**
 * Runs a command to its end, and returns its output.
 * @throws Error with the end of the output, when it fails
 */
export async function runInside(inside: Inside, command: readonly string[]): Promise<string> {
  const child = startInside(inside, command);
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => output.push(text));
  const [code] = (await once(child, 'close')) as [number | null];
  const text = output.join('');
  if (code === 0) return text;
  const end = text.split('\n').slice(-20).join('\n');
  throw new Error(`exit code ${code}: ${command.join(' ')}\n${end}`);
}

/** Settings by which npm on this machine reaches its registry. */
export function installationEnvironment(): Record<string, string> {
  const registry = spawnSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' });
  const proxies = Object.entries(process.env).filter(([name]) => /^\w+_proxy$/i.test(name));
  return {
    npm_config_registry: registry.stdout.trim(),
    ...(existsSync(HOST_CERTIFICATES) && { npm_config_cafile: CERTIFICATES_INSIDE }),
    ...(Object.fromEntries(proxies) as Record<string, string>),
  };
}

/** Runs a command in the namespaces of a running one, as `docker exec` does. */
export function runBeside(pid: number, inside: Inside, command: readonly string[]) {
  const namespaces = ['--mount', '--pid', '--ipc', '--uts', '--net', `--root=/proc/${pid}/root`];
  const words = ['--target', `${pid}`, ...namespaces, ...withoutChroot(inside), ...command];
  return spawnSync('nsenter', words, { encoding: 'utf8' });
}

/** The PID, seen from outside, of the command that `startInside` started; null before it runs. */
export function pidInside(child: ChildProcess): number | null {
  const file = `/proc/${child.pid}/task/${child.pid}/children`;
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8').trim().split(' ')[0]) : 0;
  return pid > 0 ? pid : null;
}

/** Mounts what every process expects. Ends with the command, because the mounts are in its namespace. */
function prepare({ root, sealed }: Inside): string {
  const devices = ['null', 'zero', 'full', 'random', 'urandom'];
  const mounts = Object.entries(sealed?.volumes ?? {}).map(
    ([path, folder]) => `mount --bind '${folder}' '${root}${path}'`,
  );
  return [
    'mount --make-rprivate /',
    `mount --bind '${root}' '${root}'`,
    `mount -t proc proc '${root}/proc'`,
    `mount -t tmpfs -o mode=755 tmpfs '${root}/dev'`,
    ...devices.map((name) => `: >'${root}/dev/${name}'`),
    ...devices.map((name) => `mount --bind /dev/${name} '${root}/dev/${name}'`),
    `ln -s /proc/self/fd '${root}/dev/fd'`,
    `mkdir '${root}/dev/shm'`,
    `mount -t tmpfs -o mode=1777 tmpfs '${root}/dev/shm'`,
    `mount -t tmpfs -o mode=1777 tmpfs '${root}/tmp'`,
    ...mounts,
    ...(sealed ? [`mount -o remount,bind,ro '${root}'`, 'ip link set lo up'] : hostAccess(root)),
    'exec "$@"',
  ].join('\n');
}

/** The certificates of this machine, for a registry behind a proxy. debootstrap has copied its resolver. */
function hostAccess(root: string): string[] {
  if (!existsSync(HOST_CERTIFICATES)) return [];
  return [`cp '${HOST_CERTIFICATES}' '${root}${CERTIFICATES_INSIDE}'`];
}

function enter(inside: Inside): string[] {
  return ['chroot', inside.root, ...withoutChroot(inside)];
}

function withoutChroot({ workdir, env, user }: Inside): string[] {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const drop =
    user === undefined
      ? []
      : [
          'setpriv',
          `--reuid=${user.uid}`,
          `--regid=${user.gid}`,
          '--clear-groups',
          '--inh-caps=-all',
          '--ambient-caps=-all',
          '--bounding-set=-all',
          '--no-new-privs',
        ];
  return ['env', '-i', '-C', workdir, ...variables, ...drop];
}
