/** The command line of the benchmark. */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';

export type BenchOptions = {
  quick: boolean;
  postfix: boolean;
  json: boolean;
  rounds: number;
  workers: number;
  /** Rows to measure; null: all rows. */
  only: readonly Row[] | null;
  /** Commit to compare with the current version; null: no comparison. */
  compare: string | null;
  /** Number of stored emails that `scale` grows to; null: `scale` does not run. */
  scaleTo: number | null;
  /** Number of emails that `storage` stores; null: `storage` does not run. */
  storageOf: number | null;
  /** Number of emails that `bloat` delivers; null: `bloat` does not run. */
  bloatOf: number | null;
  /** Number of emails that `backup` backs up; null: `backup` does not run. */
  backupOf: number | null;
  /** Number of emails that `dashboard` stores; null: `dashboard` does not run. */
  dashboardOf: number | null;
  /** Number of emails that `search` searches; null: `search` does not run. */
  searchOf: number | null;
  /** Folder that keeps the data of `search`; null: a temporary one. */
  data: string | null;
};

/** Rows that alternate in one step (end-to-end.ts). */
export const END_TO_END_ROWS = ['end-to-end', 'receivers', 'signatures', 'clients'] as const;
export type EndToEndRow = (typeof END_TO_END_ROWS)[number];

export const ROWS = [
  'start',
  'accept',
  'batch',
  'attachments',
  'submission',
  ...END_TO_END_ROWS,
  'variants',
  'webhooks',
  'events',
  'latency',
  'burst',
  'memory',
  'million',
] as const;
export type Row = (typeof ROWS)[number];

export const HELP = `Measures Letterhaus on this machine: load generator, service, database and receiving server.

  npm run bench -- [options]        or   ./bin/letterhaus bench [options]

  --quick           check that everything works, with small counts and one round, in about two minutes;
                    the figures say nothing about speed
  --postfix         run Postfix and OpenDKIM against the same sink, in turn with Letterhaus (as root)
  --compare COMMIT  run that version and the current one in turn; measures rates only, in rounds that
                    are a quarter as long
  --rounds N        run each rate N times; the table shows the median (default: 5)
  --workers N       start N workers of the service (default: one per core)
  --only ROWS       measure only these rows, separated by commas: ${ROWS.join(', ')}
  --json            print the table as JSON on stdout; progress goes to stderr
  --help            show this text

  npm run bench -- scale [--emails N] [--rounds N]

Measures each statement of the service with 10,000 stored emails and with N, without and with an old
snapshot. The default of 10,000,000 takes about 20 minutes and 25 GB below /tmp while it runs.

  npm run bench -- storage [--emails N]

Measures the bytes on disk of a delivered email, by table and index, over N emails (default: 20,000).

  npm run bench -- bloat [--emails N]

Measures the size of the queue and the time of a claim, at the start and after every tenth of N
emails (default: 200,000).

  npm run bench -- backup [--emails N]

Measures how long a backup of N emails of 20 KB takes while mail flows at half the highest rate, and
how long its restore takes (default: 45,000 emails, 1 GB).

  npm run bench -- dashboard [--emails N] [--rounds N]

Measures how soon a browser shows the requested content of the dashboard, with N stored emails
(default: 1,000,000).

  npm run bench -- search [--emails N] [--rounds N] [--data DIR]

Measures searches of N emails over HTTP (default: 1,000,000). With --data, the emails are kept in the
folder, and a second run on it starts without filling. 10,000,000 emails take 17 GB.

Examples:
  letterhaus bench --quick
  letterhaus bench --postfix --rounds 3
  letterhaus bench --compare HEAD~1 --only receivers

bench/README.md describes the method and lists the figures.
`;

/** @returns the options, `help`, or an error message */
export function readOptions(args: readonly string[]): BenchOptions | 'help' | { problem: string } {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        quick: { type: 'boolean', default: false },
        postfix: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
        compare: { type: 'string' },
        rounds: { type: 'string' },
        workers: { type: 'string' },
        only: { type: 'string' },
        emails: { type: 'string' },
        data: { type: 'string' },
      },
    });
    if (values.help) return 'help';
    const scaleTo = countOfEmails('scale', positionals, values);
    const storageOf = countOfEmails('storage', positionals, values);
    const bloatOf = countOfEmails('bloat', positionals, values);
    const backupOf = countOfEmails('backup', positionals, values);
    const dashboardOf = countOfEmails('dashboard', positionals, values);
    const searchOf = countOfEmails('search', positionals, values);
    requireKnown(positionals, values.emails);
    if (values.data !== undefined && searchOf === null) {
      throw new Error('--data keeps the emails of `search` only; see --help.');
    }
    const compare = values.compare ?? null;
    const only = values.only === undefined ? null : values.only.split(',').map(rowOf);
    if (compare !== null) requireComparable(only, { ...values, scaleTo });
    return {
      quick: values.quick,
      postfix: values.postfix,
      json: values.json,
      rounds: countOf('rounds', values.rounds) ?? (values.quick ? 1 : 5),
      workers: countOf('workers', values.workers) ?? availableParallelism(),
      only,
      compare,
      scaleTo,
      storageOf,
      bloatOf,
      backupOf,
      dashboardOf,
      searchOf,
      data: values.data ?? null,
    };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

function countOf(name: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  if (/^[1-9]\d{0,2}$/.test(text)) return Number(text);
  throw new Error(`--${name}: write a number from 1 to 999, not ${JSON.stringify(text)}.`);
}

/** Default number of emails, without and with --quick. */
const EMAILS = {
  scale: [10_000_000, 100_000],
  storage: [20_000, 1_000],
  bloat: [200_000, 1_000],
  backup: [45_000, 1_000],
  dashboard: [1_000_000, 10_000],
  search: [1_000_000, 40_000],
} as const;

function countOfEmails(
  what: keyof typeof EMAILS,
  [wanted]: readonly string[],
  { emails, quick }: { emails?: string; quick: boolean },
): number | null {
  if (wanted !== what) return null;
  if (emails === undefined) return EMAILS[what][quick ? 1 : 0];
  if (/^[1-9]\d{3,8}$/.test(emails)) return Number(emails);
  throw new Error(`--emails: write a number of 1000 or more, not ${JSON.stringify(emails)}.`);
}

function requireKnown([what, ...rest]: readonly string[], emails: string | undefined): void {
  if (what === undefined && emails === undefined) return;
  if (what !== undefined && what in EMAILS && rest.length === 0) return;
  throw new Error(
    'The measurement must be `scale`, `storage`, `bloat`, `backup`, `dashboard` or `search`; see --help.',
  );
}

/** Rows that --compare measures. */
const COMPARED: readonly Row[] = ['accept', ...END_TO_END_ROWS];

function requireComparable(
  only: readonly Row[] | null,
  { postfix, scaleTo }: { postfix: boolean; scaleTo: number | null },
): void {
  const other = only?.find((row) => !COMPARED.includes(row));
  if (other !== undefined) {
    throw new Error(`--compare measures ${COMPARED.join(', ')}, not ${other}.`);
  }
  if (postfix || scaleTo !== null) {
    throw new Error('--compare cannot be combined with --postfix or with `scale`.');
  }
}

function rowOf(name: string): Row {
  const row = ROWS.find((one) => one === name);
  if (row !== undefined) return row;
  throw new Error(`--only: ${JSON.stringify(name)} is no row; choose from ${ROWS.join(', ')}.`);
}
