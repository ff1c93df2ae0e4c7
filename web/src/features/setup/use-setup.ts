/**
 * Reads the facts that decide the steps of the setup, in both environments of the project, and again after each step.
 */
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { apiOf, useApi } from '../../api/scope.ts';
import { useMay } from '../../ui/allowed.tsx';
import type { Facts } from './steps.ts';

/** Milliseconds. A first email is seen soon, and nobody leaves this page open for long. */
const OFTEN_MS = 4_000;
const SELDOM_MS = 15_000;

export function useSetup(): {
  facts: Facts;
  isPending: boolean;
  error: unknown;
  checkedAtMs: number;
} {
  const { scope } = useApi();
  const may = useMay();
  const [test, live] = useMemo(
    () => [
      apiOf({ project: scope.project, environment: 'test' as const }),
      apiOf({ project: scope.project, environment: 'live' as const }),
    ],
    [scope.project],
  );
  const isOwner = may('getDoctor');
  const newest = { query: { limit: 1 } };
  const all = { query: { limit: 100 } };
  const often = { refetchInterval: OFTEN_MS };
  const seldom = { refetchInterval: SELDOM_MS };
  const keys = useQuery({
    ...test.query('listApiKeys', all),
    ...often,
    enabled: may('listApiKeys'),
  });
  const testEmails = useQuery({ ...test.query('listEmails', newest), ...often });
  const liveEmails = useQuery({ ...live.query('listEmails', newest), ...often });
  // A newer one that is queued, canceled or bounced does not undo the step.
  const arrived = useQuery({
    ...live.query('listEmails', { query: { limit: 1, status: 'delivered' } }),
    ...often,
  });
  const domains = useQuery({ ...live.query('listDomains', all), ...often });
  const testHooks = useQuery({ ...test.query('listWebhooks', all), ...seldom });
  const liveHooks = useQuery({ ...live.query('listWebhooks', all), ...seldom });
  const doctor = useQuery({ ...live.query('getDoctor'), ...often, enabled: isOwner });
  const status = useQuery({ ...live.query('getStatus'), ...seldom, enabled: isOwner });
  const variables = useQuery({ ...live.query('listVariables'), enabled: isOwner });
  const needed = [testEmails, liveEmails, arrived, domains, testHooks, liveHooks];
  const facts: Facts = {
    isOwner,
    doctor: doctor.data,
    status: status.data,
    variables: variables.data?.data,
    keys: keys.data?.data,
    domains: domains.data?.data ?? [],
    webhooks: [...(liveHooks.data?.data ?? []), ...(testHooks.data?.data ?? [])],
    testEmail: testEmails.data?.data[0],
    liveEmail: arrived.data?.data[0] ?? liveEmails.data?.data[0],
  };
  return {
    facts,
    isPending: needed.some((one) => one.isPending) || (isOwner && doctor.isPending),
    error: needed.find((one) => one.error !== null)?.error ?? null,
    checkedAtMs: Math.max(...needed.map(({ dataUpdatedAt }) => dataUpdatedAt)),
  };
}
