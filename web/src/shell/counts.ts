/** Counts for the navigation of things that wait or fail. Nothing else is counted there. */
import { useQuery } from '@tanstack/react-query';
import { useApi } from '../api/scope.ts';
import type { Tone } from '../ui/tone.ts';
import { useMay } from '../ui/allowed.tsx';

export type CountName = 'waiting' | 'failing';

export type Count = { value: number; tone: Tone; isEstimate: boolean };

const EVERY_MS = 60_000;
const WEBHOOKS_MAX = 100;

/** The counts above 0. A count that cannot be read is left out: the screen itself says why. */
export function useCounts(): Partial<Record<CountName, Count>> {
  const api = useApi();
  const may = useMay();
  const { data: queue } = useQuery({
    ...api.query('getQueue', { query: { scope: 'project' } }),
    enabled: may('getQueue'),
    refetchInterval: EVERY_MS,
  });
  const { data: webhooks } = useQuery({
    ...api.query('listWebhooks', { query: { limit: WEBHOOKS_MAX } }),
    enabled: may('listWebhooks'),
    refetchInterval: EVERY_MS,
  });
  const waiting = queue?.waiting ?? 0;
  const failing = (webhooks?.data ?? []).filter(
    ({ failing_since: since, disabled_reason: reason }) => since !== null || reason !== null,
  ).length;
  return {
    ...(waiting > 0 && {
      waiting: { value: waiting, tone: 'quiet', isEstimate: queue?.is_estimate === true },
    }),
    ...(failing > 0 && { failing: { value: failing, tone: 'bad', isEstimate: false } }),
  };
}
