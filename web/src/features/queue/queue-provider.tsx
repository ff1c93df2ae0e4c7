/** A provider in the queue: its state and limit, the settings in effect, and its latest replies. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { QueueProvider } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { count, recipients } from '../../lib/numbers.ts';
import { providerTitle } from '../../lib/providers.ts';
import { Card } from '../../ui/card.tsx';
import { Figure, Figures } from '../../ui/figure.tsx';
import { Crumb, PageBody, PageHead } from '../../ui/page.tsx';
import { PageState } from '../../ui/states.tsx';
import { Dash, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { HelpfulChange, useQueueChanges } from './queue-changes.tsx';
import {
  LimitText,
  NextDue,
  MaybeTime,
  nameOf,
  sourceOf,
  stateOf,
  valueOf,
  VERDICTS,
} from './queue-words.tsx';
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
        title={providerTitle(provider)}
        crumb={
          <Crumb from="/$project/$environment/queue" search={{ scope }}>
            Queue
          </Crumb>
        }
        secondary={
          changes &&
          found.data && <HelpfulChange row={found.data} changes={changes} size="normal" />
        }
        {...(changes && { more: changes.items(provider) })}
      />
      {changes?.view}
      <PageState query={found} />
      {found.data && <Loaded found={found.data} />}
    </>
  );
}

function Loaded({ found }: { found: QueueProvider }): ReactNode {
  const { is_estimate: isEstimate } = found;
  const { connections, connections_max: max } = found;
  return (
    <PageBody>
      <ProviderVerdict found={found} />
      <Figures label="Queued for this provider">
        <Figure size="small" label="Queued" value={count(found.waiting, isEstimate)} />
        <Figure size="small" label="In delivery" value={count(found.with_workers, isEstimate)} />
        <Figure
          size="small"
          label="Due, not sent"
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
        <NextDue at={found.next_due_at} />
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

/** Whether mail leaves to the provider, and the limit that it waits for. */
function ProviderVerdict({ found }: { found: QueueProvider }): ReactNode {
  const state = stateOf(found);
  const { held, waiting } = found;
  if (state === 'open' && held > 0) {
    return (
      <Verdict tone="quiet" icon={VERDICTS.held.icon} title="Open, with mail on hold">
        <p>
          {recipients(held)} of {waiting.toLocaleString()} wait for a release.
        </p>
      </Verdict>
    );
  }
  const { tone, icon, title } = VERDICTS[state];
  return (
    <Verdict tone={found.limit ? tone : 'good'} icon={icon} title={title}>
      {found.limit ? <LimitText row={found} /> : <p>No emails are queued for this provider.</p>}
    </Verdict>
  );
}

type Reply = QueueProvider['answers'][number];

function textOf({ code, enhanced_code: enhanced, message }: Reply): string {
  return [code, enhanced, message].filter((part) => part !== null).join(' ');
}

type ReplyGroup = { text: string; newest: Reply; count: number };

/** Equal replies once, each with its newest. */
function groupsOf(replies: readonly Reply[]): ReplyGroup[] {
  const groups = new Map<string, ReplyGroup>();
  for (const reply of replies) {
    const text = textOf(reply);
    const key = `${text} ${reply.mx ?? ''}`;
    const group = groups.get(key);
    if (group) group.count += 1;
    else groups.set(key, { text, newest: reply, count: 1 });
  }
  return [...groups.values()];
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
            rows={groupsOf(replies)}
            keyOf={({ text, newest }) => `${text} ${newest.mx}`}
            columns={[
              {
                title: 'Reply',
                cell: ({ text, newest }) => (
                  <div className="max-w-prose min-w-40">
                    <span className="font-mono text-xs [overflow-wrap:anywhere]">{text}</span>
                    <span className="block text-xs [overflow-wrap:anywhere] text-muted">
                      {newest.mx}
                    </span>
                  </div>
                ),
              },
              {
                title: 'Newest for',
                cell: ({ newest: { email_id: id, recipient } }) => (
                  <Link
                    to="/$project/$environment/emails/$id"
                    params={{ ...scope, id }}
                    title={recipient}
                    className="cell-link inline-block max-w-64 truncate align-bottom"
                  >
                    {recipient}
                  </Link>
                ),
              },
              { title: 'Recipients', isNumber: true, cell: (group) => group.count },
              {
                title: 'Last',
                isNumber: true,
                isState: true,
                cell: ({ newest: { at } }) => <Time at={at} />,
              },
            ]}
          />
        )
      }
    />
  );
}

/** Names the source of a value only where Letterhaus has another default for all providers. */
function Settings({ settings }: Pick<QueueProvider, 'settings'>): ReactNode {
  const hasSources = settings.some(({ source }) => source !== 'built_in');
  return (
    <Card
      title="Settings in effect"
      about={settings.length > 0 && !hasSources && 'All are defaults.'}
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
            isEven
            columns={[
              { title: 'Setting', cell: (setting) => nameOf(setting) },
              {
                title: 'Value',
                isState: true,
                cell: (setting) => <span className="whitespace-nowrap">{valueOf(setting)}</span>,
              },
              {
                title: 'Set by',
                isWide: true,
                isHidden: !hasSources,
                cell: (setting) =>
                  setting.source === 'built_in' ? (
                    <Dash />
                  ) : (
                    <span className="inline-block first-letter:uppercase">{sourceOf(setting)}</span>
                  ),
              },
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
