/** `letterhaus stats`: prints counts of mail as a table that fits the terminal. */
import { type Command, Option } from 'commander';
import { type Api, type ApiOptions, apiRunnable } from '../cli/api.ts';
import { type Cli, type CommandResult, parseTime } from '../cli/command.ts';
import {
  COUNTERS,
  type Counter,
  STATS_DIMENSIONS,
  STATS_GRANULARITIES,
  type StatsDimension,
  type StatsGranularity,
} from './counts.ts';
import { shortTime, table } from '../cli/table.ts';
import type { StatsReport } from './stats-report.ts';

export function describeStats(stats: Command, cli: Cli): void {
  const time = (text: string): Date => parseTime(text, cli.world.now());
  stats
    .option(
      '--from <time>',
      'start: 6h or 7d ago, a time or a date (default: 24 hours or 30 days ago)',
      time,
    )
    .option('--to <time>', 'end, in the same formats (default: now)', time)
    .addOption(
      new Option('--granularity <period>', 'hour or day')
        .choices(STATS_GRANULARITIES)
        .default('day'),
    )
    .addOption(
      new Option(
        '--by <what>',
        'sums for each sending domain, provider, tag, API key, template or reason',
      ).choices(STATS_DIMENSIONS),
    );
  apiRunnable(stats, cli, {
    examples: ['stats --granularity hour --from 6h', 'stats --from 7d --by provider'],
    notes:
      'Prints a line for each hour or day, or with --by the sums of each value. Times are in UTC.',
    environment: 'live',
    run: printStats,
  });
}

type StatsOptions = ApiOptions & {
  from?: Date;
  to?: Date;
  granularity: StatsGranularity;
  by?: StatsDimension;
};

async function printStats(
  { cli, client, environment }: Api,
  options: StatsOptions,
): Promise<CommandResult> {
  const { from, to, granularity, by } = options;
  const range = { from: from?.toISOString(), to: to?.toISOString() };
  const report = await client.stats.get({ ...range, granularity, by });
  return { data: report, text: statsText(cli, report, environment ?? 'live') };
}

/**
 * Columns that are always shown. Others are shown when they are not zero, and dropped from the right when space is
 * short.
 */
const ALWAYS: ReadonlySet<Counter> = new Set(['emails', 'recipients', 'delivered', 'bounced']);
const FIRST_COLUMNS: readonly Counter[] = [...ALWAYS];
const NAME_WIDTH_MAX = 40;

type Terminal = Pick<Cli, 'program' | 'widthColumns'>;
type StatsLine = {
  name: string;
  counts: StatsReport['totals'][number] | StatsReport['data'][number];
};

export function statsText(cli: Terminal, report: StatsReport, environment: string): string {
  const { by, from, to, granularity, data, totals } = report;
  const range = `${shortTime(from).slice(0, 16)} to ${shortTime(to).slice(0, 16)}`;
  if (data.length === 0)
    return `Nothing was counted from ${range} (UTC) in the ${environment} environment.`;
  const lines: StatsLine[] =
    by === null
      ? [
          ...data.map((counts) => ({ name: periodName(counts.period, granularity), counts })),
          ...totals.map((counts) => ({ name: 'total', counts })),
        ]
      : totals.map((counts) => ({ name: clipName(counts.name ?? counts.value ?? ''), counts }));
  const others = COUNTERS.filter((name) => !ALWAYS.has(name));
  const columns = [...FIRST_COLUMNS, ...others].filter((name) =>
    ALWAYS.has(name)
      ? lines.some(({ counts }) => counts[name] !== null)
      : lines.some(({ counts }) => (counts[name] ?? 0) > 0),
  );
  const heading = by === null ? granularity : by;
  const fitted = fitColumns(
    columns,
    (names) => render(cli, heading, { lines, names }),
    cli.widthColumns,
  );
  const missing = columns.slice(fitted.count).map((name) => name.toUpperCase());
  const note = missing.length > 0 ? `\n(no room for ${missing.join(', ')}; --json has all)` : '';
  return `${range} (UTC), ${environment}\n\n${fitted.text}${note}`;
}

function periodName(period: string, granularity: StatsGranularity): string {
  return granularity === 'day' ? period.slice(0, 10) : shortTime(period).slice(0, 16);
}

function clipName(name: string): string {
  return name.length <= NAME_WIDTH_MAX ? name : `${name.slice(0, NAME_WIDTH_MAX - 1)}…`;
}

function fitColumns(
  columns: readonly Counter[],
  renderColumns: (names: readonly Counter[]) => string,
  width = Infinity,
): { text: string; count: number } {
  for (let count = columns.length; ; count -= 1) {
    const text = renderColumns(columns.slice(0, count));
    const widest = Math.max(...text.split('\n').map((line) => line.length));
    if (widest <= width || count <= 1) return { text, count };
  }
}

function render(
  { program }: Terminal,
  heading: string,
  { lines, names }: { lines: readonly StatsLine[]; names: readonly Counter[] },
): string {
  const columns = [heading, ...names, 'p95'].map((name) => name.toUpperCase());
  const rows = lines.map(({ name, counts }) => [
    name,
    ...names.map((column) => (counts[column] === null ? '-' : String(counts[column]))),
    formatLatency(counts.time_to_delivery),
  ]);
  return table({ program }, { columns, rows, none: '' });
}

/** Formats the latency as `≤ 5 s`, or `-` when nothing was delivered. */
function formatLatency({
  count,
  p95_at_most_s: seconds,
}: StatsReport['totals'][number]['time_to_delivery']): string {
  if (count === 0) return '-';
  return seconds === null ? '> 5 days' : `≤ ${seconds} s`;
}
