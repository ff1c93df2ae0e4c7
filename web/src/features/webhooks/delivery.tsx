/** One delivery of a webhook beside the list: its attempts with their responses, and the signed payload. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { WebhookDeliveryDetail } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { serverNowMs } from '../../lib/clock.ts';
import { inWords } from '../../lib/time.ts';
import { RecipientLink } from '../../ui/recipient-link.tsx';
import { useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { DeliveryMark } from '../../ui/delivery-mark.tsx';
import { Drawer } from '../../ui/drawer.tsx';
import { EmailLink } from '../../ui/email-link.tsx';
import { Code, Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { CodeChip } from './statistics.tsx';
import { useAction } from './use-action.ts';

const REFRESH_MS = 1_000;

type Ids = { webhookId: string; id: string };

export function DeliveryDrawer(props: Ids & { onClose: () => void }): ReactNode {
  const { webhookId, id, onClose } = props;
  const api = useApi();
  const path = { id: webhookId, delivery_id: id };
  const delivery = useQuery({
    ...api.query('getWebhookDelivery', { path }),
    refetchInterval: ({ state }) => (state.data?.status === 'pending' ? REFRESH_MS : false),
  });
  const { button, failure } = useReplay({ webhookId, id, onDone: onClose });
  return (
    <Drawer title="Delivery" actions={delivery.isSuccess && button} onClose={onClose}>
      {failure !== null && (
        <p role="alert" className="px-5 pt-4 text-sm text-bad">
          {failure}
        </p>
      )}
      {delivery.isPending && <RowsSkeleton rows={3} />}
      {delivery.isError && <Problem error={delivery.error} retry={() => void delivery.refetch()} />}
      {delivery.isSuccess && <Detail delivery={delivery.data} />}
    </Drawer>
  );
}

function Detail({ delivery }: { delivery: WebhookDeliveryDetail }): ReactNode {
  const { payload } = delivery;
  return (
    <div className="space-y-5 p-5">
      <DeliveryFacts delivery={delivery} />
      <Attempts delivery={delivery} />
      {payload ? (
        <section aria-labelledby="payload" className="space-y-2">
          <h3 id="payload" className="font-semibold">
            Payload
          </h3>
          <Code what="payload" text={JSON.stringify(payload, null, 2)} />
        </section>
      ) : (
        <p className="text-sm text-muted">
          The event was removed after its retention, so it cannot be replayed.
        </p>
      )}
    </div>
  );
}

function DeliveryFacts({ delivery }: { delivery: WebhookDeliveryDetail }): ReactNode {
  const { payload, type, status, id, email_id: emailId, recipient } = delivery;
  const facts: [string, ReactNode][] = [
    ['Status', <DeliveryMark status={status} />],
    ['Event', type],
  ];
  if (recipient !== null) facts.push(['Recipient', <RecipientLink address={recipient} />]);
  if (emailId !== null) {
    facts.push(['Email', <EmailLink id={emailId}>{subjectIn(payload?.data)}</EmailLink>]);
  }
  facts.push([
    'Delivery id',
    <span className="flex items-center gap-1" title="The header webhook-id of every attempt">
      <code className="min-w-0 font-mono text-xs break-all">{id}</code>
      <span className="-my-1 shrink-0">
        <CopyButton text={id} what="delivery id" />
      </span>
    </span>,
  ]);
  return (
    <dl className="space-y-1 text-sm">
      {facts.map(([name, value]) => (
        <div key={name} className="flex items-baseline gap-3">
          <dt className="w-20 shrink-0 text-muted">{name}</dt>
          <dd className="min-w-0 break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function subjectIn(data: unknown): string {
  const { subject } = (data ?? {}) as { subject?: unknown };
  return typeof subject === 'string' && subject !== '' ? subject : 'Show email';
}

/** The button that sends the event again; null where the role does not permit it. */
function useReplay({ webhookId, id, onDone }: Ids & { onDone: () => void }): {
  button: ReactNode;
  failure: string | null;
} {
  const api = useApi();
  const reload = useReload();
  const may = useMay();
  const { run, isRunning, failure } = useAction();
  const replay = async (): Promise<void> => {
    await api.call('replayWebhookDelivery', { path: { id: webhookId, delivery_id: id } });
    await reload('listWebhooks');
    onDone();
  };
  const button = may('replayWebhookDelivery') && (
    <Button
      disabled={isRunning}
      title="Sends the same event with the same ID"
      onClick={() => run(replay)}
    >
      Replay
    </Button>
  );
  return { button, failure };
}

function Attempts({ delivery }: { delivery: WebhookDeliveryDetail }): ReactNode {
  const { log, next_attempt_at: next } = delivery;
  return (
    <section aria-labelledby="attempts" className="space-y-2">
      <h3 id="attempts" className="font-semibold">
        {delivery.attempts === 1 ? '1 attempt' : `${delivery.attempts} attempts`}
      </h3>
      <ol aria-label="Attempts" className="space-y-2 text-sm">
        {log.toReversed().map(({ at, status, latency_ms: ms, error, answer }) => (
          <li key={at} className="rounded-lg border border-line px-3 py-2">
            <div className="flex flex-wrap items-center gap-x-3">
              <CodeChip attempt={{ status }} />
              <Time at={at} />
              <span className="text-muted tabular-nums">{inWords(ms / 1000)}</span>
            </div>
            {error && <p className="mt-1 text-muted">{error}</p>}
            {answer && (
              <pre
                tabIndex={0}
                aria-label="Response"
                className="mt-1 max-h-40 overflow-auto font-mono text-xs break-all whitespace-pre-wrap text-muted"
              >
                {answer}
              </pre>
            )}
          </li>
        ))}
      </ol>
      {next !== null && (
        <p className="text-sm text-muted">
          {Date.parse(next) < serverNowMs() ? (
            'The next attempt is due, and waits for its turn.'
          ) : (
            <>
              Next attempt <Time at={next} />
            </>
          )}
        </p>
      )}
    </section>
  );
}
