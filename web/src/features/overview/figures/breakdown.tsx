/** The figures of a period by sending domain, provider, template, tag, API key or reason. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Queue, Stats } from '../../../../../sdk/src/api.ts';
import { useScope } from '../../../api/scope.ts';
import { providerTitle } from '../../../lib/providers.ts';
import { filterBy } from '../../../lib/search-filter.ts';
import { inWords } from '../../../lib/time.ts';
import { Card } from '../../../ui/card.tsx';
import { Choices } from '../../../ui/choices.tsx';
import { ShareBar } from '../../../ui/share-bar.tsx';
import { RowsSkeleton } from '../../../ui/states.tsx';
import { type Column, Table } from '../../../ui/table.tsx';
import { StateMark } from '../../queue/queue-words.tsx';
import type { Part } from '../periods/periods.ts';
import { emailsIn } from './emails-in.ts';
import {
  changeOf,
  countsOf,
  endedOf,
  number,
  percentInColumn,
  pointsOf,
  shareOf,
} from './figures.ts';

export const DIMENSIONS = [
  ['provider', 'Provider'],
  ['domain', 'Sending domain'],
  ['template', 'Template'],
  ['tag', 'Tag'],
  ['key', 'API key'],
  ['reason', 'Reason'],
] as const;
export type Dimension = (typeof DIMENSIONS)[number][0];

export function dimensionOf(name: string | undefined): Dimension {
  return DIMENSIONS.find(([key]) => key === name)?.[0] ?? 'provider';
}

/** More rows would only repeat small numbers. The API has all of them. */
const ROWS_MAX = 25;

type Total = Stats['totals'][number];
type Row = { total: Total; before: Total | undefined };

export function Breakdown(props: {
  by: Dimension;
  stats: Stats | undefined;
  before: Stats | undefined;
  parts: readonly Part[];
  queue: Queue | undefined;
  bounceLimit: number | undefined;
}): ReactNode {
  const { by, stats, before } = props;
  const title = DIMENSIONS.find(([key]) => key === by)![1];
  const beforeOf = new Map((before?.totals ?? []).map((total) => [total.value, total]));
  const rows = (stats?.totals ?? [])
    .slice(0, ROWS_MAX)
    .map((total) => ({ total, before: beforeOf.get(total.value) }));
  return (
    <Card
      title={`By ${title === 'API key' ? title : title.toLowerCase()}`}
      actions={<Choices label="Break down by" name="by" chosen={by} options={DIMENSIONS} />}
      wide={
        stats === undefined ? (
          <RowsSkeleton rows={4} />
        ) : rows.length === 0 ? (
          <p className="px-4 py-3 text-sm text-muted">{NONE[by]}</p>
        ) : (
          <Table
            label={`Figures by ${title.toLowerCase()}`}
            rows={rows}
            keyOf={({ total }) => total.value ?? ''}
            columns={by === 'reason' ? reasonColumns(props) : columnsOf(title, props)}
          />
        )
      }
      {...((stats?.totals.length ?? 0) > ROWS_MAX && {
        footer: `The ${ROWS_MAX} largest of ${number(stats!.totals.length)}. \`GET /v1/stats?by=${by}\` has all.`,
      })}
    />
  );
}

const NONE: Readonly<Record<Dimension, string>> = {
  provider: 'No mail was attempted in this period.',
  domain: 'No emails were sent in this period.',
  template: 'No email of this period was sent with a template.',
  tag: 'No email of this period had a tag.',
  key: 'No emails were sent in this period.',
  reason: 'No mail was deferred or bounced in this period.',
};

type Context = Parameters<typeof Breakdown>[0];

function columnsOf(title: string, context: Context): Column<Row>[] {
  const { by, before, queue, bounceLimit } = context;
  const providerOf = (name: string | null) =>
    queue?.providers.find(({ provider }) => provider === name);
  const isProvider = by === 'provider';
  return [
    { title, cell: ({ total }) => <Value total={total} {...context} /> },
    {
      title: 'State',
      isState: true,
      isHidden: !isProvider,
      cell: ({ total }) => {
        const row = providerOf(total.value);
        return row === undefined ? <span className="text-muted">–</span> : <QueueState row={row} />;
      },
    },
    {
      title: 'Recipients',
      isNumber: true,
      isWide: true,
      cell: ({ total }) => number(total.recipients ?? endedOf(countsOf(total))),
    },
    {
      title: 'Outcomes',
      isWide: true,
      cell: ({ total }) => <Shares total={total} />,
    },
    {
      title: 'Delivered',
      isNumber: true,
      cell: ({ total }) => percentInColumn(shareOf(countsOf(total), 'delivered')),
    },
    {
      title: 'Change',
      isNumber: true,
      isWide: true,
      isHidden: before === undefined,
      cell: (row) => <span className="whitespace-nowrap text-muted">{changeIn(row) ?? '–'}</span>,
    },
    {
      title: 'Bounced',
      isNumber: true,
      cell: ({ total }) => {
        const share = shareOf(countsOf(total), 'bounced');
        const isAbove = bounceLimit !== undefined && share !== null && share > bounceLimit;
        return <span className={isAbove ? 'text-bad' : ''}>{percentInColumn(share)}</span>;
      },
    },
    {
      title: 'Queued now',
      isNumber: true,
      isWide: true,
      isHidden: !isProvider,
      cell: ({ total }) => number(providerOf(total.value)?.waiting ?? 0),
    },
    {
      title: '95% within',
      isNumber: true,
      isWide: true,
      cell: ({ total: { time_to_delivery: time } }) =>
        time.p95_at_most_s === null ? '–' : inWords(time.p95_at_most_s),
    },
  ];
}

function QueueState({ row }: { row: Queue['providers'][number] }): ReactNode {
  const scope = useScope();
  return (
    <Link
      to="/$project/$environment/queue"
      params={scope}
      search={{ provider: row.provider }}
      aria-label={`Queue of ${row.provider}`}
    >
      <StateMark row={row} />
    </Link>
  );
}

function changeIn({ total, before }: Row): string | null {
  if (before === undefined) return null;
  return pointsOf(shareOf(countsOf(total), 'delivered'), shareOf(countsOf(before), 'delivered'));
}

function reasonColumns(context: Context): Column<Row>[] {
  const all = (context.stats?.totals ?? []).map(countsOf);
  const bounces = all.reduce((count, { bounced }) => count + bounced, 0);
  return [
    { title: 'Reason', cell: ({ total }) => <Value total={total} {...context} /> },
    { title: 'Bounced', isNumber: true, cell: ({ total }) => number(countsOf(total).bounced) },
    {
      title: 'Of all bounces',
      isNumber: true,
      cell: ({ total }) =>
        percentInColumn(bounces === 0 ? null : countsOf(total).bounced / bounces),
    },
    {
      title: 'Change',
      isNumber: true,
      isWide: true,
      isHidden: context.before === undefined,
      cell: ({ total, before }) =>
        (before && changeOf(countsOf(total).bounced, countsOf(before).bounced)) ?? '–',
    },
    { title: 'Deferred', isNumber: true, cell: ({ total }) => number(total.deferred) },
  ];
}

function Shares({ total }: { total: Total }): ReactNode {
  const { delivered, bounced } = countsOf(total);
  return (
    <ShareBar
      parts={[
        { tone: 'good', value: delivered, label: 'delivered' },
        { tone: 'bad', value: bounced, label: 'bounced' },
      ]}
    />
  );
}

/** Categories of reasons in words. */
const REASONS: Readonly<Record<string, string>> = {
  mailbox: 'The mailbox does not exist or is disabled',
  quota: 'The mailbox is full',
  greylist: 'Greylisting',
  policy: 'A rule of the receiver',
  reputation: 'Reputation of the sender or address',
  content: 'Content of the email',
  authentication: 'SPF, DKIM or DMARC',
  network: 'Network or DNS',
  tls: 'TLS',
  protocol: 'SMTP protocol',
  expired: 'Expired before it was delivered',
};

/** A value with its emails of the period. */
function Value({ total, by, parts, stats }: Context & { total: Total }): ReactNode {
  const scope = useScope();
  const text = total.value ?? '';
  if (text === '*' || text.endsWith(':*')) {
    return (
      <span className="text-muted">
        {text === '*' ? 'All others' : `${text.slice(0, -1)} others`}
      </span>
    );
  }
  return (
    <Link
      to="/$project/$environment/emails"
      params={scope}
      search={{ q: emailsIn(parts, filterBy(by, searchedName(total, stats))) }}
      className="cell-link inline-block min-w-32 [overflow-wrap:anywhere]"
    >
      {wordsFor(by, total)}
    </Link>
  );
}

/** A name reads better than an id. The id is searched when several have the name, or nothing has it any more. */
function searchedName({ value, name }: Total, stats: Stats | undefined): string {
  const isUnique = stats?.totals.filter((other) => other.name === name).length === 1;
  return name !== null && isUnique && !name.includes('"') ? name : (value ?? '');
}

function wordsFor(by: Dimension, { value, name }: Total): string {
  const text = value ?? '';
  switch (by) {
    case 'provider':
      return providerTitle(text);
    case 'template':
      return name ?? 'A deleted template';
    case 'key':
      return name ?? 'A deleted key';
    case 'reason':
      return REASONS[text] ?? text;
    case 'domain':
    case 'tag':
      return text;
  }
}
