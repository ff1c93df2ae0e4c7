/**
 * Starts keepers: processes that hold something for many test processes, print one JSON line that
 * says where it is, and end it with themselves when their stdin closes.
 *
 * The pipe ends with the process that started the keeper, however that ends, `kill -9` included.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export type Kept<Report> = Report & {
  /** Resolves when what is kept has ended and its files are gone. */
  stop(): Promise<void>;
};

/** @param env besides that of this process */
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
  // From here on nothing of the keeper holds this process: its end is the keeper's signal.
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

/** What is kept by somebody else, who stops it. */
export function keptElsewhere<Report extends object>(report: Report): Kept<Report> {
  return { ...report, stop: async () => {} };
}
