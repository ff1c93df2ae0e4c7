/**
 * What every command is made of: the outside world as its argument, `--json`, tables, failures. With
 * `--json` the result is one JSON value on stdout, otherwise text; a failure is one sentence on stderr
 * (with --json an error object as in the API); exit code 0: done, 1: failed, 2: wrong usage or
 * configuration.
 */
import { stripVTControlCharacters } from 'node:util';
import { type Command, InvalidArgumentError } from 'commander';
import type { Env } from '../config/env-reader.ts';
import type { Refusal } from '../core/refusals.ts';
import type { World } from '../core/world.ts';
import { parseDomain } from '../mail/address.ts';

export type Cli = {
  env: Env;
  world: World;
  /** How this command line is called here, for what people copy: `./bin/posthorn`. */
  program: string;
  /** Results: for people or, with --json, for programs. */
  out: (text: string) => void;
  /** Everything else. */
  err: (text: string) => void;
  /** Asks yes or no; undefined without a terminal. */
  confirm?: (question: string) => Promise<boolean>;
};

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

/** Why a command that was understood could not be done. Invalid values are wrong usage. */
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
type Run<Options, Args> = (cli: Cli, options: Options, args: Args) => Promise<Outcome | ExitCode>;

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

export function parseName(text: string): string {
  const isOneLine = /^[^\u0000-\u001f\u007f]{1,100}$/u.test(text);
  if (isOneLine && text.trim() !== '') return text;
  throw new InvalidArgumentError('Write a name of 1 to 100 characters on one line.');
}

const GAP = '   ';

/**
 * Rows under their headings, each column as wide as its widest cell, no trailing blanks.
 * @param none printed instead when there are no rows
 */
export function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  none: string,
): string {
  if (rows.length === 0) return none;
  const cells = [headings, ...rows].map((row) => row.map(printable));
  const widths = headings.map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  );
  return cells.map((row) => aligned(row, widths)).join('\n');
}

/** `name   value` lines, the names aligned; lines without a value are left out. */
export function facts(pairs: readonly (readonly [string, string | null])[]): string {
  const present = pairs.filter((pair): pair is [string, string] => pair[1] !== null);
  const width = Math.max(...present.map(([name]) => name.length));
  return present.map(([name, value]) => aligned([name, printable(value)], [width, 0])).join('\n');
}

/** `2026-11-21 08:30:00`, UTC as everywhere; a dash for never. */
export function shortTime(time: string | Date | null): string {
  if (time === null) return '-';
  const iso = typeof time === 'string' ? time : time.toISOString();
  return iso.slice(0, 19).replace('T', ' ');
}

function aligned(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join(GAP)
    .trimEnd();
}

/** Subjects and server replies are not trusted: control characters must not reach the terminal. */
export function printable(cell: string): string {
  return stripVTControlCharacters(cell).replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
}

export function parseRecipientDomain(text: string): string {
  const domain = parseDomain(text);
  if (domain !== null) return domain;
  throw new InvalidArgumentError(`${JSON.stringify(text)} is not a domain name.`);
}
