/**
 * The parts that all commands share: input and output as an argument, `--json`, examples in `--help`, failures.
 *
 * With `--json` a command prints one JSON value on stdout, otherwise text. A failure is one sentence on stderr, or with
 * `--json` an error object as in the API. Exit codes: 0 success, 1 failure, 2 wrong usage or configuration.
 */
import { readFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import { type Command, InvalidArgumentError } from 'commander';
import type { Env } from '../config/env-file.ts';
import type { Refusal } from '../core/refusals.ts';
import type { World } from '../lib/world.ts';
import { DAY_MS, parsePeriodMs } from '../lib/units.ts';
import { type Address, explainAddress, parseAddress, parseDomain } from '../mail/address.ts';

export type Cli = {
  env: Env;
  world: World;
  /** The path by which this program was called, for commands to copy: `./bin/letterhaus`. */
  program: string;
  /** Writes results to stdout. */
  out: (text: string) => void;
  /** Writes failures and progress to stderr. */
  err: (text: string) => void;
  /** Width of the terminal on stdout; undefined without a terminal, where tables are not cut. */
  widthColumns?: number;
  /** Asks a yes-or-no question; undefined without a terminal. */
  confirm?: (question: string) => Promise<boolean>;
};

export type ExitCode = 0 | 1 | 2;

/**
 * @property data printed with --json
 * @property text without final line break
 * @property exitCode 1 when the command ran and its result is negative
 */
export type Success = { data: unknown; text: string; exitCode?: 1 };
export type Failure = { failed: string; code: string; exitCode: 1 | 2 };
export type CommandResult = Success | Failure;

export function isFailure(result: object): result is Failure {
  return 'failed' in result;
}

/** Returns the failure of a valid command. `validation_error` counts as wrong usage (exit code 2). */
export function failure({
  refused,
  message,
}: Pick<Refusal, 'message'> & { refused: string }): Failure {
  return { failed: message, code: refused, exitCode: refused === 'validation_error' ? 2 : 1 };
}

/** Returns a failure for wrong usage or configuration. @param message one line per mistake */
export function usageFailure(message: string): Failure {
  return { failed: message, code: 'usage_error', exitCode: 2 };
}

export function conflictFailure(message: string): Failure {
  return { failed: message, code: 'conflict', exitCode: 1 };
}

/** Runs a command. Returns an exit code instead of a result when it has printed the result itself. */
type Run<Options, Args> = (
  cli: Cli,
  options: Options,
  args: Args,
) => Promise<CommandResult | ExitCode>;

/**
 * Command lines at the end of --help, without the name of the program (`keys create --environment live`). A test parses
 * all of them (examples.test.ts).
 */
export type Examples = readonly [string, ...string[]];

/** @property notes printed before the examples @property hidden not listed by the help of the parent */
type Runnable<Options, Args> = { examples: Examples; notes?: string; run: Run<Options, Args> };
type CommandDescription<Options, Args> = Runnable<Options, Args> & {
  name: string;
  about: string;
  hidden?: boolean;
};

/** Pause between two lines of progress on stderr. */
export const PROGRESS_EVERY_MS = 2_000;

export const EXAMPLE_ID = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';

/** Adds a command with its action. The caller adds arguments and options to the returned command. */
export function addCommand<Options extends object, Args extends unknown[]>(
  parent: Command,
  cli: Cli,
  { name, about, hidden = false, ...rest }: CommandDescription<Options, Args>,
): Command {
  return runnable(parent.command(name, { hidden }).description(about), cli, rest);
}

/** Adds --json, the examples and the action to a command. Its exit code becomes the exit code of the process. */
export function runnable<Options extends object, Args extends unknown[]>(
  command: Command,
  cli: Cli,
  { examples, notes, run }: Runnable<Options, Args>,
): Command {
  addExamples(command, examples, notes);
  return command.option('--json', 'print JSON').action(async () => {
    const options = command.opts<Options & { json?: true }>();
    const empty = command.args.findIndex((word) => word === '');
    const result =
      empty === -1
        ? await run(cli, options, command.processedArgs as Args)
        : usageFailure(`The argument ${argumentName(command, empty)} is empty.`);
    process.exitCode = typeof result === 'number' ? result : print(cli, result, options.json);
  });
}

/** A shell makes an empty argument of a variable that is not set. */
function argumentName({ registeredArguments: known }: Command, at: number): string {
  return (known[at] ?? known.at(-1))?.name() ?? String(at + 1);
}

const EXAMPLES = new WeakMap<Command, Examples>();

/** Adds examples. Call it directly for a command that only has subcommands. */
export function addExamples(command: Command, examples: Examples, notes?: string): void {
  EXAMPLES.set(command, examples);
  const lines = examples.map((example) => `\n  letterhaus ${example}`).join('');
  const heading = examples.length === 1 ? 'Example:' : 'Examples:';
  command.addHelpText('after', `\n${notes === undefined ? '' : `${notes}\n\n`}${heading}${lines}`);
}

export function examplesOf(command: Command): readonly string[] {
  return EXAMPLES.get(command) ?? [];
}

function print(cli: Cli, result: CommandResult, json = false): ExitCode {
  if (!isFailure(result)) {
    cli.out(`${json ? JSON.stringify(result.data) : result.text}\n`);
    return result.exitCode ?? 0;
  }
  printFailure(cli, result, json);
  return result.exitCode;
}

/** Prints a failure on stderr, including usage errors and a failed start. */
export function printFailure(
  cli: Pick<Cli, 'err'>,
  { code, failed }: Failure,
  json: boolean,
): void {
  const error = { code, message: failed.replaceAll('\n', ' ') };
  const lines = failed.split('\n').map((line) => `letterhaus: ${line}\n`);
  cli.err(json ? `${JSON.stringify({ error })}\n` : lines.join(''));
}

/** Reads the file that an option names. @param file `-` for standard input @throws when it cannot be read */
export function readContent(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return Promise.resolve(undefined);
  return file === '-' ? readAll(process.stdin) : readFile(file, 'utf8');
}

/**
 * Asks before an action that cannot be undone, unless --yes was given.
 * @param texts.needs the failure without a terminal
 * @returns null when the action is confirmed
 */
export async function confirmed(
  { confirm }: Pick<Cli, 'confirm'>,
  yes: true | undefined,
  texts: { needs: string; asks: string; otherwise: string },
): Promise<Failure | null> {
  if (yes) return null;
  if (confirm === undefined) return usageFailure(texts.needs);
  if (await confirm(texts.asks)) return null;
  return { failed: texts.otherwise, code: 'usage_error', exitCode: 1 };
}

/** Parses a time, or an age such as `6h`. */
export function parseTime(text: string, nowMs: number): Date {
  const atMs = agoMs(text, nowMs) ?? (DATE_FIRST.test(text) ? Date.parse(text) : NaN);
  if (Number.isFinite(atMs)) return new Date(atMs);
  const message = 'Write 30m, 6h or 2d, today or yesterday, or a time, such as 2026-11-21T08:30Z.';
  throw new InvalidArgumentError(message);
}

/** Date.parse also takes a bare number, as the month of 2001. */
const DATE_FIRST = /^\d{4}-\d{2}/;

/** Returns the time of a period ago, or the start of a day in UTC; null for any other text. */
function agoMs(text: string, nowMs: number): number | null {
  const days = ['today', 'yesterday'].indexOf(text.toLowerCase());
  if (days !== -1) return Math.floor(nowMs / DAY_MS) * DAY_MS - days * DAY_MS;
  const ageMs = parsePeriodMs(text, 'mhd');
  return ageMs === null ? null : nowMs - ageMs;
}

export function parseName(text: string): string {
  const isOneLine = /^[^\u0000-\u001f\u007f]{1,100}$/u.test(text);
  if (isOneLine && text.trim() !== '') return text;
  throw new InvalidArgumentError('Write a name of 1 to 100 characters on one line.');
}

export function parseDomainArgument(text: string): string {
  const domain = parseDomain(text);
  if (domain !== null) return domain;
  throw new InvalidArgumentError(`${JSON.stringify(text)} is not a domain name.`);
}

export function parseAddressArgument(text: string): Address {
  const address = parseAddress(text);
  if (address !== null) return address;
  throw new InvalidArgumentError(`${explainAddress(text)}.`);
}
