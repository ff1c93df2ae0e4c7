/**
 * The overview shows the state of a project and its reasons: the verdict, the findings, and the figures of a period
 * beside those of another one. A click on any part opens its emails.
 */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { ChartNoAxesColumn, Scale } from 'lucide-react';
import type { ReactNode } from 'react';
import { useApi } from '../../api/scope.ts';
import { serverNowMs } from '../../lib/clock.ts';
import { useMay } from '../../ui/allowed.tsx';
import { Card } from '../../ui/card.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Empty, Problem } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { Breakdown, type Dimension, dimensionOf } from './figures/breakdown.tsx';
import { countParts, outcomesOf, sum } from './figures/figures.ts';
import { Rates } from './figures/rates.tsx';
import { VolumeChart } from './figures/volume-chart.tsx';
import { FindingCards } from './findings/finding-cards.tsx';
import { OverallVerdict } from './findings/overall-verdict.tsx';
import { type Attention, useFindings } from './findings/use-findings.ts';
import { ComparisonMenu, PeriodMenu } from './periods/period-menus.tsx';
import {
  comparedWith,
  labelOfComparison,
  type Period,
  periodOf,
  statsTimes,
} from './periods/periods.ts';

const ROUTE = '/$project/$environment/overview';

export function OverviewScreen(): ReactNode {
  const api = useApi();
  const { range, by, with: comparison } = useSearch({ from: ROUTE });
  const nowMs = serverNowMs();
  const period = periodOf(range, nowMs);
  const attention = useFindings();
  const queue = useQuery(api.query('getQueue', { query: { scope: 'project' } }));
  return (
    <>
      <PageHead title="Overview">
        <PeriodMenu period={period} nowMs={nowMs} />
        <ComparisonMenu period={period} comparison={comparison} nowMs={nowMs} />
      </PageHead>
      <PageBody>
        {attention.isPending ? (
          <Blocks heights={['h-28']} />
        ) : (
          <>
            <OverallVerdict attention={attention} queue={queue.data} />
            <FindingCards attention={attention} />
          </>
        )}
        <Accounted />
        <PeriodFigures
          period={period}
          comparison={comparison}
          by={dimensionOf(by)}
          nowMs={nowMs}
          attention={attention}
        />
      </PageBody>
    </>
  );
}

function PeriodFigures(props: {
  period: Period;
  comparison: string | undefined;
  by: Dimension;
  nowMs: number;
  attention: Attention;
}): ReactNode {
  const { period, comparison, by, nowMs, attention } = props;
  const api = useApi();
  const compared = comparedWith(period, comparison, nowMs);
  const stats = useStats(period);
  const before = usePastStats(compared);
  const split = useStats(period, by);
  const splitBefore = usePastStats(compared, by);
  const queue = useQuery(api.query('getQueue', { query: { scope: 'project' } }));
  if (stats.isPending) return <Blocks heights={['h-26', 'h-80', 'h-60']} />;
  if (stats.isError) return <Problem error={stats.error} retry={() => void stats.refetch()} />;
  const parts = countParts(stats.data, period.parts, nowMs);
  const partsBefore =
    compared && before.data ? countParts(before.data, compared.parts, nowMs) : null;
  const comparedLabel = labelOfComparison(period, comparison);
  const bounceLimit = attention.limits?.bounced;
  const total = sum(parts);
  if (total.recipients + outcomesOf(total) === 0) return <NoMail period={period} />;
  return (
    <>
      <Rates
        counts={{ stats: stats.data, before: before.data, parts, partsBefore, comparedLabel }}
        limits={attention.limits}
      />
      {compared === null && comparison !== 'none' && (
        <p className="text-sm text-muted">
          Hours are kept for 31 days, so this period cannot be compared with {comparedLabel}.
        </p>
      )}
      <VolumeChart
        period={period}
        parts={parts}
        partsBefore={partsBefore}
        comparedLabel={comparedLabel}
        bounceLimit={bounceLimit}
      />
      <Breakdown
        by={by}
        stats={split.data}
        before={compared === null ? undefined : splitBefore.data}
        parts={period.parts}
        queue={queue.data}
        bounceLimit={bounceLimit}
      />
    </>
  );
}

/** The cards of the page before they are read. */
function Blocks({ heights }: { heights: readonly string[] }): ReactNode {
  return (
    <div role="status" aria-label="Loading" className="grid grid-cols-1 gap-6">
      {heights.map((height) => (
        <div
          key={height}
          className={`animate-[appear_1ms_150ms_both] space-y-3 rounded-card border border-line bg-surface p-4 ${height}`}
        >
          <div className="skeleton h-3.5 w-48 max-w-full" />
          <div className="skeleton h-3 w-2/5" />
        </div>
      ))}
    </div>
  );
}

function NoMail({ period }: { period: Period }): ReactNode {
  return (
    <Card
      wide={
        <Empty title={`No mail: ${period.label.toLowerCase()}`} icon={ChartNoAxesColumn}>
          <p>Rates, volume and reasons appear here with the first email of this period.</p>
        </Empty>
      }
    />
  );
}

function useStats(period: Period, by?: Dimension) {
  const api = useApi();
  return useQuery({
    ...api.query('getStats', { query: { ...statsTimes(period), by } }),
    placeholderData: keepPreviousData,
  });
}

/** The counts of a period that has ended. New events do not change them, so they are read once. */
function usePastStats(period: Period | null, by?: Dimension) {
  const api = useApi();
  const query = period === null ? {} : { ...statsTimes(period), by };
  return useQuery({
    queryKey: [...api.key, 'past-stats', query],
    queryFn: ({ signal }) => api.call('getStats', { query, signal }),
    enabled: period !== null,
    staleTime: Infinity,
  });
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
    <p className="flex items-center gap-2 text-sm text-muted">
      <Scale size={15} aria-hidden className="shrink-0" />
      <span>
        All mail accepted {from === to ? `on ${to}` : `from ${from} to ${to}`} (UTC) is accounted
        for. Checked <Time at={checkedAt} />.
      </span>
    </p>
  );
}
