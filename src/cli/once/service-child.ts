/** The service of `start --once`: a real `posthorn start --json` as a child process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Env } from '../../config/env-reader.ts';

const STOP_WITHIN_MS = 15_000;

export type ServiceChild = AsyncDisposable & {
  /** Its address, once it is ready. */
  url: Promise<string>;
  /** The end of its log. */
  lastWords: () => string;
};

/** @param env nothing of this process's environment is passed on but this */
export function startServiceChild(env: Env): ServiceChild {
  const args = [process.argv[1] ?? '', 'start', '--json', '--workers', '1'];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log = (log + text).slice(-4_000)));
  const ended = once(child, 'exit');
  const ready = once(createInterface(child.stdout), 'line') as Promise<[string]>;
  const url = Promise.race([
    ready.then(([line]) => (JSON.parse(line) as { url: string }).url),
    ended.then(() => Promise.reject(new Error('the service did not start'))),
  ]);
  url.catch(() => {}); // whoever waits for it hears of it; nobody may be there yet
  return {
    url,
    lastWords: () => log,
    async [Symbol.asyncDispose]() {
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await ended;
      clearTimeout(timer);
    },
  };
}
