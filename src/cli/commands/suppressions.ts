/**
 * `posthorn suppressions`: the addresses that get no mail. CSV files are streamed, with progress on
 * stderr (suppressions/csv-files.ts).
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Command, InvalidArgumentError } from 'commander';
import {
  addCommand,
  type Cli,
  type ExitCode,
  isFailure,
  type Outcome,
  shortTime,
  table,
  usageFailure,
} from '../command.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ScopeOptions,
  type ScopesOptions,
  withStore,
} from '../store.ts';
import type { Scope } from '../../core/scope.ts';
import { type Address, explainAddress, parseAddress } from '../../mail/address.ts';
import type { Queryable } from '../../store/postgres/database.ts';
import {
  type HistoryEntry,
  listHistory,
  presentHistory,
  listSuppressions,
  NO_SUPPRESSION_FILTER,
  addSuppression,
  findSuppression,
  presentSuppression,
  removeSuppression,
  type Suppression,
} from '../../store/suppressions.ts';
import {
  exportCsv,
  IMPORT_ROWS_MAX,
  importCsv,
  type ImportResult,
  newImportResult,
  presentImport,
  TooManyRows,
} from '../../suppressions/csv-files.ts';

const PAGE_SIZE = 1000;
const HISTORY_MAX = 100;

export function describeSuppressions(suppressions: Command, cli: Cli): void {
  addCommand(suppressions, cli, { name: 'list', about: 'all suppressed addresses', run: list })
    .addOption(projectOption())
    .addOption(modeOption());
  const ofAddress = { show, add, remove };
  const about = {
    show: 'whether it is suppressed, with its history',
    add: 'add it, so that it gets no mail',
    remove: 'remove it, so that it gets mail again',
  };
  for (const name of ['show', 'add', 'remove'] as const) {
    addCommand(suppressions, cli, { name, about: about[name], run: ofAddress[name] })
      .argument('<address>', '', parseSuppressed)
      .addOption(projectOption())
      .addOption(modeOption().default('live'));
  }
  addCommand(suppressions, cli, {
    name: 'import',
    about: 'add the addresses of a file',
    run: importFile,
  })
    .argument('<file>', 'CSV: address, reason, created_at, expires_at; - is standard input')
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  addCommand(suppressions, cli, {
    name: 'export',
    about: 'write the addresses to a file',
    run: exportFile,
  })
    .argument('[file]', 'CSV; default: standard output')
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
}

function list(cli: Cli, options: ScopesOptions): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scopes = await chooseScopes(db, options);
    if (isFailure(scopes)) return scopes;
    const found = (await Promise.all(scopes.map((scope) => allIn(db, scope)))).flat();
    return {
      data: { object: 'list', data: found.map(entryJson), has_more: false },
      text: table(
        ['ADDRESS', 'MODE', 'REASON', 'SINCE', 'UNTIL'],
        found.map(({ address, reason, createdAt, expiresAt, environment }) => [
          address,
          environment,
          reason,
          shortTime(createdAt),
          shortTime(expiresAt),
        ]),
        'No address is suppressed.',
      ),
    };
  });
}

function show(cli: Cli, options: ScopeOptions, [address]: [Address]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const found = await findSuppression(db, scope, address);
    const history = await listHistory(db, scope, { address, limit: HISTORY_MAX });
    const entry = found && entryJson({ ...found, environment: scope.environment });
    return {
      data: {
        ...(entry ?? { object: 'suppression', address, reason: null }),
        history: history.map(presentHistory),
      },
      text: `${describeEntry(address, found)}\n\n${historyTable(history)}`,
      ...(found === null && { exitCode: 1 as const }),
    };
  });
}

function describeEntry(address: string, found: Suppression | null): string {
  if (found === null) return `${address} is not suppressed.`;
  const { reason, createdAt, expiresAt, sourceEmailId } = found;
  const until = expiresAt === null ? '' : `, until ${shortTime(expiresAt)}`;
  const source = sourceEmailId === null ? '' : `, because of email ${sourceEmailId}`;
  return `${address} is suppressed since ${shortTime(createdAt)} (${reason})${until}${source}.`;
}

function historyTable(history: readonly HistoryEntry[]): string {
  return table(
    ['AT', 'WHAT', 'REASON', 'BY'],
    history.map(({ at, action, reason, by }) => [shortTime(at), action, reason, by]),
    'It has no history in the last 400 days.',
  );
}

function add(cli: Cli, options: ScopeOptions, [address]: [Address]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const { suppression, isNew } = await addSuppression(db, scope, {
      address,
      reason: 'manual',
      sourceEmailId: null,
      expiresAt: null,
      by: 'command_line',
    });
    const text = isNew
      ? `${address} gets no more mail.`
      : `${address} was suppressed already (${suppression.reason}).`;
    return { data: entryJson({ ...suppression, environment: scope.environment }), text };
  });
}

function remove(cli: Cli, options: ScopeOptions, [address]: [Address]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const removed = await removeSuppression(db, scope, { address, by: 'command_line' });
    if (removed !== null) {
      const data = { object: 'suppression', address: removed.address, deleted: true };
      return { data, text: `${address} gets mail again.` };
    }
    const message = `${address} is not suppressed in the ${options.mode} environment.`;
    return { failed: message, code: 'not_found', exitCode: 1 };
  });
}

type Entry = Suppression & Pick<Scope, 'environment'>;

async function allIn(db: Queryable, scope: Scope): Promise<Entry[]> {
  const found: Suppression[] = [];
  for (;;) {
    const after = found.at(-1)?.address ?? null;
    const page = { limit: PAGE_SIZE, after, before: null };
    const { rows, hasMore } = await listSuppressions(db, scope, {
      page,
      filter: NO_SUPPRESSION_FILTER,
    });
    found.push(...rows);
    if (hasMore) continue;
    return found.map((entry) => ({ ...entry, environment: scope.environment }));
  }
}

function entryJson(entry: Entry) {
  return {
    object: 'suppression',
    ...presentSuppression(entry),
    environment: entry.environment,
  };
}

function parseSuppressed(text: string): Address {
  const address = parseAddress(text);
  if (address !== null) return address;
  throw new InvalidArgumentError(`${explainAddress(text)}.`);
}

const PROGRESS_EVERY_ROWS = 50_000;
const ERRORS_SHOWN_MAX = 20;

function importFile(cli: Cli, options: ScopeOptions, [file]: [string]): Promise<Outcome> {
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
          `${file} has more than ${IMPORT_ROWS_MAX} rows; the rows before that are imported, ` +
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
  const counts = `${added} added, ${alreadyThere} already present, ${rejected} rejected.`;
  return [...shown, ...(more > 0 ? [`(and ${more} more)`] : []), counts].join('\n');
}

async function exportFile(
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
  // Standard output contains the file.
  return isPiped && !isFailure(outcome) ? 0 : outcome;
}

/** Reports progress on stderr. */
function countingRows(cli: Cli, done: 'read' | 'written'): (rows: number) => void {
  let next = PROGRESS_EVERY_ROWS;
  return (rows) => {
    if (rows < next) return;
    next = rows + PROGRESS_EVERY_ROWS;
    cli.err(`${rows} rows ${done}...\n`);
  };
}

/** The message of a file system error; null for other errors. */
function fileProblem(file: string, error: unknown): string | null {
  const { syscall, message } = error as NodeJS.ErrnoException;
  return syscall === undefined ? null : `${file} cannot be used: ${message}.`;
}
