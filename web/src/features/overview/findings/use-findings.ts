/** Reads what needs attention from the public API, and what members snoozed. */
import { useQueries, useQuery } from '@tanstack/react-query';
import type { Snooze } from '../../../../../sdk/src/api.ts';
import { useApi } from '../../../api/scope.ts';
import { serverNowMs } from '../../../lib/clock.ts';
import { useMay } from '../../../ui/allowed.tsx';
import { countParts, type CountedPart } from '../figures/figures.ts';
import { periodOf, statsTimes } from '../periods/periods.ts';
import { type Finding, findingsOf, type RateLimits, rateLimitsOf } from './findings.ts';

/** Conditions and snoozes change without an event of the project. */
const EVERY_MS = 30_000;
const SNOOZES_EVERY_MS = 300_000;

export type Attention = {
  /** Those that need somebody, then those that can wait. */
  findings: Finding[];
  snoozed: { finding: Finding; snooze: Snooze }[];
  hours: CountedPart[];
  limits: RateLimits | null;
  isPending: boolean;
};

export function useFindings(): Attention {
  const api = useApi();
  const may = useMay();
  const nowMs = serverNowMs();
  const day = periodOf(undefined, nowMs);
  const [domains, webhooks, limits, conditions, ready, snoozes, queue] = useQueries({
    queries: [
      api.query('listDomains', { query: { limit: 100 } }),
      api.query('listWebhooks', { query: { limit: 100 } }),
      api.query('getLimits'),
      {
        ...api.query('listOperatorConditions'),
        // Without the scope: the conditions of the installation are the same in all projects.
        queryKey: ['listOperatorConditions'],
        enabled: may('listOperatorConditions'),
        refetchInterval: EVERY_MS,
      },
      api.query('getReadiness'),
      { ...api.query('listSnoozes'), refetchInterval: SNOOZES_EVERY_MS },
      api.query('getQueue', { query: { scope: 'project' } }),
    ],
  });
  const stats = useQuery(api.query('getStats', { query: statsTimes(day) }));
  const hours = countParts(stats.data, day.parts, nowMs);
  const all = findingsOf({
    isOnHold: ready.data?.on_hold === true,
    conditions: conditions.data?.data ?? [],
    projectId: api.scope.project,
    domains: domains.data?.data ?? [],
    webhooks: webhooks.data?.data ?? [],
    providers: queue.data?.providers ?? [],
    limits: limits.data,
    hours,
    nowMs,
  });
  const snoozeOf = new Map(
    (snoozes.data?.data ?? [])
      .filter(({ until }) => Date.parse(until) > nowMs)
      .map((snooze) => [snooze.id, snooze]),
  );
  return {
    findings: all.filter(({ id }) => !snoozeOf.has(id)),
    snoozed: all.flatMap((finding) => {
      const snooze = snoozeOf.get(finding.id);
      return snooze === undefined ? [] : [{ finding, snooze }];
    }),
    hours,
    limits: rateLimitsOf(limits.data),
    isPending: [domains, webhooks, limits, snoozes, queue, stats].some((one) => one.isPending),
  };
}
