/** Why a webhook fails: its failures by response, the most frequent first, each with an example. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { useApi } from '../../api/scope.ts';
import { Time } from '../../ui/time.tsx';
import { failureGroups } from './failures.ts';

const READ = 100;
const EVERY_MS = 5_000;
/** Before all others. What waits for a failing endpoint is tried from the oldest on. */
const FIRST_ID = '00000000-0000-7000-8000-000000000000';

export function FailureList(props: { webhook: Webhook; show: (id: string) => void }): ReactNode {
  const { webhook, show } = props;
  const api = useApi();
  const path = { id: webhook.id };
  const isFailing = webhook.failing_since !== null;
  const pending = useQuery({
    ...api.query('listWebhookDeliveries', {
      path,
      query: { status: 'pending', before: FIRST_ID, limit: READ },
    }),
    refetchInterval: isFailing ? EVERY_MS : false,
  });
  const failed = useQuery(
    api.query('listWebhookDeliveries', { path, query: { status: 'failed', limit: READ } }),
  );
  const groups = failureGroups([...(pending.data?.data ?? []), ...(failed.data?.data ?? [])]);
  if (groups.length === 0) return null;
  return (
    <section aria-label="Failures" className="mx-4 mt-4 rounded-lg border border-line">
      <h2 className="px-4 pt-3 font-medium">Failures</h2>
      <ul className="divide-y divide-line">
        {groups.map(({ what, count, newest }) => (
          <li key={what}>
            <button
              type="button"
              onClick={() => show(newest.id)}
              className="flex w-full flex-wrap items-baseline gap-x-3 px-4 py-2 text-left text-sm hover:bg-hover"
            >
              <span className="min-w-0 grow font-mono text-xs break-all text-bad">{what}</span>
              <span className="text-muted tabular-nums">
                {count.toLocaleString()} {count === 1 ? 'delivery' : 'deliveries'}
                {newest.last_attempt && (
                  <>
                    , last <Time at={newest.last_attempt.at} />
                  </>
                )}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
