/** Replays all deliveries that match the filter, in steps of the service, and shows the progress. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { serverNowMs } from '../../lib/clock.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { type FilterSearch, isFiltered, queryOf } from './delivery-filter.ts';

const PROGRESS_MS = 2_000;

/** Not offered for the deliveries of one recipient or email, which can be selected. */
export function ReplayMatches(props: {
  webhook: Webhook;
  search: FilterSearch;
  isOffered: boolean;
}): ReactNode {
  const { webhook, search, isOffered } = props;
  const api = useApi();
  const reload = useReload();
  const [isOpen, setOpen] = useState(false);
  const [replayId, setReplayId] = useState<string | null>(null);
  const path = { id: webhook.id };
  const send = async (): Promise<void> => {
    const nowMs = serverNowMs();
    const { status, type, code, since = webhook.created_at } = queryOf(search, nowMs);
    const body = { since, until: new Date(nowMs).toISOString(), status, type, code };
    setReplayId((await api.call('replayWebhook', { path, body })).id);
    setOpen(false);
    await reload('getWebhook', path);
  };
  const { q, ...filters } = search;
  return (
    <>
      {replayId !== null && <Progress webhookId={webhook.id} replayId={replayId} />}
      {isOffered && !q && isFiltered(filters) && (
        <Allowed to="replayWebhook">
          <p className="px-(--page-x) pb-2">
            <Button size="small" onClick={() => setOpen(true)}>
              Replay all matches…
            </Button>
          </p>
        </Allowed>
      )}
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title="Replay all matches?">
        <ActionForm action="Replay all" send={send}>
          <p>
            All deliveries that match the filter are sent again, oldest first, also those not shown
            yet. The period may have 50,000 deliveries at most.
          </p>
        </ActionForm>
      </Dialog>
    </>
  );
}

function Progress({ webhookId, replayId }: { webhookId: string; replayId: string }): ReactNode {
  const api = useApi();
  const replay = useQuery({
    ...api.query('getWebhookReplay', { path: { id: webhookId, replay_id: replayId } }),
    refetchInterval: ({ state }) => (state.data?.status === 'running' ? PROGRESS_MS : false),
  }).data;
  if (replay === undefined) return null;
  const { status, queued, total } = replay;
  const end = status === 'canceled' ? ' The webhook was disabled, which ended it.' : '';
  return (
    <p role="status" className="px-(--page-x) pb-2 text-sm text-muted tabular-nums">
      Replay: {queued.toLocaleString()} of {total.toLocaleString()} queued.{end}
    </p>
  );
}
