/**
 * What all commands share: their input and output as an argument, `--json`, tables, failures.
 *
 * With `--json` a command prints one JSON value on stdout, otherwise text. A failure is one sentence on
 * stderr (with `--json` an error object as in the API). Exit codes: 0 success, 1 failure, 2 wrong usage
 * or configuration.
 */
import { readFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { type Command, InvalidArgumentError } from 'commander';
import type { Env } from '../config/env-reader.ts';
import type { Refusal } from '../core/refusals.ts';
import type { World } from '../core/world.ts';
import { parseDomain } from '../mail/address.ts';

export type Cli = {
  env: Env;
  world: World;
  /** The path by which this program was called, for commands to copy: `./bin/posthorn`. */
  program: string;
  /** Writes results to stdout. */
  out: (text: string) => void;
  /** Writes failures and progress to stderr. */
  err: (text: string) => void;
  /** Asks yes or no; undefined without a terminal. */
  confirm?: (question: string) => Promise<boolean>;
};

export type ExitCode = 0 | 1 | 2;

/**
 * @property data what --json prints
 * @property text without final line break
 * @property exitCode 1 when the command ran and its answer is negative
 */
export type Success = { data: unknown; text: string; exitCode?: 1 };
export type Failure = { failed: string; code: string; exitCode: 1 | 2 };
export type Outcome = Success | Failure;

export function isFailure(outcome: object): outcome is Failure {
  return 'failed' in outcome;
}

/** A valid command that failed. `validation_error` counts as wrong usage (exit code 2). */
export function failure({
  refused,
  message,
}: Pick<Refusal, 'message'> & { refused: string }): Failure {
  return { failed: message, code: refused, exitCode: refused === 'validation_error' ? 2 : 1 };
}

/** The command line or the configuration is wrong. @param message one line per mistake */
export function usageFailure(message: string): Failure {
  return { failed: message, code: 'usage_error', exitCode: 2 };
}

/** Runs a command. It returns an exit code instead of an outcome when it has printed its result itself. */
type Run<Options, Args> = (cli: Cli, options: Options, args: Args) => Promise<Outcome | ExitCode>;

/** Adds a command with its action. The caller adds arguments and options to the returned command. */
export function addCommand<Options extends object, Args extends unknown[]>(
  parent: Command,
  cli: Cli,
  { name, about, run }: { name: string; about: string; run: Run<Options, Args> },
): Command {
  return runnable(parent.command(name).description(about), cli, run);
}

/** Adds --json and the action to a command. Its exit code becomes that of the process. */
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

/** Prints a failure on stderr; also for usage errors and a failed start. */
export function complain(cli: Pick<Cli, 'err'>, { code, failed }: Failure, json: boolean): void {
  const error = { code, message: failed.replaceAll('\n', ' ') };
  const lines = failed.split('\n').map((line) => `posthorn: ${line}\n`);
  cli.err(json ? `${JSON.stringify({ error })}\n` : lines.join(''));
}

/** Of an option that names a file. @param file - is standard input @throws when it cannot be read */
export function readContent(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return Promise.resolve(undefined);
  return file === '-' ? readAll(process.stdin) : readFile(file, 'utf8');
}

export function parseName(text: string): string {
  const isOneLine = /^[^\u0000-\u001f\u007f]{1,100}$/u.test(text);
  if (isOneLine && text.trim() !== '') return text;
  throw new InvalidArgumentError('Write a name of 1 to 100 characters on one line.');
}

const GAP = '   ';

/**
 * Rows under their headings, each column as wide as its widest cell, without trailing blanks.
 * @param none printed when there are no rows
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

/** Aligned `name   value` lines; lines without a value are left out. */
export function facts(pairs: readonly (readonly [string, string | null])[]): string {
  const present = pairs.filter((pair): pair is [string, string] => pair[1] !== null);
  const width = Math.max(...present.map(([name]) => name.length));
  return present.map(([name, value]) => aligned([name, printable(value)], [width, 0])).join('\n');
}

/** `2026-11-21 08:30:00` in UTC; `-` for null. */
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

/** Replaces control characters: subjects and server replies could otherwise control the terminal. */
export function printable(cell: string): string {
  return stripVTControlCharacters(cell).replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
}

export function parseRecipientDomain(text: string): string {
  const domain = parseDomain(text);
  if (domain !== null) return domain;
  throw new InvalidArgumentError(`${JSON.stringify(text)} is not a domain name.`);
}
