/** The queue by provider and project, with the limit of each and the changes that can be made. */
import { Link, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Queue } from '../../../../sdk/src/api.ts';
import { count } from '../../lib/numbers.ts';
import { useHasSomeProjects } from '../../ui/allowed.tsx';
import { Choices } from '../../ui/choices.tsx';
import { PageHead } from '../../ui/page.tsx';
import { Empty, Problem, RowsSkeleton } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Drops, QueueChanges } from './queue-changes.tsx';
import { QueueProviderView } from './queue-provider.tsx';
import { LimitText, MaybeTime, type ProviderRow, QueueSummary, StateMark } from './queue-words.tsx';
import { type QueueScopeName, useQueue } from './use-queue.ts';

const ROUTE = '/$project/$environment/queue';
const SCOPES = [
  ['project', 'This project'],
  ['organization', 'All projects'],
] as const;

export function QueueScreen(): ReactNode {
  const { scope: chosen, provider } = useSearch({ from: ROUTE });
  const scope = SCOPES.find(([name]) => name === chosen)?.[0] ?? 'project';
  const hasSomeProjects = useHasSomeProjects();
  const queue = useQueue(scope);
  return (
    <>
      {provider === undefined ? (
        <>
          <PageHead title="Queue" about={queue.data && <QueueSummary queue={queue.data} />}>
            {!hasSomeProjects && (
              <Choices label="Projects" name="scope" chosen={scope} options={SCOPES} />
            )}
          </PageHead>
          {queue.isPending && <RowsSkeleton />}
          {queue.isError && <Problem error={queue.error} retry={() => void queue.refetch()} />}
          {queue.data && <Loaded queue={queue.data} scope={scope} />}
        </>
      ) : (
        <QueueProviderView provider={provider} scope={scope} />
      )}
      {queue.data && <Drops drops={queue.data.drops} />}
    </>
  );
}

function Loaded({ queue, scope }: { queue: Queue; scope: QueueScopeName }): ReactNode {
  const isEmpty = queue.waiting === 0;
  return (
    <>
      {isEmpty && (
        <Empty title="The queue is empty">
          <p>
            Emails are queued from acceptance until they are delivered or fail: while they are in
            delivery, scheduled, on hold or waiting for the next attempt.
          </p>
        </Empty>
      )}
      {!isEmpty && <Providers queue={queue} scope={scope} />}
      {queue.projects.length > 0 && <Projects queue={queue} />}
    </>
  );
}

function Providers({ queue, scope }: { queue: Queue; scope: QueueScopeName }): ReactNode {
  return (
    <>
      <div className="flex flex-wrap items-center gap-3 px-4 pt-4 pb-2">
        <h2 className="grow font-medium">Providers</h2>
        <QueueChanges scope={scope} />
      </div>
      <Table
        label="Providers"
        rows={queue.providers}
        keyOf={({ provider }) => provider}
        columns={[
          {
            title: 'Provider',
            cell: (row) => (
              <Link
                from={ROUTE}
                search={(all) => ({ ...all, provider: row.provider })}
                title={row.provider}
                className="block max-w-28 truncate hover:underline sm:max-w-64"
              >
                {row.provider}
              </Link>
            ),
          },
          { title: 'State', cell: (row) => <StateMark row={row} /> },
          ...numbers<ProviderRow>(queue.is_estimate),
          {
            title: 'Current limit',
            isWide: true,
            cell: (row) => (
              <span className="line-clamp-2 max-w-prose">
                <LimitText row={row} />
              </span>
            ),
          },
        ]}
      />
      {queue.has_more && (
        <p className="px-4 py-2 text-sm text-muted">
          The {queue.providers.length} providers with the most queued recipients are shown. Totals
          include all.
        </p>
      )}
    </>
  );
}

type Counts = Pick<Queue, 'waiting' | 'due' | 'held' | 'oldest_due_at' | 'next_due_at'>;

function numbers<Row extends Counts>(isEstimate: boolean): Column<Row>[] {
  return [
    { title: 'Queued', isNumber: true, cell: ({ waiting }) => count(waiting, isEstimate) },
    { title: 'Due', isNumber: true, isWide: true, cell: ({ due }) => count(due, isEstimate) },
    { title: 'On hold', isNumber: true, isWide: true, cell: ({ held }) => count(held, isEstimate) },
    {
      title: 'Oldest',
      isNumber: true,
      isWide: true,
      cell: ({ oldest_due_at: at }) => <MaybeTime at={at} />,
    },
    {
      title: 'Next',
      isNumber: true,
      cell: ({ next_due_at: at }) => <MaybeTime at={at} />,
    },
  ];
}

function Projects({ queue }: { queue: Queue }): ReactNode {
  return (
    <>
      <h2 className="px-4 pt-6 pb-2 font-medium">Projects</h2>
      <Table
        label="Projects"
        rows={queue.projects}
        keyOf={({ project_id: id, environment }) => `${id} ${environment}`}
        columns={[
          {
            title: 'Project',
            cell: ({ project_id: project, name, environment }) => (
              <Link
                to={ROUTE}
                params={{ project, environment }}
                className="break-all hover:underline"
              >
                {name}
              </Link>
            ),
          },
          { title: 'Environment', cell: ({ environment }) => environment },
          ...numbers<Queue['projects'][number]>(queue.is_estimate),
        ]}
      />
    </>
  );
}
