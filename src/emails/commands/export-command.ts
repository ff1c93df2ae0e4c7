/** `letterhaus emails export`: prints emails with their status as CSV or lines of JSON, newest first. */
import { type Command, Option } from 'commander';
import type { EmailStatus, EmailSummary } from '../../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions } from '../../cli/api.ts';
import { type Cli, type ExitCode, parseTime } from '../../cli/command.ts';
import { PAGE_MAX } from '../../cli/lists.ts';
import { FINAL_STATUSES, OPEN_STATUSES } from '../../core/statuses.ts';
import { formatCsvRow } from '../../lib/csv-row.ts';

const STATUSES = ['sending', ...OPEN_STATUSES, ...FINAL_STATUSES] as const;
const FORMATS = ['csv', 'jsonl'] as const;

export function describeExport(emails: Command, cli: Cli): void {
  const time = (text: string): Date => parseTime(text, cli.world.now());
  apiCommand(emails, cli, {
    name: 'export',
    about: 'print emails as CSV or lines of JSON, newest first, one environment after the other',
    examples: [
      'emails export --since 7d > emails.csv',
      'emails export --status bounced --format jsonl --all-projects',
    ],
    environment: 'both',
    run: exportEmails,
  })
    .addOption(new Option('--format <format>').choices(FORMATS).default('csv'))
    .addOption(new Option('--status <status>', 'only with this status').choices(STATUSES))
    .option('--to <address>', 'only to this recipient')
    .option('--query <search>', 'only emails that match, like "receipt to:jo@example.org"')
    .option('--since <time>', 'created at or after this time: 6h or 7d ago, or a time', time)
    .option('--until <time>', 'created before this time (default: now)', time);
}

type Options = ApiOptions & {
  format: (typeof FORMATS)[number];
  status?: EmailStatus;
  to?: string;
  query?: string;
  since?: Date;
  until?: Date;
};

/** Prints page by page, so that memory does not grow with the number of emails. */
async function exportEmails(api: Api, options: Options): Promise<ExitCode> {
  const { format, json, status, to, query: q, since, until } = options;
  const isCsv = format === 'csv' && json !== true;
  const query = {
    status,
    to,
    q,
    limit: PAGE_MAX,
    created_after: since?.toISOString(),
    created_before: until?.toISOString(),
  };
  const { out } = api.cli;
  if (isCsv) out(formatCsvRow(COLUMNS.map(([name]) => name)));
  for (const { client } of await api.all()) {
    for await (const email of client.emails.list(query)) {
      out(isCsv ? formatCsvRow(cellsOf(email)) : `${JSON.stringify(email)}\n`);
    }
  }
  return 0;
}

const COLUMNS: readonly (readonly [string, (email: EmailSummary) => string | null])[] = [
  ['id', ({ id }) => id],
  ['environment', ({ environment }) => environment],
  ['created_at', (email) => email.created_at],
  ['status', ({ status }) => status],
  ['from', ({ from }) => from],
  ['to', ({ to, cc, bcc }) => [...to, ...cc, ...bcc].join(' ')],
  ['subject', ({ subject }) => subject],
  ['sent_at', (email) => email.sent_at],
  ['completed_at', (email) => email.completed_at],
  ['message_id', (email) => email.message_id],
  ['tags', ({ tags }) => tags.map(({ name, value }) => `${name}:${value}`).join(' ')],
];

function cellsOf(email: EmailSummary): string[] {
  return COLUMNS.map(([, read]) => read(email) ?? '');
}
