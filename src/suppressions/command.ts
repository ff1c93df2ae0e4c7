/**
 * `letterhaus suppressions`: the addresses that get no mail. Files are streamed, with progress on
 * stderr (suppressions/files.ts).
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  addCommand,
  type Cli,
  type ExitCode,
  isFailure,
  type Outcome,
  usageFailure,
} from '../cli/command.ts';
import { shortTime, table } from '../cli/table.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ScopeOptions,
  type ScopesOptions,
  withStore,
} from '../cli/store.ts';
import type { Scope } from '../core/scope.ts';
import { type Address, explainAddress, parseAddress } from '../mail/address.ts';
import type { Queryable } from '../database/database.ts';
import {
  listSuppressions,
  NO_SUPPRESSION_FILTER,
  addSuppression,
  findSuppression,
  presentSuppression,
  removeSuppression,
  type Suppression,
  SUPPRESSION_REASONS,
  type SuppressionReason,
} from './suppression-store.ts';
import { type HistoryEntry, listHistory, presentHistory } from './history-store.ts';
import {
  exportCsv,
  IMPORT_ROWS_MAX,
  importFile,
  type ImportResult,
  newImportResult,
  presentImport,
  TooManyRows,
} from './files.ts';
import { ReasonNeeded, UnusableFile } from '../move-in/entries.ts';
import { FORMAT_NAMES, LEFT_OUT } from '../move-in/suppression-services.ts';

const PAGE_SIZE = 1000;
const HISTORY_MAX = 100;

export function describeSuppressions(suppressions: Command, cli: Cli): void {
  addCommand(suppressions, cli, {
    name: 'list',
    about: 'all suppressed addresses',
    examples: ['suppressions list --mode live'],
    run: list,
  })
    .addOption(projectOption())
    .addOption(modeOption());
  const ofAddress = { show, add, remove };
  const about = {
    show: 'whether it is suppressed, with its history',
    add: 'add it, so that it gets no mail',
    remove: 'remove it, so that it gets mail again',
  };
  for (const name of ['show', 'add', 'remove'] as const) {
    addCommand(suppressions, cli, {
      name,
      about: about[name],
      examples: [`suppressions ${name} jo@example.org`],
      run: ofAddress[name],
    })
      .argument('<address>', '', parseSuppressed)
      .addOption(projectOption())
      .addOption(modeOption().default('live'));
  }
  addCommand(suppressions, cli, {
    name: 'import',
    about: 'add the addresses of a file',
    examples: [
      'suppressions import addresses.csv',
      'suppressions import list.json --reason complaint',
    ],
    run: importList,
  })
    .argument(
      '<file>',
      'CSV: address, reason, created_at, expires_at; or CSV or JSON of Resend, Postmark, SendGrid, ' +
        'Mailgun, Amazon SES; - is standard input',
    )
    .addOption(
      new Option('--reason <reason>', 'of entries that have none').choices(SUPPRESSION_REASONS),
    )
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  addCommand(suppressions, cli, {
    name: 'export',
    about: 'write the addresses to a file',
    examples: ['suppressions export suppressions.csv'],
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
      text: table(cli, {
        columns: [{ heading: 'ADDRESS', cut: 1 }, 'MODE', 'REASON', 'SINCE', 'UNTIL'],
        rows: found.map(({ address, reason, createdAt, expiresAt, isSimulated, environment }) => [
          address,
          environment,
          isSimulated ? `${reason} (simulated)` : reason,
          shortTime(createdAt),
          shortTime(expiresAt),
        ]),
        none: {
          says: 'No address is suppressed. Addresses that bounce for good or complain are added by themselves.',
          toDo: 'To add one',
          command: 'suppressions add jo@example.org',
        },
      }),
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
      text: `${describeEntry(address, found)}\n\n${historyTable(cli, history)}`,
      ...(found === null && { exitCode: 1 as const }),
    };
  });
}

function describeEntry(address: string, found: Suppression | null): string {
  if (found === null) return `${address} is not suppressed.`;
  const { reason, createdAt, expiresAt, sourceEmailId, isSimulated } = found;
  const until = expiresAt === null ? '' : `, until ${shortTime(expiresAt)}`;
  const source = sourceEmailId === null ? '' : `, because of email ${sourceEmailId}`;
  const still = isSimulated ? ' It is an address of the simulator and gets mail all the same.' : '';
  return `${address} is suppressed since ${shortTime(createdAt)} (${reason})${until}${source}.${still}`;
}

function historyTable(cli: Cli, history: readonly HistoryEntry[]): string {
  return table(cli, {
    columns: ['AT', 'WHAT', 'REASON', { heading: 'BY', cut: 1 }],
    rows: history.map(({ at, action, reason, by }) => [shortTime(at), action, reason, by]),
    none: 'It has no history in the last 400 days.',
  });
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

type ImportOptions = ScopeOptions & { reason?: SuppressionReason };

function importList(cli: Cli, options: ImportOptions, [file]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const result = newImportResult();
    const progress = countingRows(cli, 'read');
    const onProgress = (soFar: ImportResult) =>
      progress(soFar.added + soFar.alreadyThere + soFar.rejected + leftOutOf(soFar));
    const { reason = null } = options;
    const pieces: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file);
    try {
      await importFile(db, scope, { pieces, result, reason, onProgress });
    } catch (error) {
      const problem = importProblem(file, error, result);
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

/** The message of an error that ends an import; null for other errors. */
function importProblem(file: string, error: unknown, { added }: ImportResult): string | null {
  if (error instanceof TooManyRows) {
    return (
      `${file} has more than ${IMPORT_ROWS_MAX} rows; the rows before that are imported, ` +
      'put the rest into another file.'
    );
  }
  if (error instanceof ReasonNeeded) {
    const choices = error.reasons.map((reason) => `--reason ${reason}`).join(' or ');
    return `${error.message}; say which with ${choices}.`;
  }
  if (error instanceof UnusableFile) {
    const before = `${added} addresses were added before; importing the file again adds only what is missing`;
    return `${file}: ${error.message}.${added === 0 ? '' : ` ${before}.`}`;
  }
  return fileProblem(file, error);
}

function leftOutOf({ leftOut }: ImportResult): number {
  return Array.from(leftOut.values()).reduce((sum, { rows }) => sum + rows, 0);
}

function describeImport(result: ImportResult): string {
  const { format, added, alreadyThere, rejected, leftOut, errors } = result;
  const shown = errors.slice(0, ERRORS_SHOWN_MAX).map(({ line, item, message }) => {
    const place = item === null ? '' : `, entry ${item}`;
    return `line ${line}${place}: ${message}`;
  });
  const more = rejected - shown.length;
  const reasons = Array.from(leftOut, ([because, { rows, firstLine }]) => {
    return `${rows} left out, the first in line ${firstLine}: ${LEFT_OUT[because]}`;
  });
  const counts = `${added} added, ${alreadyThere} already present, ${rejected} rejected`;
  const left = leftOut.size === 0 ? '' : `, ${leftOutOf(result)} left out`;
  const from =
    format === null || format === 'letterhaus'
      ? ''
      : ` The list is one of ${FORMAT_NAMES[format]}.`;
  const last = `${counts}${left}.${from}`;
  return [...shown, ...(more > 0 ? [`(and ${more} more)`] : []), ...reasons, last].join('\n');
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
