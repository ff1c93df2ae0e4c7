/** Runs bin/letterhaus in a clean environment: in its own process, or ten times cheaper, in this process. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Cli } from '../../src/cli/command.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';

export const LAUNCHER = fileURLToPath(new URL('../../bin/letterhaus', import.meta.url));
/** The program that the launcher becomes, without the start of a second Node. */
export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** Skips the search for symbolic links, which saves 40 of the 650 ms of CPU time until a service is ready. */
export const WITHOUT_LINKS = '--preserve-symlinks';

export type Env = Record<string, string | undefined>;
/** The width of stdout, and who answers a question; absent: no terminal. */
export type Terminal = Pick<Cli, 'widthColumns' | 'confirm'>;
export type CommandEnd = { code: number; stdout: string; stderr: string };

/** Milliseconds until a command that became a service by mistake is stopped. */
const END_WITHIN_MS = 60_000;
/** Commands that start processes, take their environment from the process, or use its stdin and stdout. */
const NEEDS_PROCESS = /^(?:start|bench|secrets|suppressions (?:import|export))\b/;

/**
 * Excludes files of the machine and saved log-ins of the developer, the doctor after each start, and OpenSSL tuning,
 * whose measurements take a fifth of the CPU time of a start.
 */
const OF_NOBODY = {
  LETTERHAUS_ENV_FILE: '/dev/null',
  XDG_CONFIG_HOME: '/dev/null',
  LETTERHAUS_DOCTOR: 'off',
  OPENSSL_ia32cap: ':~0x0',
};

/** Returns the variables that any program needs, and the given ones, but no others of the developer. */
export function cleanEnv(env: Env): Env {
  const { PATH, HOME, TMPDIR, LANG } = process.env;
  return { PATH, HOME, TMPDIR, LANG, ...OF_NOBODY, ...env };
}

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

/** The previous command in this process. Commands run one by one, because each sets `process.exitCode`. */
let commandBefore: Promise<unknown> = Promise.resolve();

/** Does the same in this process, if the command permits that. Commands run one by one. */
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
