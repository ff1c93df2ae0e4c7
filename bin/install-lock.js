/**
 * Allows one installation at a time per clone. The lock of a dead process is released.
 *
 * The lock is a folder, `.install-lock`. Each file in it names a process that must end before the next installation may
 * begin: the installer, and npm, which continues for a while when the installer is killed. A process takes the lock by
 * renaming a prepared folder onto it, which rename(2) permits only while it is missing or empty. Files of dead
 * processes are deleted. Concurrent deletions concern the same names, never the file of a new holder.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 100;

/**
 * Runs `work` while no other process does.
 * @template Result
 * @param {string} root the clone
 * @param {(sentence: string) => void} say called once if another process has the lock
 * @param {(cover: (pid: number) => void) => Promise<Result>} work may call `cover` to keep the lock until that process
 *   has ended as well
 */
export async function withInstallLock(root, say, work) {
  const lock = join(root, '.install-lock');
  if (!take(lock)) {
    say('another process is installing in this clone; waiting for it');
    while (!take(lock)) await delay(POLL_MS);
  }
  try {
    return await work((pid) => writeFileSync(join(lock, nameOf(pid)), ''));
  } finally {
    release(lock);
  }
}

/** @param {string} lock */
function take(lock) {
  const holders = list(lock);
  if (holders.some(isAlive)) return false;
  for (const dead of holders) rmSync(join(lock, dead), { force: true });

  const mine = nameOf(process.pid);
  const prepared = `${lock}-${mine}`;
  mkdirSync(prepared, { recursive: true });
  writeFileSync(join(prepared, mine), '');
  try {
    renameSync(prepared, lock);
    return true;
  } catch (error) {
    rmSync(prepared, { recursive: true });
    if (isTaken(error)) return false;
    throw error;
  }
}

/** @param {string} lock */
function release(lock) {
  const mine = nameOf(process.pid);
  for (const name of list(lock)) {
    if (name === mine || !isAlive(name)) rmSync(join(lock, name), { force: true });
  }
  try {
    rmdirSync(lock);
  } catch (error) {
    // Without our file, another process may have taken the folder, and may have released it again.
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code !== 'ENOENT' && !isTaken(error)) throw error;
  }
}

/** @param {string} lock */
function list(lock) {
  try {
    return readdirSync(lock);
  } catch {
    return []; // there is no lock
  }
}

/** POSIX allows a system to choose between the two for a folder that is not empty. */
function isTaken(/** @type {unknown} */ error) {
  const { code } = /** @type {NodeJS.ErrnoException} */ (error);
  return code === 'ENOTEMPTY' || code === 'EEXIST';
}

/** Pid and start time, because a restarted container assigns the same pids to other processes. */
function nameOf(/** @type {number} */ pid) {
  return `${pid}-${startOf(pid) ?? 'ended'}`;
}

/** @param {string} name */
function isAlive(name) {
  const [pid, start] = name.split('-');
  return startOf(Number(pid)) === start;
}

/**
 * Returns the start time of a process as a text for comparison; undefined when it has ended.
 * @param {number} pid
 * @returns {string | undefined}
 */
function startOf(pid) {
  return process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid);
}

/** In /proc/pid/stat (proc(5)), after the name in brackets, which may contain any characters, the state is the first
 *  field and the start time, in ticks since boot, the twentieth. */
function startFromProc(/** @type {number} */ pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function startFromPs(/** @type {number} */ pid) {
  try {
    const env = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' };
    const started = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return started.trim().replaceAll(/\W+/g, '_') || undefined;
  } catch {
    return undefined;
  }
}
