/** Reads what needs attention from the public lists. */
import { useQueries } from '@tanstack/react-query';
import { useApi } from '../../api/scope.ts';
import { useMay } from '../../ui/allowed.tsx';
import { useQueue } from '../queue/use-queue.ts';
import { type Finding, findingsOf } from './findings.ts';

const CONDITIONS_EVERY_MS = 30_000;

export function useAttention(): { findings: Finding[]; isPending: boolean } {
  const api = useApi();
  const isOperator = useMay()('listOperatorConditions');
  const queue = useQueue('project');
  const [domains, webhooks, stats, limits, conditions, ready] = useQueries({
    queries: [
      api.query('listDomains', { query: { limit: 100 } }),
      api.query('listWebhooks', { query: { limit: 100 } }),
      api.query('getStats', { query: { granularity: 'hour' } }),
      api.query('getLimits'),
      {
        ...api.query('listOperatorConditions'),
        // Without the scope: the conditions of the installation are the same in all projects.
        queryKey: ['listOperatorConditions'],
        enabled: isOperator,
        refetchInterval: CONDITIONS_EVERY_MS,
      },
      api.query('getReadiness'),
    ],
  });
  const findings = findingsOf({
    isOnHold: ready.data?.on_hold === true,
    conditions: conditions.data?.data ?? [],
    projectId: api.scope.project,
    domains: domains.data?.data ?? [],
    webhooks: webhooks.data?.data ?? [],
    providers: queue.data?.providers ?? [],
    limits: limits.data,
    stats: stats.data,
  });
  return { findings, isPending: domains.isPending || webhooks.isPending || stats.isPending };
}
