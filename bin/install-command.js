/**
 * `letterhaus install`: makes a clone runnable for a service, and starts nothing. Installs the packages of the service,
 * without those for tests and tools, and builds the dashboard. Afterwards nothing writes into the clone, so another
 * user can start it, and its folder may be read-only.
 *
 * An interrupted installation is repeated as a whole; a complete one is left alone. The clone cannot run meanwhile.
 *
 * A published package is complete. There it removes the header files of Node, which npm cannot leave out.
 */
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { packagedNode, withNode } from './bootstrap.js';
import { endLike } from './child.js';
import { buildDashboard, isDashboardCurrent } from './dashboard.js';
import { installPackages, isInstalled, removeHeaders } from './install.js';
import { requireInstallable, say, sizeIn, Unusable } from './install.js';
import { withInstallLock } from './install-lock.js';

const USAGE = `Usage: letterhaus install [options]

make this clone runnable for a service: install its packages, build the dashboard, start nothing

Options:
  --json      print JSON
  -h, --help  display help for command

Run it as the owner of the clone, again after each upgrade. It needs npm, the network and 500 MB of
disk for some minutes, and leaves 250 MB. Then another user can start the service, without npm and
from a read-only folder (docs/system-user.md).

In a package of npm, which is complete, it removes 67 MB of header files of Node.

Example:
  letterhaus install
`;

/** @typedef {{ dashboard: boolean, stopped: NodeJS.Signals | null }} Installation */

/**
 * @public used by bin/letterhaus, which tools do not recognise without a file extension
 * @param {string} clone @param {string[]} args
 */
export async function runInstall(clone, args) {
  const root = resolve(clone); // without a final slash
  await withArguments(args, (isJson) => install(root, isJson));
}

/**
 * @public used by bin/letterhaus
 * @param {string} folder of the package @param {string[]} args
 */
export async function runInstallPublished(folder, args) {
  const root = realpathSync(folder);
  await withArguments(args, (isJson) => {
    try {
      const node = realpathSync(packagedNode(root));
      // Elsewhere it is shared with other programs, which may need the headers.
      if (node.startsWith(root + sep)) removeHeaders(node);
      process.stdout.write(isJson ? jsonLine(root) : report(root));
    } catch (error) {
      printFailure('install_failed', /** @type {Error} */ (error).message, isJson);
      process.exitCode = 1;
    }
  });
}

/** @param {string[]} args @param {(isJson: boolean) => void | Promise<void>} work */
async function withArguments(args, work) {
  const isJson = args.includes('--json');
  const unknown = args.find((word) => !['--json', '--help', '-h'].includes(word));
  if (unknown !== undefined) {
    printFailure(
      'usage_error',
      `install does not take ${JSON.stringify(unknown)} (see --help)`,
      isJson,
    );
    process.exitCode = 2;
  } else if (args.length > (isJson ? 1 : 0)) process.stdout.write(USAGE);
  else await work(isJson);
}

/** @param {string} root @param {boolean} isJson */
async function install(root, isJson) {
  const complain = (/** @type {string} */ sentence) =>
    printFailure('install_failed', sentence, isJson);
  await withNode(
    root,
    async (node) => {
      const { dashboard, stopped } = await installUnlessDone(root, node);
      if (stopped !== null) endLike({ code: null, signal: stopped });
      else if (dashboard) process.stdout.write(isJson ? jsonLine(root) : report(root));
      else
        throw new Unusable(`${root} is installed, but without its dashboard, whose build failed.`);
    },
    complain,
  );
}

/**
 * Writes nothing into a complete clone, which may be read-only.
 * @param {string} root @param {string} node
 * @returns {Promise<Installation>}
 */
async function installUnlessDone(root, node) {
  if (isDashboardCurrent(root) && isInstalled(root, node, 'service'))
    return { dashboard: true, stopped: null };
  requireInstallable(root);
  process.umask(0o022); // the user of the service reads what is installed
  return await withInstallLock(root, say, (cover) => installAll(root, node, cover));
}

/**
 * @param {string} root @param {string} node @param {(pid: number) => void} cover
 * @returns {Promise<Installation>}
 */
async function installAll(root, node, cover) {
  let dashboard = isDashboardCurrent(root);
  if (!dashboard) {
    if (!isInstalled(root, node, 'all') && !isInstalled(root, node, 'dashboard')) {
      say(`installing what builds the dashboard (${sizeIn(root, 'dashboard')})`);
      const stopped = await installPackages(root, node, 'dashboard', cover);
      if (stopped !== null) return { dashboard, stopped };
    }
    say('building the dashboard');
    const { isBuilt, stopped } = await buildDashboard(root, node);
    if (stopped !== null) return { dashboard, stopped };
    dashboard = isBuilt;
  }
  if (isInstalled(root, node, 'service')) return { dashboard, stopped: null };
  say(`installing the packages of the service, Node and PostgreSQL (${sizeIn(root, 'service')})`);
  return { dashboard, stopped: await installPackages(root, node, 'service', cover) };
}

/** @param {string} root */
function report(root) {
  const closed = closedFolder(root);
  const note =
    closed === null
      ? 'The folder may now be read-only, and every user can start the service:'
      : `Other users cannot read ${closed}. Either its owner starts the service, or you move the clone, for\n` +
        'example to /opt/letterhaus, or permit others to read it (chmod go+rX). This starts it:';
  return `Letterhaus ${versionOf(root)} is installed in ${root}.
${note}

  ${startCommand(root)}

docs/system-user.md makes it a service of systemd.
`;
}

/** @param {string} root */
function jsonLine(root) {
  const fields = { folder: root, version: versionOf(root), start: startCommand(root) };
  return `${JSON.stringify(fields)}\n`;
}

/** With the bundled Node, so that the system needs none. @param {string} root */
function startCommand(root) {
  return `${join(root, 'node_modules/.bin/node')} ${join(root, 'bin/letterhaus')} start`;
}

/** @param {string} root */
function versionOf(root) {
  const file = readFileSync(join(root, 'package.json'), 'utf8');
  return /** @type {{ version: string }} */ (JSON.parse(file)).version;
}

/**
 * Returns the outermost folder that keeps other users out of the clone; null when none does.
 * @param {string} root
 */
function closedFolder(root) {
  let closed = (statSync(join(root, 'package.json')).mode & 0o004) === 0 ? root : null;
  for (let folder = root; ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) closed = folder;
    if (folder === dirname(folder)) return closed;
  }
}

/**
 * Prints it in the form of all commands (src/cli/command.ts).
 * @param {string} code @param {string} message @param {boolean} isJson
 */
function printFailure(code, message, isJson) {
  const line = isJson ? JSON.stringify({ error: { code, message } }) : `letterhaus: ${message}`;
  process.stderr.write(`${line}\n`);
}
