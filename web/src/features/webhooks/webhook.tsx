/** One webhook: its deliveries with their attempts, and the changes that can be made. */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Webhook, WebhookDelivery } from '../../../../sdk/src/api.ts';
import { useEvents } from '../../api/live.ts';
import { useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { DeliveryMark } from '../../ui/delivery-mark.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { PageHead } from '../../ui/page.tsx';
import { Code, Empty, Problem, RowsSkeleton } from '../../ui/states.tsx';
import { ListTable } from '../../ui/table.tsx';
import { inWords } from '../../lib/time.ts';
import { serverNowMs } from '../../lib/clock.ts';
import { Time } from '../../ui/time.tsx';
import { FailureList } from './failure-list.tsx';
import { resultOf } from './failures.ts';
import { EditForm, ReplayForm, RotateForm } from './webhook-forms.tsx';
import { WebhookMark } from './webhooks.tsx';

const ROUTE = '/$project/$environment/webhooks/$id';
const REFRESH_MS = 1_000;
const EVENTS_EVERY_MS = 2_000;
/** The service disables a failing webhook without an event. */
const STATE_MS = 5_000;

export function WebhookScreen(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const { id } = useParams({ from: ROUTE });
  const webhook = useQuery({
    ...api.query('getWebhook', { path: { id } }),
    refetchInterval: STATE_MS,
  });
  useEvents(api.scope, () => void reload('getWebhook', { id }), { everyMs: EVENTS_EVERY_MS });
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

type Open = 'test' | 'edit' | 'disable' | 'rotate' | 'replay' | 'remove' | null;

function Loaded({ webhook }: { webhook: Webhook }): ReactNode {
  const [open, setOpen] = useState<Open>(null);
  const { replay } = useSearch({ from: ROUTE });
  const isEnabled = webhook.status === 'enabled';
  return (
    <>
      <PageHead title={webhook.url} about={<WebhookMark webhook={webhook} />}>
        <Allowed to="deleteWebhook">
          <Button look="danger" onClick={() => setOpen('remove')}>
            Remove
          </Button>
        </Allowed>
        <Allowed to="updateWebhook">
          {isEnabled && <Button onClick={() => setOpen('disable')}>Disable</Button>}
          <Button onClick={() => setOpen('edit')}>Edit</Button>
        </Allowed>
        <Allowed to="rotateWebhookSecret">
          <Button onClick={() => setOpen('rotate')}>Rotate secret</Button>
        </Allowed>
        <Allowed to="replayWebhook">
          <Button onClick={() => setOpen('replay')}>Replay events</Button>
        </Allowed>
        <Allowed to="testWebhook">
          <Button onClick={() => setOpen('test')}>Send a test event</Button>
        </Allowed>
      </PageHead>
      {!isEnabled && <Disabled webhook={webhook} />}
      {replay !== undefined && <Progress webhook={webhook} replayId={replay} />}
      <Deliveries webhook={webhook} />
      <Dialogs webhook={webhook} open={open} close={() => setOpen(null)} />
    </>
  );
}

function Dialogs(props: { webhook: Webhook; open: Open; close: () => void }): ReactNode {
  const { webhook, open, close } = props;
  const api = useApi();
  const path = { id: webhook.id };
  return (
    <>
      <Dialog isOpen={open === 'test'} onClose={close} title="Send a test event">
        <ChangeForm change={() => api.call('testWebhook', { path })} action="Send" onDone={close}>
          Sends a signed test event.
        </ChangeForm>
      </Dialog>
      <Dialog isOpen={open === 'edit'} onClose={close} title="Edit this webhook">
        <EditForm webhook={webhook} onDone={close} />
      </Dialog>
      <Dialog isOpen={open === 'disable'} onClose={close} title="Disable this webhook?">
        <ChangeForm
          change={() => api.call('updateWebhook', { path, body: { status: 'disabled' } })}
          action="Disable"
          onDone={close}
        >
          Disabled endpoints receive no events. Pending deliveries fail. Missed events are not sent
          later.
        </ChangeForm>
      </Dialog>
      <Dialog isOpen={open === 'rotate'} onClose={close} title="Rotate signing secret">
        <RotateForm webhook={webhook} />
      </Dialog>
      <Dialog isOpen={open === 'replay'} onClose={close} title="Replay events">
        <ReplayForm webhook={webhook} onDone={close} />
      </Dialog>
      <Dialog isOpen={open === 'remove'} onClose={close} title="Remove this webhook?">
        <RemoveForm webhook={webhook} />
      </Dialog>
    </>
  );
}

function Disabled({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const enable = (): Promise<unknown> =>
    api.call('updateWebhook', { path: { id: webhook.id }, body: { status: 'enabled' } });
  return (
    <div className="m-4 mb-0 max-w-prose rounded-lg border border-line">
      <p className="px-4 pt-4">
        {webhook.disabled_reason ??
          'This webhook was disabled in the dashboard or through the API.'}{' '}
        It receives no events.
      </p>
      <Allowed to="updateWebhook">
        <ChangeForm change={enable} action="Enable">
          Enabling resets the failure count.
        </ChangeForm>
      </Allowed>
    </div>
  );
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
    <p role="status" className="flex flex-wrap items-center gap-3 px-4 pt-4 text-sm">
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

const SHOWN = [
  ['', 'All'],
  ['failed', 'Failed'],
  ['pending', 'Pending'],
] as const;

function Deliveries({ webhook }: { webhook: Webhook }): ReactNode {
  const navigate = useNavigate();
  const { status: chosen, delivery: openId } = useSearch({ from: ROUTE });
  const status = SHOWN.find(([name]) => name === chosen)?.[0] ?? '';
  const list = useList('listWebhookDeliveries', {
    path: { id: webhook.id },
    query: { status: status || undefined },
    isUnderWay: (one) => one.status === 'pending',
  });
  const show = (delivery: string | undefined): void =>
    void navigate({ to: '.', params: true, search: (all) => ({ ...all, delivery }) });
  return (
    <>
      <div className="flex flex-wrap items-center gap-3 px-4 py-3">
        <nav aria-label="Filter deliveries" className="flex rounded-md border border-line">
          {SHOWN.map(([name, label]) => (
            <Link
              key={name}
              to="."
              params={true}
              search={(all) => ({ ...all, status: name || undefined })}
              replace
              data-chosen={name === status || undefined}
              className="px-2.5 py-1 text-sm text-muted hover:text-text data-chosen:bg-chosen data-chosen:text-text"
            >
              {label}
            </Link>
          ))}
        </nav>
        {status === '' && <SuccessRate deliveries={list.rows} />}
      </div>
      {status === '' && <FailureList webhook={webhook} show={show} />}
      <ListTable
        label="Deliveries"
        list={list}
        keyOf={({ id }) => id}
        columns={[
          { title: 'State', cell: (delivery) => <DeliveryMark {...delivery} /> },
          {
            title: 'Event',
            cell: ({ id, type }) => (
              <button type="button" className="text-left hover:underline" onClick={() => show(id)}>
                {type}
              </button>
            ),
          },
          { title: 'Response', isWide: true, cell: (delivery) => <Result delivery={delivery} /> },
          { title: 'Attempts', isNumber: true, isWide: true, cell: ({ attempts }) => attempts },
          { title: 'Time', isNumber: true, cell: ({ created_at: at }) => <Time at={at} /> },
        ]}
        empty={
          <Empty title={status === '' ? 'No deliveries yet' : `No ${status} deliveries`}>
            {status === '' && <p>Every event of this project appears here as a delivery.</p>}
          </Empty>
        }
      />
      <Dialog isOpen={openId !== undefined} onClose={() => show(undefined)} title="Delivery">
        {openId !== undefined && (
          <Delivery webhookId={webhook.id} id={openId} onDone={() => show(undefined)} />
        )}
      </Dialog>
    </>
  );
}

/** The last response in one line, or how the delivery goes on before it was tried. */
function Result({ delivery }: { delivery: WebhookDelivery }): ReactNode {
  const result = resultOf(delivery);
  const { last_attempt: last, next_attempt_at: next } = delivery;
  if (result === null || last === null) {
    return <span className="text-muted">{next === null ? 'not tried' : 'not tried yet'}</span>;
  }
  return (
    <span className="flex max-w-md gap-2 font-mono text-xs" title={result}>
      <span className="truncate">{result}</span>
      <span className="shrink-0 text-muted">{inWords(last.latency_ms / 1000)}</span>
    </span>
  );
}

function SuccessRate({ deliveries }: { deliveries: readonly WebhookDelivery[] }): ReactNode {
  const ended = deliveries.filter(({ status }) => status !== 'pending');
  if (ended.length === 0) return null;
  const delivered = ended.filter(({ status }) => status === 'delivered').length;
  return (
    <span className="text-sm text-muted tabular-nums">
      {delivered} of the latest {ended.length} succeeded
    </span>
  );
}

function isPast(at: string): boolean {
  return Date.parse(at) < serverNowMs();
}

function ChangeForm(props: {
  change: () => Promise<unknown>;
  action: string;
  onDone?: () => void;
  children: ReactNode;
}): ReactNode {
  const reload = useReload();
  const send = async (): Promise<void> => {
    await props.change();
    await reload('listWebhooks');
    props.onDone?.();
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
    const { id, etag } = webhook;
    await api.call('deleteWebhook', { path: { id }, headers: { 'if-match': etag } });
    await navigate({ to: '/$project/$environment/webhooks', params: api.scope });
    await reload('listWebhooks');
  };
  return (
    <ActionForm action="Remove webhook" look="danger" send={remove}>
      <p>It no longer receives events. This cannot be undone.</p>
    </ActionForm>
  );
}

function Delivery(props: { webhookId: string; id: string; onDone: () => void }): ReactNode {
  const api = useApi();
  const may = useMay();
  const path = { id: props.webhookId, delivery_id: props.id };
  const delivery = useQuery({
    ...api.query('getWebhookDelivery', { path }),
    refetchInterval: ({ state }) => (state.data?.status === 'pending' ? REFRESH_MS : false),
  });
  if (delivery.isPending) return <RowsSkeleton rows={3} />;
  if (delivery.isError)
    return <Problem error={delivery.error} retry={() => void delivery.refetch()} />;
  const { log, payload, type, status, next_attempt_at: next } = delivery.data;
  const emailId = (payload?.data as { email_id?: string } | undefined)?.email_id;
  return (
    <>
      <div className="space-y-3 p-4">
        <p className="flex flex-wrap items-center gap-x-3">
          <DeliveryMark status={status} />
          <span className="font-medium">{type}</span>
          {emailId && (
            <Link
              to="/$project/$environment/emails/$id"
              params={{ ...api.scope, id: emailId }}
              className="text-accent underline"
            >
              Show email
            </Link>
          )}
        </p>
        <ol aria-label="Attempts" className="space-y-1 text-sm">
          {log.map(({ at, status: statusCode, latency_ms: ms, error, answer }) => (
            <li key={at}>
              <Time at={at} />, {statusCode ?? 'no response'}, {inWords(ms / 1000)}
              {error && <span className="block text-bad">{error}</span>}
              {answer && (
                <span className="block font-mono text-xs break-all text-muted">{answer}</span>
              )}
            </li>
          ))}
          {next !== null && (
            <li className="text-muted">
              {isPast(next) ? (
                'The next attempt is due, and waits for its turn.'
              ) : (
                <>
                  Next attempt <Time at={next} />
                </>
              )}
            </li>
          )}
        </ol>
        {payload && <Code what="payload" text={JSON.stringify(payload, null, 2)} />}
      </div>
      {may('replayWebhookDelivery') && (
        <ChangeForm
          change={() => api.call('replayWebhookDelivery', { path })}
          action="Replay"
          onDone={props.onDone}
        >
          Sends the same event with the same ID.
        </ChangeForm>
      )}
    </>
  );
}
