/** The queue by provider and project, with the limit of each and the changes that can be made. */
import { Link, useSearch } from '@tanstack/react-router';
import { CirclePause, Layers } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Queue } from '../../../../sdk/src/api.ts';
import { useScope } from '../../api/scope.ts';
import { count, recipients } from '../../lib/numbers.ts';
import { providerName, providerTitle } from '../../lib/providers.ts';
import { useHasSomeProjects } from '../../ui/allowed.tsx';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Choices } from '../../ui/choices.tsx';
import { Figure, Figures } from '../../ui/figure.tsx';
import { MoreMenu } from '../../ui/more-menu.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Empty, Problem, RowsSkeleton } from '../../ui/states.tsx';
import { type Column, Dash, Table } from '../../ui/table.tsx';
import { NextTime, Time } from '../../ui/time.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { Drops, HelpfulChange, type QueueChanges, useQueueChanges } from './queue-changes.tsx';
import { QueueProviderView } from './queue-provider.tsx';
import {
  LimitText,
  NextDue,
  type ProviderRow,
  STATE_MEANINGS,
  StateChip,
  StateMark,
} from './queue-words.tsx';
import { useQueue } from './use-queue.ts';

const ROUTE = '/$project/$environment/queue';
const SCOPES = [
  ['project', 'This project'],
  ['organization', 'All projects'],
] as const;

export function QueueScreen(): ReactNode {
  const { scope: chosen, provider } = useSearch({ from: ROUTE });
  const scope = SCOPES.find(([name]) => name === chosen)?.[0] ?? 'project';
  const hasSomeProjects = useHasSomeProjects();
  const queue = useQueue(scope, { isWatched: true });
  const changes = useQueueChanges(scope);
  return (
    <>
      {provider === undefined ? (
        <>
          <PageHead title="Queue" {...(changes && { more: changes.items() })}>
            {!hasSomeProjects && (
              <Choices label="Projects" name="scope" chosen={scope} options={SCOPES} />
            )}
          </PageHead>
          {changes?.view}
          {queue.isPending && <RowsSkeleton />}
          {queue.isError && <Problem error={queue.error} retry={() => void queue.refetch()} />}
          {queue.data && <Loaded queue={queue.data} changes={changes} />}
        </>
      ) : (
        <QueueProviderView provider={provider} scope={scope} />
      )}
      {queue.data && <Drops drops={queue.data.drops} />}
    </>
  );
}

type LoadedProps = { queue: Queue; changes: QueueChanges | null };

function Loaded({ queue, changes }: LoadedProps): ReactNode {
  const isEmpty = queue.waiting === 0;
  const scope = useScope();
  // The row of this project alone would repeat the figures.
  const hasOthers = queue.projects.some(
    ({ project_id: id, environment }) => id !== scope.project || environment !== scope.environment,
  );
  return (
    <PageBody>
      {isEmpty && (
        <Card>
          <div className="-m-4">
            <Empty title="The queue is empty" icon={Layers}>
              <p>
                Emails are queued from acceptance until they are delivered or fail: while they are
                in delivery, scheduled, on hold or waiting for the next attempt.
              </p>
            </Empty>
          </div>
        </Card>
      )}
      {!isEmpty && (
        <>
          <QueueVerdict queue={queue} />
          <QueueFigures queue={queue} />
          <Providers queue={queue} changes={changes} />
        </>
      )}
      {hasOthers && <Projects queue={queue} />}
    </PageBody>
  );
}

/** Says what only a person can change, or nothing. */
function QueueVerdict({ queue }: { queue: Queue }): ReactNode {
  const suspended = queue.providers.filter(({ state }) => state === 'suspended');
  const [first] = suspended;
  if (first === undefined) return null;
  const title =
    suspended.length === 1
      ? `Delivery to ${providerName(first.provider)} is suspended`
      : `Delivery to ${suspended.length} providers is suspended`;
  return (
    <Verdict
      tone="bad"
      icon={CirclePause}
      title={title}
      action={
        <ButtonLink
          from={ROUTE}
          search={(all) => ({ ...all, provider: first.provider })}
          look="primary"
        >
          Show why
        </ButtonLink>
      }
    >
      <p>
        {recipients(suspended.reduce((sum, { waiting }) => sum + waiting, 0))} wait. Nothing is
        lost. Next attempt:{' '}
        {first.state_until ? <NextTime at={first.state_until} /> : 'when the suspension ends'}.
      </p>
    </Verdict>
  );
}

function QueueFigures({ queue }: { queue: Queue }): ReactNode {
  const { waiting, with_workers: withWorkers, due, held, is_estimate: isEstimate } = queue;
  const inProviders = queue.providers.filter((row) => row.waiting > 0).length;
  return (
    <Figures label="Queue">
      <Figure
        size="small"
        label="Queued"
        value={count(waiting, isEstimate)}
        limit={`for ${inProviders} ${inProviders === 1 ? 'provider' : 'providers'}`}
      />
      <Figure size="small" label="In delivery" value={count(withWorkers, isEstimate)} />
      <Figure
        size="small"
        label="Due, not sent"
        value={count(due, isEstimate)}
        limit={
          queue.oldest_due_at && (
            <>
              oldest <Time at={queue.oldest_due_at} />
            </>
          )
        }
      />
      <Figure size="small" label="On hold" value={count(held, isEstimate)} />
      <NextDue at={queue.next_due_at} />
    </Figures>
  );
}

/** The legend of the table above it. */
function States(): ReactNode {
  return (
    <details>
      <summary className="w-fit hover:text-text">What the states mean</summary>
      <dl
        aria-label="States"
        className="mt-3 grid grid-cols-[auto_minmax(0,1fr)] items-baseline gap-x-4 gap-y-1.5"
      >
        {STATE_MEANINGS.map(([state, meaning]) => (
          <div key={state} className="contents">
            <dt>
              <StateChip state={state} />
            </dt>
            <dd className="text-pretty">{meaning}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

function Providers({ queue, changes }: LoadedProps): ReactNode {
  return (
    <Card
      title="Providers"
      wide={
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
                  className="cell-link block truncate font-medium md:max-w-64"
                >
                  {providerTitle(row.provider)}
                </Link>
              ),
            },
            { title: 'State', isState: true, cell: (row) => <StateMark row={row} /> },
            {
              title: 'Reason',
              isPlain: true,
              isLine: true,
              cell: (row) => (
                <div className="text-pretty md:min-w-64">
                  <LimitText row={row} />
                </div>
              ),
            },
            ...numbers<ProviderRow>(queue.is_estimate),
            {
              title: '',
              isNumber: true,
              isHidden: changes === null,
              cell: (row) =>
                changes && (
                  <span className="inline-flex items-center gap-1">
                    <span className="max-xl:hidden">
                      <HelpfulChange row={row} changes={changes} />
                    </span>
                    <MoreMenu
                      label={`More actions for ${row.provider}`}
                      items={changes.items(row.provider)}
                      size="small"
                    />
                  </span>
                ),
            },
          ]}
        />
      }
      footer={
        <>
          {queue.has_more && (
            <p className="mb-2">
              The {queue.providers.length} providers with the most queued recipients are shown.
              Totals include all.
            </p>
          )}
          <States />
        </>
      }
    />
  );
}

type Counts = Pick<Queue, 'waiting' | 'oldest_due_at' | 'next_due_at'>;

function numbers<Row extends Counts>(isEstimate: boolean): Column<Row>[] {
  return [
    { title: 'Queued', isNumber: true, cell: ({ waiting }) => count(waiting, isEstimate) },
    {
      title: 'Due',
      isNumber: true,
      // Late mail says since when it is due, other mail when it is next.
      cell: ({ oldest_due_at: oldest, next_due_at: next }) =>
        oldest === null ? next === null ? <Dash /> : <NextTime at={next} /> : <Time at={oldest} />,
    },
  ];
}

function Projects({ queue }: { queue: Queue }): ReactNode {
  return (
    <Card
      title="Projects"
      wide={
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
                  className="cell-link font-medium break-words"
                >
                  {name}
                </Link>
              ),
            },
            {
              title: 'Environment',
              isState: true,
              cell: ({ environment }) => (
                <span className="inline-block first-letter:uppercase">{environment}</span>
              ),
            },
            ...numbers<Queue['projects'][number]>(queue.is_estimate),
          ]}
        />
      }
    />
  );
}
