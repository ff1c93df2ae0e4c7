/** Waiting for a child process without dying before it. */
import { constants } from 'node:os';

/** What a terminal, npm or a service manager sends to ask for an end. */
const END_SIGNALS = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);

/**
 * @typedef {{ code: number | null, signal: NodeJS.Signals | null }} End exactly one is set
 */

/**
 * How the child ended.
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<End>} rejects if it could not be started
 */
export function ended(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => resolve({ code, signal }));
  });
}

/**
 * Hands every request to end to `forward` instead of ending, until `outcome` is there.
 * @template Outcome
 * @param {(signal: NodeJS.Signals) => void} forward
 * @param {Promise<Outcome>} outcome
 */
export async function whileForwarding(forward, outcome) {
  for (const signal of END_SIGNALS) process.on(signal, forward);
  try {
    return await outcome;
  } finally {
    for (const signal of END_SIGNALS) process.off(signal, forward);
  }
}

/**
 * Ends this process the way the child ended.
 * @param {End} end
 */
export function endLike({ code, signal }) {
  if (signal === null) process.exit(code ?? 1);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000); // where it is ignored
}
