/**
 * Installs the packages of package-lock.json before they are used: all of them, or only those that the service needs
 * (install-command.js). If a stamp in node_modules matches this platform and lockfile, nothing is done. Otherwise one
 * process installs while others wait, tests the bundled Node, and writes the stamp.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { ended, whileForwarding } from './child.js';
import { withInstallLock } from './install-lock.js';

/** A reason why this clone cannot run, as one sentence for its user. */
export class Unusable extends Error {}

const INSTALL = ['ci', '--ignore-scripts', '--include=optional', '--no-audit', '--no-fund'];
const QUIET = '--loglevel=error';

/**
 * Packages that are installed together: `all`, those of the `service`, or those that build the `dashboard`. Node comes
 * with each.
 * @typedef {'all' | 'service' | 'dashboard'} Selection
 * @type {Record<Selection, string[]>}
 */
const SELECTIONS = {
  all: ['--include=dev'],
  service: ['--omit=dev', '--include-workspace-root', '--workspace=runtime'],
  dashboard: ['--include=dev', '--workspace=runtime', '--workspace=web'],
};

/** Megabytes of disk that each selection takes in node_modules, measured. @type {Record<Selection, number>} */
const SIZES_MB = { all: 1_000, service: 250, dashboard: 500 };

/**
 * Settings of an outer `npm start --flag` that would change what is installed, or where. Settings for access to
 * packages (registry, proxy, certificates, cache) are kept.
 */
const DIVERTING_SETTING = new RegExp(
  '^npm_config_(omit|include|only|also|optional|dev|production|workspaces?|' +
    'include_workspace_root|prefix|local_prefix|global_prefix|global|location|global_style|' +
    'legacy_bundling|install_strategy|install_links|dry_run|package_lock|package_lock_only|' +
    'shrinkwrap|bin_links|cpu|os|libc|legacy_peer_deps|strict_peer_deps|engine_strict)$',
);

/**
 * Resolves when node_modules has what a script needs. A clone that was installed for the service alone stays that way
 * until a script needs all packages.
 * @param {string} root the clone
 * @param {string} node path of the bundled Node after the installation
 * @param {{ needsAll: boolean }} script
 * @returns {Promise<NodeJS.Signals | null>} a signal received meanwhile, by which the caller must end
 * @throws {Unusable} with the remedy as its message
 */
export async function ensureInstalled(root, node, { needsAll }) {
  const isCurrent = () =>
    isInstalled(root, node, 'all') || (!needsAll && isInstalled(root, node, 'service'));
  if (isCurrent()) return null;
  requireInstallable(root);
  return await withInstallLock(root, say, async (cover) => {
    if (isCurrent()) return null;
    const selection = needsAll || !wasForService(root) ? 'all' : 'service';
    const what = { all: 'packages, Node and PostgreSQL', service: 'its packages' };
    say(`first start of this version: installing ${what[selection]} (${sizeIn(root, selection)})`);
    return await installPackages(root, node, selection, cover);
  });
}

/**
 * Returns whether node_modules has this selection for this platform and lockfile.
 * @param {string} root @param {string} node @param {Selection} selection
 */
export function isInstalled(root, node, selection) {
  try {
    accessSync(node, constants.X_OK);
    return readFileSync(stampPath(root), 'utf8') === stampOf(root, selection);
  } catch {
    return false;
  }
}

/** Whether the packages of an earlier version were those of the service alone. @param {string} root */
function wasForService(root) {
  try {
    return readFileSync(stampPath(root), 'utf8').endsWith(' service\n');
  } catch {
    return false;
  }
}

/** Inside node_modules, so that it is removed with that folder. */
function stampPath(/** @type {string} */ root) {
  return join(root, 'node_modules/.letterhaus-installed');
}

/** @param {string} root @param {Selection} selection */
function stampOf(root, selection) {
  const lockfile = readFileSync(join(root, 'package-lock.json'));
  const hash = createHash('sha256').update(lockfile).digest('hex');
  const suffix = selection === 'all' ? '' : ` ${selection}`;
  return `${process.platform}-${process.arch} ${hash}${suffix}\n`;
}

/** @throws {Unusable} when nothing can be installed here @param {string} root */
export function requireInstallable(root) {
  requireGlibc();
  requireWritable(root);
}

/** The binaries of Node and PostgreSQL are linked against glibc; musl fails with "not found". */
function requireGlibc() {
  if (process.platform !== 'linux') return;
  Object.assign(process.report, { excludeNetwork: true }); // its reverse look-ups take seconds
  const { header } = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (
    process.report.getReport()
  );
  if (header.glibcVersionRuntime !== undefined) return;
  throw new Unusable(
    'This system uses musl instead of glibc (Alpine?), for which there is no bundled Node; ' +
      'use a glibc system such as Debian or Ubuntu.',
  );
}

function requireWritable(/** @type {string} */ root) {
  try {
    accessSync(root, constants.W_OK);
  } catch {
    throw new Unusable(
      `The packages must be installed, but ${root} is not writable for this user; ` +
        `run ${join(root, 'bin/letterhaus')} install as its owner, or use a clone of your own.`,
    );
  }
}

/**
 * Replaces node_modules by a selection.
 * @param {string} root @param {string} node @param {Selection} selection
 * @param {(pid: number) => void} cover from withInstallLock
 */
export async function installPackages(root, node, selection, cover) {
  requireSpace(root, selection);
  const cache = temporaryCache();
  const flags = [...SELECTIONS[selection], QUIET, ...(cache === null ? [] : [`--cache=${cache}`])];
  const { code, signal, stopped } = await runNpm(root, [...INSTALL, ...flags], cover);
  if (cache !== null) rmSync(cache, { recursive: true, force: true });
  if (code === 0) {
    requireWorking(node);
    if (selection === 'service') removeHeaders(node);
    writeFileSync(stampPath(root), stampOf(root, selection));
  } else if (stopped === null) {
    throw new Unusable(
      `npm ci ended with ${signal ?? `exit code ${code}`}, so the packages are not installed; ` +
        'its message is above. Once the network and the disk are in order, start again.',
    );
  }
  return stopped;
}

/** Returns how much disk a selection takes, and where. @param {string} root @param {Selection} selection */
export function sizeIn(root, selection) {
  return `${SIZES_MB[selection]} MB in ${join(root, 'node_modules')}`;
}

/**
 * Before the first installation. A later one replaces what takes about as much.
 * @param {string} root @param {Selection} selection
 */
function requireSpace(root, selection) {
  if (existsSync(join(root, 'node_modules'))) return;
  const { bavail, bsize } = statfsSync(root);
  const freeMb = Math.floor((bavail * bsize) / 1e6);
  if (freeMb >= SIZES_MB[selection]) return;
  throw new Unusable(
    `The packages need ${sizeIn(root, selection)}, and that disk has ${freeMb} MB free; ` +
      'make space, or put the clone on another disk.',
  );
}

/** Node comes with 67 MB of header files, for compiling additions in C++. @param {string} node */
export function removeHeaders(node) {
  rmSync(join(dirname(dirname(node)), 'include'), { recursive: true, force: true });
}

/** Creates a cache for this installation only, for a user without a home directory (nobody, many services). */
function temporaryCache() {
  const cache = process.env['npm_config_cache'] || join(homedir() || '/', '.npm');
  try {
    mkdirSync(cache, { recursive: true });
    accessSync(cache, constants.W_OK);
    return null;
  } catch {
    return mkdtempSync(join(tmpdir(), 'letterhaus-npm-'));
  }
}

/**
 * Runs npm in its own process group, so that it gets Ctrl-C once, from this process, and can undo an incomplete
 * installation. This process waits for it, so that no script starts in between.
 * @param {string} root @param {string[]} args @param {(pid: number) => void} cover
 */
async function runNpm(root, args, cover) {
  const [command = 'npm', ...first] = npmCommand();
  const npm = spawn(command, [...first, ...args], {
    cwd: root,
    env: npmEnvironment(process.env),
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
  });
  if (npm.pid !== undefined) cover(npm.pid);
  let stopped = /** @type {NodeJS.Signals | null} */ (null);
  const outcome = await whileForwarding(
    (signal) => {
      if (stopped === null) npm.kill(signal);
      stopped ??= signal;
    },
    ended(npm).catch((error) => {
      throw new Unusable(`npm could not be started (${error.message}); install Node with its npm.`);
    }),
  );
  return { ...outcome, stopped };
}

/** Returns the npm that started this process, else the one in PATH. pnpm and yarn also set these variables. */
function npmCommand() {
  const { npm_node_execpath: node, npm_execpath: npm } = process.env;
  return node && npm && basename(npm) === 'npm-cli.js' ? [node, npm] : ['npm'];
}

/**
 * `npm --prefix <clone> start` also sets a path for the machine's settings that is derived from the prefix and does not
 * exist. Without it, npm finds the real settings (a mirror, a certificate).
 * @param {NodeJS.ProcessEnv} env
 */
function npmEnvironment(env) {
  const kept = Object.entries(env).filter(([name, value]) => {
    const setting = name.toLowerCase().replaceAll('-', '_');
    if (setting === 'npm_config_globalconfig') return existsSync(value ?? '');
    return !DIVERTING_SETTING.test(setting);
  });
  return Object.fromEntries(kept);
}

/** A minimal Debian has no libatomic, which the error of the loader then names. @param {string} node */
function requireWorking(node) {
  const { status, error, stderr } = spawnSync(node, ['--version'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    encoding: 'utf8',
  });
  if (status === 0) return;
  const reason = error?.message ?? stderr.trim().split('\n')[0];
  throw new Unusable(
    `The packages are installed, but ${node} does not run${reason ? ` (${reason})` : ''}; ` +
      'it needs glibc 2.28 or newer, libstdc++ and libatomic (Debian and Ubuntu: the packages ' +
      'libstdc++6 and libatomic1), and a file system that allows executing programs.',
  );
}

/** Prints on standard error, because standard output belongs to the script (`start --json`). */
export function say(/** @type {string} */ sentence) {
  process.stderr.write(`letterhaus: ${sentence} ...\n`);
}
