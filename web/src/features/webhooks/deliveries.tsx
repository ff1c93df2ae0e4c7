/**
 * The deliveries of a webhook: a filter, a live tail, a selection to replay, and one delivery in a drawer. The list is
 * followed while nothing is selected, so that a selected row does not move.
 */
import { useNavigate, useSearch } from '@tanstack/react-router';
import { Inbox, SearchX } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Webhook, WebhookDelivery } from '../../../../sdk/src/api.ts';
import { useEvents } from '../../api/live.ts';
import { useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { useMay } from '../../ui/allowed.tsx';
import { SelectionBar } from '../../ui/bulk.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Empty, Problem, RowsSkeleton } from '../../ui/states.tsx';
import { serverNowMs } from '../../lib/clock.ts';
import { DeliveryDrawer } from './delivery.tsx';
import { FilterBar } from './filter-bar.tsx';
import { isFiltered, queryOf } from './delivery-filter.ts';
import { DeliveryTable } from './delivery-table.tsx';
import { ReplayMatches } from './replay-matches.tsx';
import { useAction } from './use-action.ts';

const ROUTE = '/$project/$environment/webhooks/$id';
const TAIL_MS = 2_000;

export function Deliveries({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const search = useSearch({ from: ROUTE });
  const [isFollowed, setFollowed] = useState(true);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const path = { id: webhook.id };
  const isTail = isFollowed && selected.size === 0;
  const list = useList('listWebhookDeliveries', {
    path,
    query: queryOf(search, serverNowMs()),
    isUnderWay: ({ status }) => isTail && status === 'pending',
  });
  useEvents(api.scope, () => isTail && void reload('listWebhookDeliveries', path), {
    everyMs: TAIL_MS,
  });
  const show = (delivery: string | undefined): void =>
    void navigate({ to: '.', params: true, search: (all) => ({ ...all, delivery }) });
  return (
    <>
      <Card
        title={<span id="deliveries">Deliveries</span>}
        actions={
          <Button
            size="small"
            aria-pressed={isFollowed}
            title="New deliveries appear as they are made"
            onClick={() => setFollowed(!isFollowed)}
          >
            <span
              aria-hidden
              className={`size-2 rounded-full ${isTail ? 'bg-good-fill' : 'bg-quiet-fill'}`}
            />
            {isTail ? 'Following' : 'Paused'}
          </Button>
        }
        wide={
          <>
            <FilterBar webhook={webhook} show={show} />
            <Selection
              webhook={webhook}
              selected={selected}
              rows={list.rows}
              onChange={setSelected}
            />
            <ReplayMatches webhook={webhook} search={search} isOffered={list.rows.length > 0} />
            <Rows
              list={list}
              {...{ selected, setSelected, show }}
              isFiltered={isFiltered(search)}
              isSuspended={webhook.suspended_until !== null}
            />
          </>
        }
      />
      {search.delivery !== undefined && (
        <DeliveryDrawer
          webhookId={webhook.id}
          id={search.delivery}
          onClose={() => show(undefined)}
        />
      )}
    </>
  );
}

type RowsProps = {
  list: ReturnType<typeof useList<'listWebhookDeliveries'>>;
  selected: ReadonlySet<string>;
  setSelected: (selected: ReadonlySet<string>) => void;
  show: (id: string) => void;
  isFiltered: boolean;
  isSuspended: boolean;
};

function Rows({ list, selected, setSelected, show, ...props }: RowsProps): ReactNode {
  const mayReplay = useMay()('replayWebhookDeliveries');
  if (list.isPending) return <RowsSkeleton />;
  // A refresh that failed leaves the rows, as they were read before.
  if (list.error !== null && list.rows.length === 0)
    return <Problem error={list.error} retry={() => void list.refetch()} />;
  return (
    <>
      {list.rows.length === 0 ? (
        <Empty
          title={props.isFiltered ? 'No matching deliveries' : 'No deliveries yet'}
          icon={props.isFiltered ? SearchX : Inbox}
        >
          <p>
            {props.isFiltered
              ? 'Change the filter to see other deliveries.'
              : 'Each event that this webhook receives appears here, with the response to it.'}
          </p>
        </Empty>
      ) : (
        <DeliveryTable
          rows={list.rows}
          selected={selected}
          onSelect={mayReplay ? setSelected : null}
          show={show}
          isSuspended={props.isSuspended}
        />
      )}
      {list.hasNextPage && (
        <div className="border-t border-line px-(--page-x) py-3">
          <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
    </>
  );
}

/** One request replays so many. */
const SELECTED_MAX = 500;

function Selection(props: {
  webhook: Webhook;
  selected: ReadonlySet<string>;
  rows: readonly WebhookDelivery[];
  onChange: (selected: ReadonlySet<string>) => void;
}): ReactNode {
  const { webhook, selected, rows, onChange } = props;
  const api = useApi();
  const reload = useReload();
  const { run, isRunning, failure } = useAction();
  const [replayed, setReplayed] = useState<number | null>(null);
  const replay = async (): Promise<void> => {
    const ids = [...selected].slice(0, SELECTED_MAX);
    const path = { id: webhook.id };
    const { queued } = await api.call('replayWebhookDeliveries', { path, body: { ids } });
    setReplayed(queued);
    onChange(new Set());
    await reload('getWebhook', path);
  };
  const shown = rows.slice(0, SELECTED_MAX);
  return (
    <>
      <p role="status" className="px-(--page-x) pb-2 text-sm text-muted empty:hidden">
        {selected.size === 0 &&
          replayed !== null &&
          `${replayed} ${replayed === 1 ? 'delivery is' : 'deliveries are'} queued.`}
      </p>
      <SelectionBar
        count={selected.size}
        total={shown.length}
        onAll={() => onChange(new Set(shown.map(({ id }) => id)))}
        onClear={() => onChange(new Set())}
      >
        <Button size="small" look="primary" disabled={isRunning} onClick={() => run(replay)}>
          Replay {selected.size}
        </Button>
        {failure !== null && (
          <span role="alert" className="text-bad">
            {failure}
          </span>
        )}
      </SelectionBar>
    </>
  );
}
