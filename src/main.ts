/**
 * The command line's entry: gives it the outside world. bin/posthorn starts this with the bundled
 * Node.
 */
import { isAbsolute, join, relative } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { runCommandLine } from './cli/program.ts';
import { systemWorld } from './service/system-world.ts';

// `posthorn emails list | head -1`: the reader has seen enough.
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
  ...(process.stdin.isTTY && process.stderr.isTTY && { confirm }),
});

async function confirm(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question} [y/N] `);
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

/** The launcher as it can be typed where the user is: npm has changed the directory, the user not. */
function programPath(): string {
  const launcher = join(import.meta.dirname, '../bin/posthorn');
  const path = relative(process.env['INIT_CWD'] ?? process.cwd(), launcher);
  return path.startsWith('..') || isAbsolute(path) ? launcher : `./${path}`;
}
