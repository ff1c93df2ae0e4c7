/**
 * How every command behaves: `--json` prints the result as one JSON value on stdout, otherwise
 * people read text; a failure is one sentence on stderr (with --json an error object as the API has
 * it); exit code 0 done, 1 failed, 2 wrong usage or configuration.
 */
import type { Command } from 'commander';
import type { Refusal } from '../core/refusals.ts';
import type { Cli } from './context.ts';

export type ExitCode = 0 | 1 | 2;

/**
 * @property data what --json prints
 * @property text for people, without final line break
 * @property exitCode 1 when the answer to what was asked is no
 */
export type Success = { data: unknown; text: string; exitCode?: 1 };
export type Failure = { failed: string; code: string; exitCode: 1 | 2 };
export type Outcome = Success | Failure;

export function isFailure(outcome: object): outcome is Failure {
  return 'failed' in outcome;
}

/** The command was understood; why it could not be done. What it was given wrong is wrong usage. */
export function failure({
  refused,
  message,
}: Pick<Refusal, 'message'> & { refused: string }): Failure {
  return { failed: message, code: refused, exitCode: refused === 'validation_error' ? 2 : 1 };
}

/** The command or the configuration has to be changed first. @param message a line per mistake */
export function usageFailure(message: string): Failure {
  return { failed: message, code: 'usage_error', exitCode: 2 };
}

/**
 * What a command does with its options and its parsed arguments. An exit code instead of an outcome
 * means that it has printed by itself.
 */
export type Run<Options, Args> = (
  cli: Cli,
  options: Options,
  args: Args,
) => Promise<Outcome | ExitCode>;

/** Adds a command that can be run; arguments and options are added to what comes back. */
export function addCommand<Options extends object, Args extends unknown[]>(
  parent: Command,
  cli: Cli,
  { name, about, run }: { name: string; about: string; run: Run<Options, Args> },
): Command {
  return runnable(parent.command(name).description(about), cli, run);
}

/** Gives a command --json and its action. Its exit code becomes that of the process. */
export function runnable<Options extends object, Args extends unknown[]>(
  command: Command,
  cli: Cli,
  run: Run<Options, Args>,
): Command {
  return command.option('--json', 'print JSON').action(async () => {
    const options = command.opts<Options & { json?: true }>();
    const outcome = await run(cli, options, command.processedArgs as Args);
    process.exitCode = typeof outcome === 'number' ? outcome : print(cli, outcome, options.json);
  });
}

function print(cli: Cli, outcome: Outcome, json = false): ExitCode {
  if (!isFailure(outcome)) {
    cli.out(`${json ? JSON.stringify(outcome.data) : outcome.text}\n`);
    return outcome.exitCode ?? 0;
  }
  complain(cli, outcome, json);
  return outcome.exitCode;
}

/** Also for what goes wrong around commands: a mistake in the words, a start that fails. */
export function complain(cli: Pick<Cli, 'err'>, { code, failed }: Failure, json: boolean): void {
  const error = { code, message: failed.replaceAll('\n', ' ') };
  const lines = failed.split('\n').map((line) => `posthorn: ${line}\n`);
  cli.err(json ? `${JSON.stringify({ error })}\n` : lines.join(''));
}
