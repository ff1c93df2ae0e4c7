/**
 * `posthorn suppressions import` and `export`: the list as a CSV file, streamed from and to disk or a
 * pipe, with what has been done so far on stderr (suppressions/import.ts, export.ts).
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { NO_SUPPRESSION_FILTER } from '../store/suppression-list.ts';
import { exportCsv } from '../suppressions/export.ts';
import {
  importCsv,
  IMPORT_ROWS_MAX,
  type ImportResult,
  newImportResult,
  presentImport,
  TooManyRows,
} from '../suppressions/import.ts';
import { chooseScope, type ScopeOptions } from './choose-project.ts';
import { type ExitCode, isFailure, type Outcome, usageFailure } from './command.ts';
import type { Cli } from './context.ts';
import { withStore } from './store.ts';

const PROGRESS_EVERY_ROWS = 50_000;
const ERRORS_SHOWN_MAX = 20;

export function importFile(cli: Cli, options: ScopeOptions, [file]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const result = newImportResult();
    const progress = countingRows(cli, 'read');
    const onProgress = (soFar: ImportResult) =>
      progress(soFar.added + soFar.alreadyThere + soFar.rejected);
    const pieces: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file);
    try {
      await importCsv(db, scope, { pieces, result, onProgress });
    } catch (error) {
      if (error instanceof TooManyRows) {
        return usageFailure(
          `${file} has more than ${IMPORT_ROWS_MAX} rows; what came before is imported, ` +
            'put the rest into another file.',
        );
      }
      const problem = fileProblem(file, error);
      if (problem === null) throw error;
      return usageFailure(problem);
    }
    return {
      data: presentImport(result),
      text: describeImport(result),
      ...(result.rejected > 0 && { exitCode: 1 as const }),
    };
  });
}

function describeImport({ added, alreadyThere, rejected, errors }: ImportResult): string {
  const shown = errors
    .slice(0, ERRORS_SHOWN_MAX)
    .map(({ line, message }) => `line ${line}: ${message}`);
  const more = rejected - shown.length;
  const counts = `${added} added, ${alreadyThere} were there already, ${rejected} rejected.`;
  return [...shown, ...(more > 0 ? [`(and ${more} more)`] : []), counts].join('\n');
}

export async function exportFile(
  cli: Cli,
  options: ScopeOptions,
  [file]: [string | undefined],
): Promise<Outcome | ExitCode> {
  let isPiped = false;
  const outcome = await withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    let rows = 0;
    const progress = countingRows(cli, 'written');
    const onProgress = (soFar: number): void => {
      rows = soFar;
      progress(soFar);
    };
    const pieces = exportCsv(db, scope, { filter: NO_SUPPRESSION_FILTER, onProgress });
    const target = file === undefined ? process.stdout : createWriteStream(file, { mode: 0o600 });
    isPiped = file === undefined;
    try {
      await pipeline(Readable.from(pieces, { objectMode: false }), target, { end: !isPiped });
    } catch (error) {
      const problem = fileProblem(file ?? 'standard output', error);
      if (problem === null) throw error;
      return usageFailure(problem);
    }
    const text = `${rows} addresses written to ${file}.`;
    return { data: { object: 'suppression_export', rows, file: file ?? null }, text };
  });
  // Standard output has the file itself.
  return isPiped && !isFailure(outcome) ? 0 : outcome;
}

/** Says on stderr how far it is, now and then. */
function countingRows(cli: Cli, done: 'read' | 'written'): (rows: number) => void {
  let next = PROGRESS_EVERY_ROWS;
  return (rows) => {
    if (rows < next) return;
    next = rows + PROGRESS_EVERY_ROWS;
    cli.err(`${rows} rows ${done}...\n`);
  };
}

/** What the operating system says of the file; null: the problem is another one. */
function fileProblem(file: string, error: unknown): string | null {
  const { syscall, message } = error as NodeJS.ErrnoException;
  return syscall === undefined ? null : `${file} cannot be used: ${message}.`;
}
