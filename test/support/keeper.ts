/**
 * Starts keepers: processes that run something for many test processes. A keeper prints one JSON line with its
 * address, and ends when its stdin closes.
 *
 * The pipe closes when the process that started the keeper ends, even by `kill -9`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export type Kept<Report> = Report & {
  /** Resolves when it has ended and its files are removed. */
  stop(): Promise<void>;
};

/** @param env variables beside those of this process */
export async function startKeeper<Report extends object>(
  file: string,
  env: Record<string, string> = {},
): Promise<Kept<Report>> {
  const keeper = spawn(process.execPath, [file], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const exit = once(keeper, 'exit');
  const lines = createInterface(keeper.stdout);
  const [line] = (await Promise.race([once(lines, 'line'), exit.then(() => [''])])) as [string];
  if (line === '') throw new Error(`${file} did not start; see its message above`);
  // The keeper does not keep this process running from here on. The end of this process ends the keeper.
  lines.close();
  keeper.stdout.destroy();
  keeper.unref();
  return {
    ...(JSON.parse(line) as Report),
    async stop() {
      keeper.ref();
      keeper.stdin.end();
      await exit;
    },
  };
}

/** Returns something that another process runs and stops. */
export function keptElsewhere<Report extends object>(report: Report): Kept<Report> {
  return { ...report, stop: async () => {} };
}
