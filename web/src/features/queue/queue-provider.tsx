/** A provider in the queue: its state and limit, the settings in effect, and its latest replies. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import type { ReactNode } from 'react';
import type { QueueProvider } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { count } from '../../lib/numbers.ts';
import { PageHead } from '../../ui/page.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { QueueChanges } from './queue-changes.tsx';
import { LimitText, MaybeTime, nameOf, sourceOf, StateMark } from './queue-words.tsx';
import { type QueueScopeName, refreshMs } from './use-queue.ts';

export function QueueProviderView(props: { provider: string; scope: QueueScopeName }): ReactNode {
  const { provider, scope } = props;
  const api = useApi();
  const found = useQuery({
    ...api.query('getQueueProvider', { path: { provider }, query: { scope } }),
    refetchInterval: ({ state }) => refreshMs(state.data),
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <Link
        from="/$project/$environment/queue"
        search={{ scope }}
        className="mx-4 mt-3 inline-flex items-center gap-1 text-sm text-muted hover:text-text"
      >
        <ArrowLeft size={14} aria-hidden /> Queue
      </Link>
      <PageHead title={provider} about={found.data && <StateMark row={found.data} />}>
        <QueueChanges provider={provider} scope={scope} />
      </PageHead>
      {found.isPending && <RowsSkeleton />}
      {found.isError && <Problem error={found.error} retry={() => void found.refetch()} />}
      {found.data && <Loaded found={found.data} />}
    </>
  );
}

function Loaded({ found }: { found: QueueProvider }): ReactNode {
  const { is_estimate: isEstimate } = found;
  const facts: [string, ReactNode][] = [
    ['Queued', count(found.waiting, isEstimate)],
    ['With workers', count(found.with_workers, isEstimate)],
    ['Due', count(found.due, isEstimate)],
    ['On hold', count(found.held, isEstimate)],
    ['Oldest due', <MaybeTime key="" at={found.oldest_due_at} />],
    ['Next due', <MaybeTime key="" at={found.next_due_at} />],
    [
      'Connections',
      found.connections === null ? '–' : `${found.connections} of ${found.connections_max}`,
    ],
  ];
  return (
    <>
      <p className="px-4 pt-4">
        {found.limit ? <LimitText row={found} /> : 'No emails are queued for this provider.'}
      </p>
      <dl className="flex flex-wrap gap-x-8 gap-y-2 px-4 pt-3">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt className="text-sm text-muted">{name}</dt>
            <dd className="tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      <Replies replies={found.answers} />
      <Settings settings={found.settings} />
    </>
  );
}

function Replies({ replies }: { replies: QueueProvider['answers'] }): ReactNode {
  const { scope } = useApi();
  return (
    <>
      <h2 className="px-4 pt-6 pb-2 font-medium">Latest replies</h2>
      {replies.length === 0 && (
        <p className="px-4 text-sm text-muted">
          No replies yet to queued emails of this project and environment.
        </p>
      )}
      {replies.length > 0 && (
        <Table
          label="Latest replies"
          rows={replies}
          keyOf={({ at, email_id: id, recipient }) => `${at} ${id} ${recipient}`}
          columns={[
            {
              title: 'Reply',
              cell: ({ code, enhanced_code: enhanced, message }) => (
                <span className="font-mono text-xs break-words">
                  {[code, enhanced, message].filter((part) => part !== null).join(' ')}
                </span>
              ),
            },
            {
              title: 'To',
              cell: ({ email_id: id, recipient }) => (
                <Link
                  to="/$project/$environment/emails/$id"
                  params={{ ...scope, id }}
                  className="font-mono text-xs break-all hover:underline"
                >
                  {recipient}
                </Link>
              ),
            },
            {
              title: 'Server',
              isWide: true,
              cell: ({ mx }) => <span className="font-mono text-xs break-all">{mx ?? '–'}</span>,
            },
            { title: 'Attempts', isNumber: true, isWide: true, cell: ({ attempts }) => attempts },
            { title: 'Time', isNumber: true, cell: ({ at }) => <Time at={at} /> },
          ]}
        />
      )}
    </>
  );
}

function Settings({ settings }: Pick<QueueProvider, 'settings'>): ReactNode {
  return (
    <>
      <h2 className="px-4 pt-6 pb-2 font-medium">Settings in effect</h2>
      {settings.length === 0 && (
        <p className="px-4 pb-6 text-sm text-muted">
          None. Test emails are simulated and use no connections.
        </p>
      )}
      {settings.length > 0 && (
        <Table
          label="Settings in effect"
          rows={settings}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Setting', cell: (setting) => nameOf(setting) },
            { title: 'Value', isNumber: true, cell: ({ value }) => value ?? 'no limit' },
            { title: 'Set by', cell: (setting) => sourceOf(setting) },
            {
              title: 'Key in LETTERHAUS_SHAPING',
              isWide: true,
              cell: ({ path }) => <code className="font-mono text-xs break-all">{path}</code>,
            },
          ]}
        />
      )}
    </>
  );
}
