/** Waits for a child process without ending before it. */
import { constants } from 'node:os';

/** Signals by which a terminal, npm or a service manager requests an end. */
const END_SIGNALS = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);

/** @typedef {{ code: number | null, signal: NodeJS.Signals | null }} End exactly one is set */

/**
 * Resolves when the child has ended; rejects when it could not be started.
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<End>}
 */
export function ended(child) {
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => resolve({ code, signal }));
  });
}

/**
 * Passes end signals to `forward` instead of ending, until `outcome` settles.
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

/** Ends this process with the child's exit code or signal. @param {End} end */
export function endLike({ code, signal }) {
  if (signal === null) process.exit(code ?? 1);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000); // if the signal is ignored
}
