/** The webhook deliveries of one email, folded by endpoint: how many events each one has received. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { EmailWebhookDelivery } from '../../../../../sdk/src/api.ts';
import { useApi, useScope } from '../../../api/scope.ts';
import { Card } from '../../../ui/card.tsx';
import { Chip } from '../../../ui/chip.tsx';
import { DeliveryMark } from '../../../ui/delivery-mark.tsx';
import { Problem } from '../../../ui/states.tsx';
import { NextTime, Time } from '../../../ui/time.tsx';
import { answerOf, byEndpoint, type EndpointDeliveries } from './endpoint-deliveries.ts';

/** Milliseconds between reads while a delivery is pending. The email has no event when the delivery ends. */
const REFRESH_MS = 5_000;

/** Shows nothing when there are no deliveries. */
export function EmailWebhooks({ emailId }: { emailId: string }): ReactNode {
  const api = useApi();
  const deliveries = useQuery({
    ...api.query('listEmailWebhookDeliveries', { path: { id: emailId } }),
    refetchInterval: ({ state }) =>
      state.data?.data.some(({ status }) => status === 'pending') ? REFRESH_MS : false,
  });
  if (deliveries.isPending) return null;
  if (deliveries.isError) {
    return (
      <Card title="Webhooks">
        <Problem error={deliveries.error} retry={() => void deliveries.refetch()} />
      </Card>
    );
  }
  const { data, has_more: hasMore } = deliveries.data;
  if (data.length === 0) return null;
  const received = data.filter(({ status }) => status === 'delivered').length;
  const endpoints = byEndpoint(data);
  return (
    <Card
      title="Webhooks"
      // A single endpoint has the figures in its row.
      about={
        (endpoints.length > 1 || hasMore) &&
        `${received} of ${data.length}${hasMore ? ' latest' : ''} events received`
      }
      wide={endpoints.map((endpoint) => (
        <Endpoint key={endpoint.id} endpoint={endpoint} />
      ))}
    />
  );
}

function Endpoint({ endpoint }: { endpoint: EndpointDeliveries }): ReactNode {
  const { url, deliveries, receivedCount, tone, answer, nextAttemptAt } = endpoint;
  return (
    <details className="group border-line not-first:border-t">
      <summary className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm -outline-offset-2 before:mr-0! hover:bg-hover">
        <span className="min-w-0 grow basis-60 [overflow-wrap:anywhere] max-sm:basis-48">
          {url}
        </span>
        <span className="max-sm:pl-5">
          <Chip tone={tone}>
            {receivedCount} of {deliveries.length} received
            {answer !== null && `, ${answer}`}
          </Chip>
        </span>
        {nextAttemptAt !== null && (
          <span className="text-muted">
            next attempt <NextTime at={nextAttemptAt} />
          </span>
        )}
      </summary>
      <ul className="border-t border-line bg-sunken">
        {deliveries.map((delivery) => (
          <Row key={delivery.id} delivery={delivery} />
        ))}
      </ul>
    </details>
  );
}

function Row({ delivery }: { delivery: EmailWebhookDelivery }): ReactNode {
  const scope = useScope();
  const { id, webhook_id: webhookId, type, status, attempts, created_at: at } = delivery;
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-1.5 text-sm">
      <Link
        to="/$project/$environment/webhooks/$id"
        params={{ ...scope, id: webhookId }}
        search={{ delivery: id }}
        className="link grow"
      >
        {type}
      </Link>
      <DeliveryMark status={status} />
      {status !== 'delivered' && <span className="text-muted">{answerOf(delivery)}</span>}
      <span className="text-muted tabular-nums">
        {attempts} {attempts === 1 ? 'attempt' : 'attempts'}
      </span>
      <span className="min-w-16 text-right text-muted">
        <Time at={at} />
      </span>
    </li>
  );
}
