/**
 * Keeps the key and the sign-in link of a first start out of the journal of systemd, which more people and programs
 * read than should sign in. They go to a file in the data directory that only the user of the service can read.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cli } from '../command.ts';

const NAME = 'first-start.txt';

/**
 * Returns whether systemd keeps the output: it sets these variables for a service. A shell of a desktop inherits them,
 * so a terminal has precedence.
 */
export function isOutputKept({ env, widthColumns }: Pick<Cli, 'env' | 'widthColumns'>): boolean {
  return widthColumns === undefined && Boolean(env['JOURNAL_STREAM'] || env['INVOCATION_ID']);
}

/**
 * Writes the screen of the first start into a new file of mode 0600, and returns the text to print instead. A disk that
 * refuses the file stops no service: key and link can be replaced.
 */
export function keepFirstScreen(dataDir: string, screen: string, program: string): string {
  const file = join(dataDir, NAME);
  const unfinished = `${file}.new`;
  try {
    rmSync(unfinished, { force: true });
    writeFileSync(unfinished, screen, { mode: 0o600, flag: 'wx' });
    renameSync(unfinished, file);
    return `The test key, a link to sign in and a first command are in ${file}. Delete that file afterwards.\n`;
  } catch (error) {
    rmSync(unfinished, { force: true });
    return (
      `The test key and the link to sign in could not be written to ${file} (${(error as Error).message}), ` +
      `and are not printed here. Create others: ${program} keys create --environment test, and ${program} owner link\n`
    );
  }
}
