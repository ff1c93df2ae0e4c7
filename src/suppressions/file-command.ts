/**
 * `letterhaus suppressions import` and `export`: files of any length, which are streams on the way to and from the
 * service, with progress on stderr. The service stores an import in batches. An interrupted import keeps its stored
 * entries, and repeating it adds the rest.
 */
import { createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Command, Option } from 'commander';
import type { SuppressionImport } from '../../sdk/src/api.ts';
import { ConnectionError, LetterhausError } from '../../sdk/src/errors.ts';
import { type Api, apiCommand, type ApiOptions } from '../cli/api.ts';
import {
  type Cli,
  type ExitCode,
  type Failure,
  type CommandResult,
  usageFailure,
} from '../cli/command.ts';
import { failureReason } from '../cli/connection.ts';
import { FORMAT_NAMES } from '../move-in/suppression-services.ts';
import { SUPPRESSION_REASONS, type SuppressionReason } from './suppression-store.ts';

const MB = 1_000_000;
const PROGRESS_EVERY_BYTES = 5 * MB;
/** Codes with which the service refuses the whole file. Repeating the command does not help. */
const FILE_REFUSALS = new Set(['validation_error', 'payload_too_large']);
const ERRORS_SHOWN_MAX = 20;
const PROGRESS_EVERY_ROWS = 50_000;
const LINE_FEED = 0x0a;

export function describeSuppressionFiles(suppressions: Command, cli: Cli): void {
  apiCommand(suppressions, cli, {
    name: 'import',
    about: 'add the addresses of a file',
    examples: [
      'suppressions import addresses.csv',
      'suppressions import list.json --reason complaint',
    ],
    environment: 'live',
    run: importFile,
  })
    .argument(
      '<file>',
      'CSV: address, reason, created_at, expires_at; or CSV or JSON of Resend, Postmark, SendGrid, ' +
        'Mailgun, Amazon SES; - is standard input',
    )
    .addOption(
      new Option('--reason <reason>', 'of entries that have none').choices(SUPPRESSION_REASONS),
    );
  apiCommand(suppressions, cli, {
    name: 'export',
    about: 'write the addresses to a file',
    examples: ['suppressions export suppressions.csv'],
    environment: 'live',
    run: exportFile,
  }).argument('[file]', 'CSV; default: standard output');
}

type ImportOptions = ApiOptions & { reason?: SuppressionReason };

async function importFile(
  { cli, client }: Api,
  { reason }: ImportOptions,
  [file]: [string],
): Promise<CommandResult> {
  const upload = new Upload(file, cli);
  // The response may come before the end of the file. Nothing more of the file is read then.
  const responded = new AbortController();
  try {
    const { signal } = responded;
    const list = ReadableStream.from(upload.pieces());
    const result = await client.suppressions.import(list, { reason }, { signal });
    return {
      data: result,
      text: importText(result),
      ...(result.rejected > 0 && { exitCode: 1 as const }),
    };
  } catch (error) {
    const problem = importProblem(error, upload);
    if (problem === null) throw error;
    return problem;
  } finally {
    responded.abort();
  }
}

/** Sends the file in pieces, with progress on stderr. */
class Upload {
  readonly file: string;
  readonly #cli: Pick<Cli, 'err'>;
  sentBytes = 0;
  /** Why the file cannot be read; null while it can. */
  problem: string | null = null;

  constructor(file: string, cli: Pick<Cli, 'err'>) {
    this.file = file;
    this.#cli = cli;
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    try {
      if (this.file === '-') {
        yield* this.#withProgress(process.stdin, null);
        return;
      }
      await using opened = await open(this.file);
      const { size } = await opened.stat();
      yield* this.#withProgress(opened.createReadStream(), size > 0 ? size : null);
    } catch (error) {
      this.problem = fileProblem(this.file, error);
      throw error;
    }
  }

  /** @param bytes size of the file; null when it is unknown */
  async *#withProgress(
    pieces: AsyncIterable<Buffer>,
    bytes: number | null,
  ): AsyncGenerator<Buffer> {
    let next = PROGRESS_EVERY_BYTES;
    for await (const piece of pieces) {
      yield piece;
      this.sentBytes += piece.length;
      if (this.sentBytes < next) continue;
      next = this.sentBytes + PROGRESS_EVERY_BYTES;
      const total = bytes === null ? '' : ` of ${Math.ceil(bytes / MB)}`;
      this.#cli.err(`${Math.floor(this.sentBytes / MB)}${total} MB sent...\n`);
    }
  }
}

/** Returns null for errors that any command may have. */
function importProblem(error: unknown, upload: Upload): Failure | null {
  const { file, problem, sentBytes } = upload;
  if (problem !== null) return usageFailure(problem);
  if (error instanceof LetterhausError && FILE_REFUSALS.has(error.code)) {
    return usageFailure(`${file}: ${error.message.replaceAll('?reason=', '--reason ')}`);
  }
  if (!(error instanceof ConnectionError) || sentBytes === 0) return null;
  const failed =
    `The import was interrupted (${failureReason(error)}). Stored entries stay. ` +
    'Import the file again to add the missing ones.';
  return { failed, code: 'service_unavailable', exitCode: 1 };
}

function importText(result: SuppressionImport): string {
  const {
    format,
    added,
    already_there: alreadyThere,
    rejected,
    left_out: leftOut,
    errors,
  } = result;
  const errorLines = errors.slice(0, ERRORS_SHOWN_MAX).map(({ line, item, message }) => {
    const place = item === null ? '' : `, entry ${item}`;
    return `line ${line}${place}: ${message}`;
  });
  const more = rejected - errorLines.length;
  const reasons = leftOut.map(({ rows, first_line: line, message }) => {
    return `${rows} left out, the first in line ${line}: ${message}`;
  });
  const rowsLeftOut = leftOut.reduce((sum, { rows }) => sum + rows, 0);
  const counts = `${added} added, ${alreadyThere} already present, ${rejected} rejected`;
  const leftOutText = rowsLeftOut === 0 ? '' : `, ${rowsLeftOut} left out`;
  const isOwn = format === null || format === 'letterhaus';
  const from = isOwn ? '' : ` The list is one of ${FORMAT_NAMES[format]}.`;
  const last = `${counts}${leftOutText}.${from}`;
  return [...errorLines, ...(more > 0 ? [`(and ${more} more)`] : []), ...reasons, last].join('\n');
}

async function exportFile(
  { cli, client }: Api,
  _options: ApiOptions,
  [file]: [string | undefined],
): Promise<CommandResult | ExitCode> {
  const list = new Download(cli);
  // Before the first byte, so that a refusal leaves a file as it is.
  const pieces = list.withProgress(await client.suppressions.exportStream());
  const target = file === undefined ? process.stdout : createWriteStream(file, { mode: 0o600 });
  const isPiped = file === undefined;
  try {
    await pipeline(Readable.from(pieces, { objectMode: false }), target, { end: !isPiped });
  } catch (error) {
    const problem = exportProblem(error, file ?? 'standard output');
    if (problem === null) throw error;
    return problem;
  }
  // Standard output contains the file.
  if (isPiped) return 0;
  const { rows } = list;
  const data = { object: 'suppression_export', rows, file };
  return { data, text: `${rows} ${rows === 1 ? 'address' : 'addresses'} written to ${file}.` };
}

/** Receives the list in pieces, with progress on stderr. */
class Download {
  readonly #cli: Pick<Cli, 'err'>;
  /** The first line contains the names of the columns. */
  rows = -1;

  constructor(cli: Pick<Cli, 'err'>) {
    this.#cli = cli;
  }

  /** @throws ConnectionError when the list ends before it is complete */
  async *withProgress(list: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let next = PROGRESS_EVERY_ROWS;
    try {
      for await (const piece of list) {
        yield piece;
        this.rows += countLines(piece);
        if (this.rows < next) continue;
        next = this.rows + PROGRESS_EVERY_ROWS;
        this.#cli.err(`${this.rows} rows written...\n`);
      }
    } catch (cause) {
      throw new ConnectionError('The list is not complete.', { cause });
    }
  }
}

/** Counts the rows in a piece: no cell contains a line break. */
function countLines(piece: Uint8Array): number {
  let count = 0;
  for (const byte of piece) if (byte === LINE_FEED) count += 1;
  return count;
}

/** Returns null for bugs. */
function exportProblem(error: unknown, file: string): Failure | null {
  if (error instanceof ConnectionError) {
    const failed = `The export was interrupted (${failureReason(error)}), and ${file} is not complete; repeat the command.`;
    return { failed, code: 'service_unavailable', exitCode: 1 };
  }
  const problem = fileProblem(file, error);
  return problem === null ? null : usageFailure(problem);
}

/** Returns the message of a file system error; null for other errors. */
function fileProblem(file: string, error: unknown): string | null {
  const { syscall, message } = error as NodeJS.ErrnoException;
  return syscall === undefined ? null : `${file} cannot be used: ${message}.`;
}
