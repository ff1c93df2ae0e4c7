/**
 * A debugger for one webhook: the response of the receiver and its start, the reasons why deliveries fail, and each
 * delivery.
 */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Crumb, PageBody, PageHead } from '../../ui/page.tsx';
import { PageState, Problem } from '../../ui/states.tsx';
import { Deliveries } from './deliveries.tsx';
import { type OpenDialog, WebhookDialogs } from './dialogs.tsx';
import { stateOf } from './responses.ts';
import { FailuresCard, StatisticsCard } from './statistics.tsx';
import { WebhookVerdict } from './verdict.tsx';
import { WebhookMark } from './webhooks.tsx';

const ROUTE = '/$project/$environment/webhooks/$id';
const REFRESH_MS = 1_000;
/** The service suspends and disables a failing webhook without an event. */
const STATE_MS = 5_000;
/** Statistics read many deliveries. */
const STATISTICS_MS = 10_000;

export function WebhookScreen(): ReactNode {
  const api = useApi();
  const { id } = useParams({ from: ROUTE });
  const webhook = useQuery({
    ...api.query('getWebhook', { path: { id } }),
    refetchInterval: STATE_MS,
  });
  if (webhook.isSuccess) return <Loaded webhook={webhook.data} />;
  return (
    <>
      <PageHead title="Webhook" crumb={<ToWebhooks />} />
      <PageState query={webhook} />
    </>
  );
}

function ToWebhooks(): ReactNode {
  const { scope } = useApi();
  return (
    <Crumb to="/$project/$environment/webhooks" params={scope}>
      Webhooks
    </Crumb>
  );
}

function Loaded({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const may = useMay();
  const [open, setOpen] = useState<OpenDialog>(null);
  const { replay } = useSearch({ from: ROUTE });
  const { data: statistics } = useQuery({
    ...api.query('getWebhookStatistics', { path: { id: webhook.id } }),
    refetchInterval: STATISTICS_MS,
  });
  return (
    <>
      <PageHead
        title={webhook.url}
        crumb={<ToWebhooks />}
        about={
          <span className="flex flex-wrap items-center gap-x-3 text-sm">
            <WebhookMark webhook={webhook} size="big" />
            <span>{eventsOf(webhook)}</span>
          </span>
        }
        secondary={
          may('testWebhook') && <Button onClick={() => setOpen('test')}>Send a test event</Button>
        }
        more={[
          { label: 'Check a signature', onChoose: () => setOpen('signature') },
          may('replayWebhook') && { label: 'Replay events', onChoose: () => setOpen('replay') },
          may('updateWebhook') && { label: 'Edit', onChoose: () => setOpen('edit') },
          may('rotateWebhookSecret') && {
            label: 'Rotate secret',
            onChoose: () => setOpen('rotate'),
          },
          may('updateWebhook') &&
            webhook.status === 'enabled' && {
              label: 'Disable',
              onChoose: () => setOpen('disable'),
            },
          may('deleteWebhook') && {
            label: 'Remove',
            isDestructive: true,
            onChoose: () => setOpen('remove'),
          },
        ]}
      />
      <PageBody>
        <WebhookVerdict
          webhook={webhook}
          statistics={statistics}
          onReplay={() => setOpen('replay')}
        />
        {replay !== undefined && <Progress webhook={webhook} replayId={replay} />}
        <Evidence webhook={webhook} statistics={statistics} />
        <Deliveries webhook={webhook} />
      </PageBody>
      <WebhookDialogs webhook={webhook} open={open} close={() => setOpen(null)} />
    </>
  );
}

/** While the webhook fails, its failures come before its rates. */
function Evidence(
  props: Pick<Parameters<typeof WebhookVerdict>[0], 'webhook' | 'statistics'>,
): ReactNode {
  const { webhook, statistics } = props;
  const show = useShowDelivery();
  if (statistics === undefined) return null;
  const failures = <FailuresCard failures={statistics.failures} onShow={show} />;
  const isFailing = stateOf(webhook) === 'failing';
  return (
    <>
      {isFailing && failures}
      <StatisticsCard statistics={statistics} />
      {!isFailing && failures}
    </>
  );
}

function useShowDelivery(): (delivery: string) => void {
  const navigate = useNavigate();
  return (delivery) =>
    void navigate({ to: '.', params: true, search: (all) => ({ ...all, delivery }) });
}

function eventsOf({ events }: Webhook): string {
  if (events === null) return 'All events';
  return events.length <= 3 ? events.join(', ') : `${events.length} types of events`;
}

function Progress({ webhook, replayId }: { webhook: Webhook; replayId: string }): ReactNode {
  const api = useApi();
  const replay = useQuery({
    ...api.query('getWebhookReplay', { path: { id: webhook.id, replay_id: replayId } }),
    refetchInterval: ({ state }) => (state.data?.status === 'running' ? REFRESH_MS : false),
  });
  if (replay.isPending) return null;
  if (replay.isError) return <Problem error={replay.error} retry={() => void replay.refetch()} />;
  const { status, total, queued } = replay.data;
  const words = { running: 'Replaying', completed: 'Replayed', canceled: 'Canceled' };
  return (
    <p role="status" className="flex flex-wrap items-center gap-3 text-sm">
      <span className="tabular-nums">
        {words[status]}: {queued} of {total} {total === 1 ? 'delivery' : 'deliveries'}
      </span>
      {status === 'running' && (
        <progress
          value={queued}
          max={Math.max(1, total)}
          aria-label="Progress"
          className="accent-accent"
        />
      )}
      <Link to="." params={true} search={(all) => ({ ...all, replay: undefined })} replace>
        Hide
      </Link>
    </p>
  );
}
