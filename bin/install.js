/**
 * Brings node_modules in line with package-lock.json before anything of it is used.
 *
 * Everyday case: a stamp in node_modules names this platform and this lockfile, and nothing is
 * done. Otherwise one process installs, the others wait for it, and the stamp is written only
 * after the bundled Node has answered.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { ended, whileForwarding } from './child.js';
import { withInstallLock } from './install-lock.js';

/** A reason why this clone cannot run, as one sentence for its user. */
export class Unusable extends Error {}

const INSTALL = [
  'ci',
  '--ignore-scripts',
  '--include=dev',
  '--include=optional',
  '--no-audit',
  '--no-fund',
  '--loglevel=error',
];

/**
 * Settings an outer `npm start --flag` hands down that would change what is installed, or where.
 * Those that say how to reach the packages (registry, proxy, certificates, cache) stay.
 */
const DIVERTING_SETTING = new RegExp(
  '^npm_config_(omit|include|only|also|optional|dev|production|workspaces?|' +
    'include_workspace_root|prefix|local_prefix|global_prefix|global|location|global_style|' +
    'legacy_bundling|install_strategy|install_links|dry_run|package_lock|package_lock_only|' +
    'shrinkwrap|bin_links|cpu|os|libc|legacy_peer_deps|strict_peer_deps|engine_strict)$',
);

/**
 * Returns when node_modules is what package-lock.json says.
 * @param {string} root the clone
 * @param {string} node path that the bundled Node has once installed
 * @returns {Promise<NodeJS.Signals | null>} a signal that came meanwhile: end by it, start nothing
 * @throws {Unusable} when it cannot be done; the message says what to do
 */
export async function ensureInstalled(root, node) {
  if (isCurrent(root, node)) return null;
  requireGlibc();
  requireWritable(root);
  return await withInstallLock(root, say, async (cover) => {
    if (isCurrent(root, node)) return null;
    say('first start of this version: installing packages, Node and PostgreSQL (450 MB)');
    return await install(root, node, cover);
  });
}

/** @param {string} root @param {string} node */
function isCurrent(root, node) {
  try {
    accessSync(node, constants.X_OK);
    return readFileSync(stampPath(root), 'utf8') === currentStamp(root);
  } catch {
    return false;
  }
}

/** Inside node_modules, so that whatever empties that folder empties the claim too. */
function stampPath(/** @type {string} */ root) {
  return join(root, 'node_modules/.posthorn-installed');
}

function currentStamp(/** @type {string} */ root) {
  const lockfile = readFileSync(join(root, 'package-lock.json'));
  const hash = createHash('sha256').update(lockfile).digest('hex');
  return `${process.platform}-${process.arch} ${hash}\n`;
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
      `The packages have to be installed and ${root} is not writable for this user; ` +
        'start once as its owner, or use a clone of your own.',
    );
  }
}

/**
 * @param {string} root
 * @param {string} node
 * @param {(pid: number) => void} cover
 */
async function install(root, node, cover) {
  const cache = temporaryCache();
  const flags = cache === null ? [] : [`--cache=${cache}`];
  const { code, signal, stopped } = await runNpm(root, [...INSTALL, ...flags], cover);
  if (cache !== null) rmSync(cache, { recursive: true, force: true });
  if (code === 0) {
    requireWorking(node);
    writeFileSync(stampPath(root), currentStamp(root));
  } else if (stopped === null) {
    throw new Unusable(
      `npm ci ended with ${signal ?? `exit code ${code}`}, so the packages are not installed; ` +
        'its message is above. Once the network and the disk are in order, start again.',
    );
  }
  return stopped;
}

/** Some users own no home (nobody, many services): npm then gets a cache for this one time. */
function temporaryCache() {
  const cache = process.env['npm_config_cache'] || join(homedir() || '/', '.npm');
  try {
    mkdirSync(cache, { recursive: true });
    accessSync(cache, constants.W_OK);
    return null;
  } catch {
    return mkdtempSync(join(tmpdir(), 'posthorn-npm-'));
  }
}

/**
 * npm runs in a process group of its own, so that a Ctrl-C reaches it once, from here, and it can
 * undo a half install; this process stays until that is done, so that nothing starts in between.
 * @param {string} root
 * @param {string[]} args
 * @param {(pid: number) => void} cover
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

/** The npm that started this process, else the one on PATH: pnpm and yarn fill these as well. */
function npmCommand() {
  const { npm_node_execpath: node, npm_execpath: npm } = process.env;
  return node && npm && basename(npm) === 'npm-cli.js' ? [node, npm] : ['npm'];
}

/**
 * `npm --prefix <clone> start` also hands down a path for the machine's settings that is made from
 * the prefix and leads nowhere: without it, npm finds the real ones (a mirror, a certificate).
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

/** @param {string} node */
function requireWorking(node) {
  const { status, error } = spawnSync(node, ['--version'], { stdio: 'ignore' });
  if (status === 0) return;
  throw new Unusable(
    `The packages are installed and yet ${node} does not run` +
      `${error === undefined ? '' : ` (${error.message})`}; ` +
      'it needs glibc 2.28 or newer and a file system that allows to execute programs.',
  );
}

/** Always on standard error: standard output belongs to the script (`start --json`). */
function say(/** @type {string} */ sentence) {
  process.stderr.write(`posthorn: ${sentence} ...\n`);
}
