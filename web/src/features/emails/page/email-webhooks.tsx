/** The webhook deliveries of one email, newest first. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useApi } from '../../../api/scope.ts';
import { DeliveryMark } from '../../../ui/delivery-mark.tsx';
import { Problem } from '../../../ui/states.tsx';
import { Time } from '../../../ui/time.tsx';

/** Milliseconds between reads while a delivery is pending. The email has no event when the delivery ends. */
const REFRESH_MS = 5_000;

/** @param around wraps the deliveries, if there are any */
export function EmailWebhooks(props: {
  emailId: string;
  around: (deliveries: ReactNode) => ReactNode;
}): ReactNode {
  const api = useApi();
  const deliveries = useQuery({
    ...api.query('listEmailWebhookDeliveries', { path: { id: props.emailId } }),
    refetchInterval: ({ state }) =>
      state.data?.data.some(({ status }) => status === 'pending') ? REFRESH_MS : false,
  });
  if (deliveries.isPending) return null;
  if (deliveries.isError) {
    return props.around(
      <Problem error={deliveries.error} retry={() => void deliveries.refetch()} />,
    );
  }
  const { data, has_more: hasMore } = deliveries.data;
  if (data.length === 0) return null;
  return props.around(
    <>
      <ul className="divide-y divide-line rounded-lg border border-line text-sm">
        {data.map(({ id, webhook_id: webhookId, webhook_url: url, ...delivery }) => (
          <li
            key={`${id} ${webhookId}`}
            className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2"
          >
            <DeliveryMark status={delivery.status} />
            <Link
              to="/$project/$environment/webhooks/$id"
              params={{ ...api.scope, id: webhookId }}
              search={{ delivery: id }}
              className="hover:underline"
            >
              {delivery.type}
            </Link>
            <span className="min-w-0 grow font-mono text-xs break-all text-muted">{url}</span>
            <span className="text-muted tabular-nums">
              {delivery.attempts} {delivery.attempts === 1 ? 'attempt' : 'attempts'}
            </span>
            <Time at={delivery.created_at} />
          </li>
        ))}
      </ul>
      {hasMore && <p className="mt-1 text-sm text-muted">The latest 100 are shown.</p>}
    </>,
  );
}
