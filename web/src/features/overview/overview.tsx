/** The figures of a period, and what needs attention. */
import { useQuery } from '@tanstack/react-query';
import { Link, useSearch } from '@tanstack/react-router';
import { CircleAlert, CircleCheck, Hourglass, Scale } from 'lucide-react';
import { lazy, type ReactNode, Suspense } from 'react';
import type { Stats } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { useMay } from '../../ui/allowed.tsx';
import { Choices } from '../../ui/choices.tsx';
import { PageHead } from '../../ui/page.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { importWhenOnline } from '../../lib/lazy-import.ts';
import { inWords } from '../../lib/time.ts';
import { Time } from '../../ui/time.tsx';
import { useAttention } from './attention.ts';
import { QueueSummary } from '../queue/queue-words.tsx';
import { useQueue } from '../queue/use-queue.ts';
import { ensureLanguage } from './plot-locale.ts';
import { type Range, RANGES } from './ranges.ts';

const StatsChart = lazy(async () => {
  ensureLanguage();
  return { default: (await importWhenOnline(() => import('./stats-chart.tsx'))).StatsChart };
});

const ROUTE = '/$project/$environment/overview';
const DIMENSIONS = [
  ['domain', 'Sending domain'],
  ['provider', 'Provider'],
  ['tag', 'Tag'],
] as const;
type Dimension = (typeof DIMENSIONS)[number][0];

export function OverviewScreen(): ReactNode {
  const { range: chosen, by: chosenBy } = useSearch({ from: ROUTE });
  const rangeName =
    chosen !== undefined && chosen in RANGES ? (chosen as keyof typeof RANGES) : '24h';
  const range = RANGES[rangeName];
  const by = DIMENSIONS.find(([name]) => name === chosenBy)?.[0] ?? 'domain';
  const stats = useStats(range);
  const split = useStats(range, { by });
  const before = useStats(range, { isBefore: true });
  return (
    <>
      <PageHead title="Overview">
        <Choices
          label="Period"
          name="range"
          chosen={rangeName}
          options={Object.entries(RANGES).map(([key, one]) => [key, one.label])}
        />
      </PageHead>
      <Attention />
      <QueueNow />
      <Accounted />
      {stats.isPending && <RowsSkeleton rows={6} />}
      {stats.isError && <Problem error={stats.error} retry={() => void stats.refetch()} />}
      {stats.isSuccess && (
        <>
          <Figures total={stats.data.totals[0]} before={before.data} period={range.label} />
          <Suspense fallback={<div className="h-64" />}>
            <StatsChart data={stats.data} range={range} />
          </Suspense>
        </>
      )}
      <div className="flex flex-wrap items-center gap-3 px-4 pt-6 pb-2">
        <h2 className="grow font-medium">Breakdown</h2>
        <Choices label="Break down by" name="by" chosen={by} options={DIMENSIONS} />
      </div>
      {split.isSuccess && (
        <Split stats={split.data} title={DIMENSIONS.find(([name]) => name === by)?.[1] ?? ''} />
      )}
    </>
  );
}

/** @param options.isBefore reads the previous period of the same length */
function useStats(
  { granularity, periodMs, periods }: Range,
  { by, isBefore = false }: { by?: Dimension; isBefore?: boolean } = {},
) {
  const api = useApi();
  const { queryKey } = api.query('getStats', { query: { granularity, by } });
  return useQuery({
    queryKey: [...queryKey, periods, isBefore],
    queryFn: ({ signal }) => {
      const first = Math.floor(Date.now() / periodMs) * periodMs - (periods - 1) * periodMs;
      const at = (ms: number): string => new Date(ms).toISOString();
      const times = isBefore
        ? { from: at(first - periods * periodMs), to: at(first) }
        : { from: at(first) };
      return api.call('getStats', { query: { granularity, ...times, by }, signal });
    },
  });
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
      {findings.map((finding) => (
        <li key={finding.text} className="flex items-start gap-2">
          <CircleAlert size={15} aria-hidden className="mt-0.75 shrink-0 text-bad" />
          <span className="min-w-0 break-words">
            {finding.text}{' '}
            {'remedy' in finding ? (
              <span className="text-muted">{finding.remedy}</span>
            ) : (
              <Link
                to={finding.to}
                params={'id' in finding ? { ...scope, id: finding.id } : scope}
                search={'search' in finding ? finding.search : {}}
                className="text-accent underline"
              >
                {finding.action}
              </Link>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

function QueueNow(): ReactNode {
  const { scope } = useApi();
  const queue = useQueue('project');
  if (queue.data === undefined) return null;
  return (
    <p className="flex items-center gap-2 px-4 pt-2 text-sm text-muted">
      <Hourglass size={15} aria-hidden className="shrink-0" />
      <span>
        <QueueSummary queue={queue.data} />{' '}
        <Link to="/$project/$environment/queue" params={scope} className="text-accent underline">
          Show queue
        </Link>
      </span>
    </p>
  );
}

/** Tells admins that no accepted mail is missing. A difference is a finding instead. */
function Accounted(): ReactNode {
  const api = useApi();
  const isOperator = useMay()('getReconciliation');
  const proof = useQuery({
    ...api.query('getReconciliation'),
    // Without the scope: the result is the same in all projects.
    queryKey: ['getReconciliation'],
    enabled: isOperator,
  });
  if (proof.data === undefined || proof.data.checked_at === null) return null;
  const { from, to, is_accounted_for: isAccountedFor, checked_at: checkedAt } = proof.data;
  if (from === null || to === null || !isAccountedFor) return null;
  return (
    <p className="flex items-center gap-2 px-4 pt-2 text-sm text-muted">
      <Scale size={15} aria-hidden className="shrink-0" />
      <span>
        All mail accepted {from === to ? `on ${to}` : `from ${from} to ${to}`} (UTC) is accounted
        for. Checked <Time at={checkedAt} />.
      </span>
    </p>
  );
}

type Total = Stats['totals'][number];

/** The figures of a period, each with its value in the previous period. */
function Figures(props: {
  total: Total | undefined;
  before: Stats | undefined;
  period: string;
}): ReactNode {
  const [now, before] = [figuresOf(props.total), figuresOf(props.before?.totals[0])];
  return (
    <dl className="grid grid-cols-2 gap-px px-4 pt-4 sm:grid-cols-3 lg:grid-cols-5">
      {now.map(({ name, value, detail }, index) => (
        <div key={name} className="py-2">
          <dt className="text-sm text-muted">{name}</dt>
          <dd className="text-xl font-semibold tabular-nums">{value}</dd>
          <dd className="text-sm text-muted tabular-nums">{detail}</dd>
          {props.before && (
            <dd
              className="text-sm text-muted tabular-nums"
              title={`In the previous ${props.period}`}
            >
              previously {before[index]?.value}
            </dd>
          )}
        </div>
      ))}
    </dl>
  );
}

type Figure = { name: string; value: string; detail: string };

function figuresOf(total: Total | undefined): Figure[] {
  const { bounced = 0, failed = 0, complained = 0 } = total ?? {};
  const [emails, recipients] = [total?.emails ?? 0, total?.recipients ?? 0];
  const delivered = total ? total.delivered + total.sent : 0;
  const ended = delivered + bounced + failed;
  const share = (count: number): string => (ended === 0 ? '–' : percent(count / ended));
  const slowest = total?.time_to_delivery.p95_at_most_s;
  return [
    { name: 'Emails', value: number(emails), detail: `${number(recipients)} recipients` },
    { name: 'Delivered', value: share(delivered), detail: number(delivered) },
    { name: 'Bounced', value: share(bounced), detail: number(bounced) },
    { name: 'Complained', value: share(complained), detail: number(complained) },
    {
      name: '95 % delivered within',
      value: slowest == null ? '–' : inWords(slowest),
      detail: 'after acceptance',
    },
  ];
}

function Split({ stats, title }: { stats: Stats; title: string }): ReactNode {
  if (stats.totals.length === 0)
    return <p className="px-4 pb-6 text-sm text-muted">No emails were sent in this period.</p>;
  return (
    <Table
      label={`Figures by ${title.toLowerCase()}`}
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
