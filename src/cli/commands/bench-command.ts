/** `letterhaus bench`: runs the benchmark of the clone (bench/main.ts) with all remaining arguments. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { addExamples, type Cli, printFailure, usageFailure } from '../command.ts';

const BENCH = fileURLToPath(new URL('../../../bench/main.ts', import.meta.url));
/** Installs the packages for tests first, which a clone for a service does not have. */
const LAUNCHER = fileURLToPath(new URL('../../../bin/run.js', import.meta.url));

export function describeBench(command: Command, cli: Cli): void {
  addExamples(command, ['bench --quick', 'bench --postfix --rounds 3']);
  command
    .argument('[options...]', 'options of the benchmark, see bench --help')
    .helpOption(false)
    .allowUnknownOption()
    .action((words: string[]) => {
      if (!existsSync(BENCH)) {
        const where = 'The benchmark comes with a clone of the repository; run it there.';
        printFailure(cli, usageFailure(where), words.includes('--json'));
        process.exitCode = 2;
        return;
      }
      // Replaces this process, so signals, terminal and exit code are the benchmark's own.
      const argv = [process.execPath, LAUNCHER, 'bench/main.ts', ...words];
      process.execve?.(process.execPath, argv, process.env);
    });
}
