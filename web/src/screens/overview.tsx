/** Is anything wrong, and how much was sent: figures of a period, and what needs somebody's attention. */
import { useQuery } from '@tanstack/react-query';
import { Link, useSearch } from '@tanstack/react-router';
import { CircleAlert, CircleCheck } from 'lucide-react';
import { lazy, type ReactNode, Suspense } from 'react';
import type { Stats } from '../../../sdk/src/api.ts';
import { useEvents } from '../api/live.ts';
import { useReload } from '../api/list.ts';
import { useApi } from '../api/scope.ts';
import { PageHead } from '../ui/page.tsx';
import { Problem, RowsSkeleton } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { inWords } from '../ui/time.tsx';
import { useAttention } from './attention.ts';

const StatsChart = lazy(() =>
  import('./stats-chart.tsx').then((screen) => ({ default: screen.StatsChart })),
);

const ROUTE = '/$project/$environment/overview';
const HOUR_MS = 3_600_000;

export const RANGES = {
  '24h': { label: '24 hours', granularity: 'hour', periodMs: HOUR_MS, periods: 24 },
  '7d': { label: '7 days', granularity: 'hour', periodMs: HOUR_MS, periods: 168 },
  '30d': { label: '30 days', granularity: 'day', periodMs: 24 * HOUR_MS, periods: 30 },
} as const;
export type Range = (typeof RANGES)[keyof typeof RANGES];

const DIMENSIONS = [
  ['domain', 'Sending domain'],
  ['provider', 'Provider'],
  ['tag', 'Tag'],
] as const;

export function OverviewScreen(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const { range: chosen, by: chosenBy } = useSearch({ from: ROUTE });
  const range = RANGES[chosen as keyof typeof RANGES] ?? RANGES['24h'];
  const by = DIMENSIONS.find(([name]) => name === chosenBy)?.[0] ?? 'domain';
  useEvents(api.scope, () => void reload('/v1/stats'));
  const stats = useStats(range);
  const split = useStats(range, by);
  return (
    <>
      <PageHead title="Overview">
        <Choices
          name="range"
          chosen={range.label}
          options={Object.entries(RANGES).map(([key, one]) => [key, one.label])}
        />
      </PageHead>
      <Attention />
      {stats.isPending && <RowsSkeleton rows={6} />}
      {stats.isError && <Problem error={stats.error} retry={() => void stats.refetch()} />}
      {stats.isSuccess && (
        <>
          <Figures total={stats.data.totals[0]} />
          <Suspense fallback={<div className="h-64" />}>
            <StatsChart data={stats.data} range={range} />
          </Suspense>
        </>
      )}
      <div className="flex flex-wrap items-center gap-3 px-4 pt-6 pb-2">
        <h2 className="grow font-medium">By</h2>
        <Choices
          name="by"
          chosen={DIMENSIONS.find(([name]) => name === by)?.[1] ?? ''}
          options={DIMENSIONS}
        />
      </div>
      {split.isSuccess && <Split stats={split.data} title={by} />}
    </>
  );
}

/** `from` is rounded, so that a second look asks for the same. */
function useStats({ granularity, periodMs, periods }: Range, by?: string) {
  const api = useApi();
  return useQuery({
    queryKey: [...api.key, '/v1/stats', granularity, periods, by ?? ''],
    queryFn: ({ signal }) => {
      const first = Math.floor(Date.now() / periodMs) * periodMs - (periods - 1) * periodMs;
      const from = new Date(first).toISOString();
      const grouped = by === undefined ? '' : `&by=${by}`;
      return api.get<Stats>(`/v1/stats?granularity=${granularity}&from=${from}${grouped}`, signal);
    },
  });
}

/** A choice that the address of the page keeps. */
function Choices(props: {
  name: 'range' | 'by';
  chosen: string;
  options: readonly (readonly [key: string, label: string])[];
}): ReactNode {
  return (
    <nav
      aria-label={props.name === 'range' ? 'Period' : 'Split by'}
      className="flex rounded-md border border-line"
    >
      {props.options.map(([key, label]) => (
        <Link
          key={key}
          to="."
          params={true}
          search={(all) => ({ ...all, [props.name]: key })}
          replace
          data-chosen={label === props.chosen || undefined}
          className="px-2.5 py-1 text-sm text-muted hover:text-text data-chosen:bg-chosen data-chosen:text-text"
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}

function Attention(): ReactNode {
  const { findings, isPending } = useAttention();
  const { scope } = useApi();
  if (isPending) return null;
  if (findings.length === 0) {
    return (
      <p className="flex items-center gap-2 px-4 pt-4 text-sm text-muted">
        <CircleCheck size={15} aria-hidden className="text-good" /> Nothing needs attention.
      </p>
    );
  }
  return (
    <ul className="space-y-2 px-4 pt-4">
      {findings.map(({ text, to, search }) => (
        <li key={text} className="flex items-start gap-2">
          <CircleAlert size={15} aria-hidden className="mt-0.75 shrink-0 text-bad" />
          <Link to={to} params={scope} search={search ?? {}} className="hover:underline">
            {text}
          </Link>
        </li>
      ))}
    </ul>
  );
}

type Total = Stats['totals'][number];

function Figures({ total }: { total: Total | undefined }): ReactNode {
  const ended = total ? total.delivered + total.sent + total.bounced + total.failed : 0;
  const share = (count: number): string => (ended === 0 ? '–' : percent(count / ended));
  const slowest = total?.time_to_delivery.p95_at_most_s;
  const figures: [string, string, string][] = [
    ['Emails', number(total?.emails ?? 0), `${number(total?.recipients ?? 0)} recipients`],
    [
      'Delivered',
      share((total?.delivered ?? 0) + (total?.sent ?? 0)),
      number((total?.delivered ?? 0) + (total?.sent ?? 0)),
    ],
    ['Bounced', share(total?.bounced ?? 0), number(total?.bounced ?? 0)],
    ['Complained', share(total?.complained ?? 0), number(total?.complained ?? 0)],
    ['95 % arrive within', slowest == null ? '–' : inWords(slowest), 'from acceptance'],
  ];
  return (
    <dl className="grid grid-cols-2 gap-px px-4 pt-4 sm:grid-cols-3 lg:grid-cols-5">
      {figures.map(([name, value, detail]) => (
        <div key={name} className="py-2">
          <dt className="text-sm text-muted">{name}</dt>
          <dd className="text-xl font-semibold tabular-nums">{value}</dd>
          <dd className="text-sm text-muted tabular-nums">{detail}</dd>
        </div>
      ))}
    </dl>
  );
}

function Split({ stats, title }: { stats: Stats; title: string }): ReactNode {
  if (stats.totals.length === 0)
    return <p className="px-4 pb-6 text-sm text-muted">Nothing was sent in this period.</p>;
  return (
    <Table
      label={`Figures by ${title}`}
      rows={stats.totals}
      keyOf={({ value }) => value ?? ''}
      columns={[
        {
          title,
          cell: ({ value, name }) => (
            <span className="font-mono text-xs break-all">{name ?? value}</span>
          ),
        },
        { title: 'Delivered', isNumber: true, cell: (one) => number(one.delivered + one.sent) },
        {
          title: 'Deferred',
          isNumber: true,
          isWide: true,
          cell: ({ deferred }) => number(deferred),
        },
        { title: 'Bounced', isNumber: true, cell: ({ bounced }) => number(bounced) },
        {
          title: 'Complained',
          isNumber: true,
          isWide: true,
          cell: ({ complained }) => number(complained),
        },
      ]}
    />
  );
}

const whole = new Intl.NumberFormat();
const asPercent = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });

function number(value: number): string {
  return whole.format(value);
}

function percent(value: number): string {
  return asPercent.format(value);
}
