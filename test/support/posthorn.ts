/** Running bin/posthorn as an operator does, in an environment without anything of ours. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const LAUNCHER = fileURLToPath(new URL('../../bin/posthorn', import.meta.url));

export type Env = Record<string, string | undefined>;
export type CommandEnd = { code: number; stdout: string; stderr: string };

/** A command that has become a service, against expectation, is asked to stop. */
const END_WITHIN_MS = 60_000;

/** What any program may expect, and what is given; no variable of the developer's gets through. */
export function cleanEnv(env: Env): Env {
  const { PATH, HOME, TMPDIR, LANG } = process.env;
  return { PATH, HOME, TMPDIR, LANG, ...env };
}

/** Runs one command to its end. */
export function posthorn(args: readonly string[], env: Env): Promise<CommandEnd> {
  return new Promise((resolve, reject) => {
    const argv = [LAUNCHER, ...args];
    const options = { env: cleanEnv(env), timeout: END_WITHIN_MS };
    execFile(process.execPath, argv, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (typeof code === 'number') resolve({ code, stdout, stderr });
      else reject(new Error(`posthorn ${args.join(' ')} did not end by itself\n${stderr}`));
    });
  });
}
