/**
 * Running bin/letterhaus as an operator does, in an environment without anything of ours: in a process
 * of its own, or, ten times cheaper, the same command line in this process.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Cli } from '../../src/cli/command.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';

export const LAUNCHER = fileURLToPath(new URL('../../bin/letterhaus', import.meta.url));
/** What the launcher becomes: a service without the start of another Node before it. */
export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/**
 * Has Node not look for links where it loads code: that is 40 of the 650 ms of CPU time until supervisor and worker of
 * a service are ready. No module is behind a link here.
 */
export const WITHOUT_LINKS = '--preserve-symlinks';

export type Env = Record<string, string | undefined>;
/** What stdout is: nothing given, no terminal. */
export type Terminal = Pick<Cli, 'widthColumns'>;
export type CommandEnd = { code: number; stdout: string; stderr: string };

/** A command that has become a service, against expectation, is asked to stop. */
const END_WITHIN_MS = 60_000;
/** They start processes, take their environment from the process, or use its stdin and stdout. */
const NEEDS_PROCESS = /^(?:start|bench|secrets|suppressions (?:import|export))\b/;

/** No file of the machine and no saved log-in of the developer. */
const OF_NOBODY = { LETTERHAUS_ENV_FILE: '/dev/null', XDG_CONFIG_HOME: '/dev/null' };

/** What any program may expect, and what is given; no variable of the developer's gets through. */
export function cleanEnv(env: Env): Env {
  const { PATH, HOME, TMPDIR, LANG } = process.env;
  return { PATH, HOME, TMPDIR, LANG, ...OF_NOBODY, ...env };
}

/** Runs one command to its end. */
export function letterhaus(
  args: readonly string[],
  env: Env,
  launcher = LAUNCHER,
): Promise<CommandEnd> {
  return new Promise((resolve, reject) => {
    const argv = [launcher, ...args];
    const options = { env: cleanEnv(env), timeout: END_WITHIN_MS };
    execFile(process.execPath, argv, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (typeof code === 'number') resolve({ code, stdout, stderr });
      else reject(new Error(`letterhaus ${args.join(' ')} did not end by itself\n${stderr}`));
    });
  });
}

/** Of commands in this process: each leaves its exit code in `process.exitCode`. */
let commandBefore: Promise<unknown> = Promise.resolve();

/**
 * The same without the start of a process where a command can do without; one at a time. That the
 * launcher runs every command, test/launcher and src/cli show.
 */
export function letterhausHere(
  args: readonly string[],
  env: Env,
  terminal: Terminal = {},
): Promise<CommandEnd> {
  if (NEEDS_PROCESS.test(args.join(' '))) return letterhaus(args, env);
  const end = commandBefore.then(() => runHere(args, env, terminal));
  commandBefore = end.catch(() => {});
  return end;
}

async function runHere(args: readonly string[], env: Env, terminal: Terminal): Promise<CommandEnd> {
  const end: CommandEnd = { code: 0, stdout: '', stderr: '' };
  const cli: Cli = {
    env: cleanEnv(env),
    world: systemWorld,
    program: './bin/letterhaus',
    ...terminal,
    out: (text) => (end.stdout += text),
    err: (text) => (end.stderr += text),
  };
  const { runCommandLine } = await import('../../src/cli/program.ts');
  const exitCode = process.exitCode;
  process.exitCode = 0;
  try {
    await runCommandLine(args, cli);
    return { ...end, code: process.exitCode };
  } finally {
    process.exitCode = exitCode;
  }
}
