/** One webhook: its deliveries with every attempt, a test event, sending one again. */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Webhook, WebhookDelivery, WebhookDeliveryDetail } from '../../../sdk/src/api.ts';
import { useList, useReload } from '../api/list.ts';
import { useApi } from '../api/scope.ts';
import { ActionForm } from '../ui/action-form.tsx';
import { Allowed } from '../ui/allowed.tsx';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Mark } from '../ui/mark.tsx';
import { PageHead } from '../ui/page.tsx';
import { Code, Empty, Problem, RowsSkeleton } from '../ui/states.tsx';
import { ListTable } from '../ui/table.tsx';
import { inWords, Time } from '../ui/time.tsx';
import { WebhookMark } from './webhooks.tsx';

const LOOKS = { pending: 'wait', delivered: 'good', failed: 'bad' } as const;

export function WebhookScreen(): ReactNode {
  const api = useApi();
  const { id } = useParams({ from: '/$project/$environment/webhooks/$id' });
  const path = `/v1/webhooks/${id}`;
  const webhook = useQuery({
    queryKey: [...api.key, path],
    queryFn: ({ signal }) => api.get<Webhook>(path, signal),
  });
  return (
    <>
      <Link
        to="/$project/$environment/webhooks"
        params={api.scope}
        className="mx-4 mt-3 inline-flex items-center gap-1 text-sm text-muted hover:text-text"
      >
        <ArrowLeft size={14} aria-hidden /> Webhooks
      </Link>
      {webhook.isPending && <RowsSkeleton />}
      {webhook.isError && <Problem error={webhook.error} retry={() => void webhook.refetch()} />}
      {webhook.isSuccess && <Loaded webhook={webhook.data} />}
    </>
  );
}

type Open = { kind: 'test' } | { kind: 'remove' } | { kind: 'delivery'; id: string } | null;

function Loaded({ webhook }: { webhook: Webhook }): ReactNode {
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const path = `/v1/webhooks/${webhook.id}/deliveries`;
  const list = useList<WebhookDelivery>(path, ({ id }) => id);
  return (
    <>
      <PageHead title={webhook.url} about={<WebhookMark webhook={webhook} />}>
        <Allowed to="deleteWebhook">
          <Button look="danger" onClick={() => setOpen({ kind: 'remove' })}>
            Remove
          </Button>
        </Allowed>
        <Allowed to="testWebhook">
          <Button onClick={() => setOpen({ kind: 'test' })}>Send a test event</Button>
        </Allowed>
      </PageHead>
      {webhook.disabled_reason !== null && (
        <p className="px-4 pt-4 text-sm text-bad">{webhook.disabled_reason}</p>
      )}
      <ListTable
        label="Deliveries"
        list={list}
        keyOf={({ id }) => id}
        columns={[
          { title: 'State', cell: ({ status }) => <Mark look={LOOKS[status]}>{status}</Mark> },
          {
            title: 'Event',
            cell: ({ id, type }) => (
              <button
                type="button"
                className="text-left hover:underline"
                onClick={() => setOpen({ kind: 'delivery', id })}
              >
                {type}
              </button>
            ),
          },
          { title: 'Attempts', isNumber: true, isWide: true, cell: ({ attempts }) => attempts },
          { title: 'Time', isNumber: true, cell: ({ created_at: at }) => <Time at={at} /> },
        ]}
        empty={
          <Empty title="No deliveries yet">
            <p>Each event of this project becomes a delivery here.</p>
          </Empty>
        }
      />
      <Dialog isOpen={open?.kind === 'test'} onClose={close} title="Send a test event">
        <ChangeForm path={`/v1/webhooks/${webhook.id}/test`} action="Send" onDone={close}>
          An event without meaning, signed like all others.
        </ChangeForm>
      </Dialog>
      <Dialog isOpen={open?.kind === 'remove'} onClose={close} title="Remove this webhook?">
        <RemoveForm webhook={webhook} />
      </Dialog>
      <Dialog isOpen={open?.kind === 'delivery'} onClose={close} title="Delivery">
        {open?.kind === 'delivery' && <Delivery path={`${path}/${open.id}`} onDone={close} />}
      </Dialog>
    </>
  );
}

function ChangeForm(props: {
  path: string;
  action: string;
  onDone: () => void;
  children: ReactNode;
}): ReactNode {
  const api = useApi();
  const reload = useReload();
  const send = async (): Promise<void> => {
    await api.send('POST', props.path);
    await reload('/v1/webhooks');
    props.onDone();
  };
  return (
    <ActionForm action={props.action} send={send}>
      <p>{props.children}</p>
    </ActionForm>
  );
}

function RemoveForm({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const remove = async (): Promise<void> => {
    await api.send('DELETE', `/v1/webhooks/${webhook.id}`);
    await navigate({ to: '/$project/$environment/webhooks', params: api.scope });
    await reload('/v1/webhooks');
  };
  return (
    <ActionForm action="Remove the webhook" look="danger" send={remove}>
      <p>It is notified of nothing any more. This cannot be undone.</p>
    </ActionForm>
  );
}

/** What was sent, and what each attempt was answered. */
function Delivery({ path, onDone }: { path: string; onDone: () => void }): ReactNode {
  const api = useApi();
  const delivery = useQuery({
    queryKey: [...api.key, path],
    queryFn: ({ signal }) => api.get<WebhookDeliveryDetail>(path, signal),
  });
  if (delivery.isPending) return <RowsSkeleton rows={3} />;
  if (delivery.isError)
    return <Problem error={delivery.error} retry={() => void delivery.refetch()} />;
  const { log, payload, type } = delivery.data;
  return (
    <>
      <div className="space-y-3 p-4">
        <p className="font-medium">{type}</p>
        <ol className="space-y-1 text-sm">
          {log.map(({ at, status, latency_ms: ms, error, answer }) => (
            <li key={at}>
              <Time at={at} />, {status ?? 'no response'}, {inWords(ms / 1000)}
              {error && <span className="block text-bad">{error}</span>}
              {answer && (
                <span className="block font-mono text-xs break-all text-muted">{answer}</span>
              )}
            </li>
          ))}
        </ol>
        {payload && <Code what="payload" text={JSON.stringify(payload, null, 2)} />}
      </div>
      <Allowed to="replayWebhookDelivery">
        <ChangeForm path={`${path}/replay`} action="Send again" onDone={onDone}>
          The same event with the same id.
        </ChangeForm>
      </Allowed>
    </>
  );
}
