/** Reads the queue: every few seconds where it is watched, else as other figures (api/stream/live-data.ts). */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useApi } from '../../api/scope.ts';

export type QueueScopeName = 'project' | 'organization';

const REFRESH_MS = 3_000;
/** Waiting mail ages without events. */
const SUMMARY_REFRESH_MS = 60_000;
/** An estimate takes the service a tenth of a second, and changes slowly. */
const ESTIMATE_REFRESH_MS = 15_000;

export function refreshMs(report: { is_estimate: boolean } | undefined): number {
  return report?.is_estimate === true ? ESTIMATE_REFRESH_MS : REFRESH_MS;
}

export function useQueue(scope: QueueScopeName, { isWatched = false } = {}) {
  const api = useApi();
  return useQuery({
    ...api.query('getQueue', { query: { scope } }),
    refetchInterval: ({ state }) => (isWatched ? refreshMs(state.data) : SUMMARY_REFRESH_MS),
    placeholderData: keepPreviousData,
  });
}
