/** The last 24 hours of a webhook: rates, a bar for each half hour, and failures grouped by response. */
import { type ReactNode, useId } from 'react';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Figure } from '../../ui/figure.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { successRate } from '../../lib/numbers.ts';
import { inWords } from '../../lib/time.ts';
import { codeOf, firstLine } from './responses.ts';
import { pendingInWords, type Statistics } from './verdict.tsx';

const HOURS = 24;

export function StatisticsCard({ statistics }: { statistics: Statistics }): ReactNode {
  const { delivered, failed, pending, latency_p95_ms: latencyMs, intervals } = statistics;
  const lastHour = intervals.slice(-Math.ceil(intervals.length / HOURS));
  return (
    <Card
      title="Deliveries, 24 hours"
      about={statistics.is_partial ? 'Of the newest 20,000 deliveries.' : undefined}
      actions={<Legend />}
      wide={
        <div className="grid min-[900px]:grid-cols-[minmax(18rem,2fr)_3fr]">
          <dl className="grid grid-cols-2 border-line max-[899px]:border-b min-[900px]:border-r">
            <Rate label="Success rate" delivered={delivered} failed={failed} />
            <Rate
              label="In the last hour"
              delivered={sum(lastHour, 'delivered')}
              failed={sum(lastHour, 'failed')}
            />
            <Figure
              size="small"
              label="95% respond within"
              value={latencyMs === null ? '–' : inWords(latencyMs / 1000)}
            />
            <Figure size="small" label="Pending" value={pendingInWords(pending)} />
          </dl>
          <Bars intervals={intervals} />
        </div>
      }
    />
  );
}

function sum(intervals: Statistics['intervals'], name: 'delivered' | 'failed'): number {
  return intervals.reduce((total, interval) => total + interval[name], 0);
}

/** Below this share of successes, the rate is shown as a problem. */
const GOOD_SHARE = 0.99;

function Rate(props: { label: string; delivered: number; failed: number }): ReactNode {
  const { label, delivered, failed } = props;
  const ended = delivered + failed;
  const share = delivered / ended;
  return (
    <Figure
      size="small"
      label={label}
      value={successRate(delivered, ended)}
      tone={ended > 0 && share < GOOD_SHARE ? 'bad' : undefined}
    />
  );
}

function Legend(): ReactNode {
  return (
    <ul className="flex gap-4 text-xs text-muted">
      {(
        [
          ['bg-good-fill', '2xx'],
          ['bg-bad-fill', 'Failed'],
          ['bg-quiet-fill', 'Waiting'],
        ] as const
      ).map(([colour, label]) => (
        <li key={label} className="flex items-center gap-1.5">
          <span aria-hidden className={`size-2 rounded-[2px] ${colour}`} />
          {label}
        </li>
      ))}
    </ul>
  );
}

const HEIGHT = 72;
const LABELLED = 4;
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });

/** Stacked from the bottom: succeeded, failed, waiting. */
const PARTS = [
  ['delivered', 'fill-good-fill'],
  ['failed', 'fill-bad-fill'],
  ['waiting', 'fill-quiet-fill'],
] as const;

function Bars({ intervals }: { intervals: Statistics['intervals'] }): ReactNode {
  const title = useId();
  const most = Math.max(1, ...intervals.map((one) => one.delivered + one.failed + one.waiting));
  const widthShare = 100 / intervals.length;
  const failed = sum(intervals, 'failed').toLocaleString();
  const delivered = sum(intervals, 'delivered').toLocaleString();
  const every = Math.ceil(intervals.length / LABELLED);
  return (
    <div className="min-w-0 self-end p-4">
      <svg role="img" aria-labelledby={title} width="100%" height={HEIGHT} className="block">
        <title id={title}>
          {`Deliveries by half hour: ${delivered} succeeded, ${failed} failed`}
        </title>
        <line x2="100%" y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} className="stroke-line" />
        {intervals.map((interval, index) => (
          <Bar key={interval.at} {...{ interval, most, widthShare, index }} />
        ))}
      </svg>
      <div aria-hidden className="mt-1 flex justify-between text-xs text-muted tabular-nums">
        {intervals
          .filter((_, index) => index % every === 0)
          .map(({ at }) => (
            <span key={at}>{clock.format(Date.parse(at))}</span>
          ))}
        <span>Now</span>
      </div>
    </div>
  );
}

function Bar(props: {
  interval: Statistics['intervals'][number];
  most: number;
  widthShare: number;
  index: number;
}): ReactNode {
  const { interval, most, widthShare, index } = props;
  let bottom = HEIGHT;
  return PARTS.map(([name, colour]) => {
    const count = interval[name];
    if (count === 0) return null;
    const height = Math.max(2, ((HEIGHT - 2) * count) / most);
    bottom -= height;
    return (
      <rect
        key={name}
        x={`${index * widthShare + widthShare * 0.1}%`}
        width={`${widthShare * 0.8}%`}
        y={bottom}
        height={height}
        className={colour}
      >
        <title>{`${clock.format(Date.parse(interval.at))}: ${count.toLocaleString()} ${name}`}</title>
      </rect>
    );
  });
}

export function FailuresCard(props: {
  failures: Statistics['failures'];
  onShow: (deliveryId: string) => void;
}): ReactNode {
  const { failures, onShow } = props;
  if (failures.length === 0) return null;
  const attempts = failures.reduce((total, group) => total + group.attempts, 0);
  return (
    <Card
      title="Failures by response"
      about={`${attempts.toLocaleString()} ${attempts === 1 ? 'attempt' : 'attempts'}`}
      wide={
        <Table
          label="Failures"
          rows={failures}
          keyOf={({ delivery_id: id }) => id}
          columns={[
            { title: 'Code', isState: true, cell: (group) => <CodeChip attempt={group} /> },
            {
              title: 'First line of the response',
              cell: (group) => (
                <button
                  type="button"
                  onClick={() => onShow(group.delivery_id)}
                  title="Shows the newest of these deliveries"
                  className="line-clamp-2 text-left font-mono text-xs [overflow-wrap:anywhere] cell-link"
                >
                  {firstLine(group) || 'empty response'}
                </button>
              ),
            },
            {
              title: 'Deliveries',
              isNumber: true,
              cell: ({ deliveries }) => deliveries.toLocaleString(),
            },
            {
              title: 'Attempts',
              isNumber: true,
              cell: (group) => group.attempts.toLocaleString(),
            },
            {
              title: 'First',
              isNumber: true,
              isWide: true,
              cell: ({ first_at: at }) => <Time at={at} />,
            },
            {
              title: 'Last',
              isNumber: true,
              isWide: true,
              cell: ({ last_at: at }) => <Time at={at} />,
            },
            {
              title: '',
              isNumber: true,
              isWide: true,
              cell: ({ status }) => <OnlyThese code={status === null ? 'none' : String(status)} />,
            },
          ]}
        />
      }
    />
  );
}

function OnlyThese({ code }: { code: string }): ReactNode {
  return (
    <ButtonLink
      to="."
      params={true}
      search={(all) => ({ ...all, code })}
      hash="deliveries"
      size="small"
    >
      Show only {code === 'none' ? 'these' : code}
    </ButtonLink>
  );
}

/** The status of a response, or that there was none. */
export function CodeChip({ attempt }: { attempt: { status: number | null } }): ReactNode {
  const { status } = attempt;
  const isSuccess = status !== null && status >= 200 && status < 300;
  return <Chip tone={isSuccess ? 'good' : 'bad'}>{codeOf(attempt)}</Chip>;
}
