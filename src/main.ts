/** bin/letterhaus starts this file. It passes the process's input and output to the command line. */
import { isAbsolute, join, relative } from 'node:path';
import { runCommandLine } from './cli/program.ts';
import { systemWorld } from './service/machine/system-world.ts';

// All times are UTC. Some libraries (templates) use the zone of the process. With daylight saving, one hour of a day
// would appear twice and another never.
process.env['TZ'] = 'UTC';

// A pipe such as `letterhaus emails list | head -1` closes stdout early: exit without an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

await runCommandLine(process.argv.slice(2), {
  env: process.env,
  program: programPath(),
  world: systemWorld,
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  // A terminal of unknown width reports 0.
  ...(process.stdout.isTTY &&
    process.stdout.columns > 0 && { widthColumns: process.stdout.columns }),
  ...(process.stdin.isTTY && process.stderr.isTTY && { confirm }),
});

async function confirm(question: string): Promise<boolean> {
  // Few commands ask, and each would take 5 ms longer to load it.
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question} [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

/** The launcher's path, relative to where the user called it: npm changes the working directory. */
function programPath(): string {
  const launcher = join(import.meta.dirname, '../bin/letterhaus');
  const path = relative(process.env['INIT_CWD'] ?? process.cwd(), launcher);
  return path.startsWith('..') || isAbsolute(path) ? launcher : `./${path}`;
}
