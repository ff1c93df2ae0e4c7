/**
 * Builds web/dist, the dashboard and the handbook, before the service starts. A published package contains it.
 *
 * A stamp in web/dist has the hash of the sources, so a later start only reads these. Mail does not depend on the
 * dashboard: if it cannot be built, one line has the reason, and the service starts without it.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, readdirSync, readFileSync } from 'node:fs';
import { renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { ended, whileForwarding } from './child.js';

/** The build depends on these files, and on the files in the folders. An image lacks some of the documents. */
const FILES = [
  'package-lock.json',
  'package.json',
  'web/build.js',
  'web/index.html',
  'src/http/dashboard/html-page.ts',
  'src/http/openapi/reference-page.ts',
  'src/http/roles.ts',
  'sdk/src/api.ts',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'README.md',
  'SECURITY.md',
  'bench/README.md',
  'sdk/README.md',
  'test/README.md',
  'web/README.md',
];
const FOLDERS = ['docs', 'web/handbook', 'web/src', 'web/public', 'src/core', 'src/mail/html'];

/**
 * Resolves when web/dist is current, or cannot be built.
 * @param {string} root the clone, with its packages installed
 * @param {string} node path of the bundled Node
 * @param {{ hasTools: boolean }} packages whether the packages that build it are installed
 * @returns {Promise<NodeJS.Signals | null>} a signal received meanwhile, by which the caller must end
 */
export async function ensureDashboard(root, node, { hasTools }) {
  if (isDashboardCurrent(root)) return null;
  if (!hasTools || !isWritable(join(root, 'web'))) {
    const install = `${join(root, 'bin/letterhaus')} install`;
    say(`the dashboard is not built for this version: run ${install} as the owner of the clone`);
    return null;
  }
  say('first start of this version: building the dashboard ...');
  const { isBuilt, stopped } = await buildDashboard(root, node);
  if (!isBuilt && stopped === null)
    say('the dashboard could not be built; the service starts without it');
  return stopped;
}

/** @param {string} root @param {string} node */
export async function buildDashboard(root, node) {
  const stamp = stampOf(root);
  const folder = join(root, 'web', `.build-${process.pid}`);
  const { code, stopped } = await runBuild(node, [scriptOf(root), folder]);
  const isBuilt = code === 0 && putInPlace(root, folder, stamp);
  rmSync(folder, { recursive: true, force: true });
  return { isBuilt, stopped };
}

/**
 * Returns whether web/dist was built from its sources. Without sources there is nothing to build.
 * @param {string} root
 */
export function isDashboardCurrent(root) {
  return !existsSync(scriptOf(root)) || isCurrent(root, stampOf(root));
}

/** @param {string} root */
function scriptOf(root) {
  return join(root, 'web/build.js');
}

/** @param {string} root @param {string} stamp */
function isCurrent(root, stamp) {
  try {
    return readFileSync(join(root, 'web/dist/.stamp'), 'utf8') === stamp;
  } catch {
    return false;
  }
}

/** @param {string} root */
function stampOf(root) {
  const hash = createHash('sha256');
  const inFolders = FOLDERS.filter((folder) => existsSync(join(root, folder))).flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => join(root, folder, name))
      .filter((path) => statSync(path).isFile())
      .toSorted(),
  );
  const files = FILES.map((file) => join(root, file)).filter((path) => existsSync(path));
  for (const path of [...files, ...inFolders]) {
    hash.update(`${relative(root, path)}\0`).update(readFileSync(path));
  }
  return hash.digest('hex');
}

/** @param {string} folder */
function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} node @param {string[]} args */
async function runBuild(node, args) {
  const build = spawn(node, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  let stopped = /** @type {NodeJS.Signals | null} */ (null);
  const { code } = await whileForwarding((signal) => {
    stopped ??= signal;
    build.kill(signal);
  }, ended(build));
  return { code, stopped };
}

/**
 * Moves the build to web/dist. Two processes that start together both build, and the result of one of them stays.
 * @param {string} root @param {string} folder @param {string} stamp
 */
function putInPlace(root, folder, stamp) {
  const dist = join(root, 'web/dist');
  try {
    writeFileSync(join(folder, '.stamp'), stamp);
    rmSync(dist, { recursive: true, force: true });
    renameSync(folder, dist);
    return true;
  } catch {
    return existsSync(dist);
  }
}

/** Prints on standard error, because standard output belongs to the script (`start --json`). */
function say(/** @type {string} */ sentence) {
  process.stderr.write(`letterhaus: ${sentence}\n`);
}
