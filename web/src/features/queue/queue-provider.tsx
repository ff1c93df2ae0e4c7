/** A provider in the queue: its state and limit, the settings in effect, and its latest replies. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { QueueProvider } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { count } from '../../lib/numbers.ts';
import { Card } from '../../ui/card.tsx';
import { Figure, Figures } from '../../ui/figure.tsx';
import { Crumb, PageBody, PageHead } from '../../ui/page.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { HelpfulChange, useQueueChanges } from './queue-changes.tsx';
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
  const changes = useQueueChanges(scope);
  return (
    <>
      <PageHead
        title={provider}
        crumb={
          <Crumb from="/$project/$environment/queue" search={{ scope }}>
            Queue
          </Crumb>
        }
        about={found.data && <StateMark row={found.data} />}
        secondary={
          changes &&
          found.data && <HelpfulChange row={found.data} changes={changes} size="normal" />
        }
        {...(changes && { more: changes.items(provider) })}
      />
      {changes?.view}
      {found.isPending && <RowsSkeleton />}
      {found.isError && <Problem error={found.error} retry={() => void found.refetch()} />}
      {found.data && <Loaded found={found.data} />}
    </>
  );
}

function Loaded({ found }: { found: QueueProvider }): ReactNode {
  const { is_estimate: isEstimate } = found;
  const { connections, connections_max: max } = found;
  return (
    <PageBody>
      <div className="max-w-[72ch]">
        {found.limit ? <LimitText row={found} /> : 'No emails are queued for this provider.'}
      </div>
      <Figures label="Queued for this provider">
        <Figure size="small" label="Queued" value={count(found.waiting, isEstimate)} />
        <Figure size="small" label="With workers" value={count(found.with_workers, isEstimate)} />
        <Figure
          size="small"
          label="Due"
          value={count(found.due, isEstimate)}
          limit={
            found.oldest_due_at && (
              <>
                oldest <MaybeTime at={found.oldest_due_at} />
              </>
            )
          }
        />
        <Figure size="small" label="On hold" value={count(found.held, isEstimate)} />
        <Figure size="small" label="Next due" value={<MaybeTime at={found.next_due_at} />} />
        <Figure
          size="small"
          label="Connections"
          value={connections ?? '–'}
          limit={connections !== null && `of ${max} permitted`}
        />
      </Figures>
      <Replies replies={found.answers} />
      <Settings settings={found.settings} />
    </PageBody>
  );
}

function Replies({ replies }: { replies: QueueProvider['answers'] }): ReactNode {
  const { scope } = useApi();
  return (
    <Card
      title="Latest replies"
      wide={
        replies.length === 0 ? (
          <p className="px-4 py-3 text-sm text-muted">
            No replies yet to queued emails of this project and environment.
          </p>
        ) : (
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
                isPlain: true,
                cell: ({ email_id: id, recipient }) => (
                  <Link
                    to="/$project/$environment/emails/$id"
                    params={{ ...scope, id }}
                    className="link font-mono text-xs break-all"
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
              { title: 'Time', isNumber: true, isState: true, cell: ({ at }) => <Time at={at} /> },
            ]}
          />
        )
      }
    />
  );
}

function Settings({ settings }: Pick<QueueProvider, 'settings'>): ReactNode {
  return (
    <Card
      title="Settings in effect"
      wide={
        settings.length === 0 ? (
          <p className="px-4 py-3 text-sm text-muted">
            None. Test emails are simulated and use no connections.
          </p>
        ) : (
          <Table
            label="Settings in effect"
            rows={settings}
            keyOf={({ name }) => name}
            columns={[
              { title: 'Setting', cell: (setting) => nameOf(setting) },
              {
                title: 'Value',
                isNumber: true,
                isState: true,
                cell: ({ value }) => value ?? 'no limit',
              },
              { title: 'Set by', cell: (setting) => sourceOf(setting) },
              {
                title: 'Key in LETTERHAUS_SHAPING',
                isWide: true,
                cell: ({ path }) => <code className="font-mono text-xs break-all">{path}</code>,
              },
            ]}
          />
        )
      }
    />
  );
}
