/** Lists of the API, page by page. */
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { queryText } from './client.ts';
import { useApi } from './scope.ts';

const PAGE = 50;
const REFRESH_MS = 3_000;

type Page<Row> = { data: Row[]; has_more: boolean };

/**
 * @param cursor what `after` takes of a row
 * @param isUnderWay whether a row changes soon by itself, without an event: the list is then read again
 */
export function useList<Row>(
  path: string,
  cursor: (row: Row) => string,
  filter: Record<string, string | undefined> = {},
  isUnderWay: (row: Row) => boolean = () => false,
) {
  const api = useApi();
  const query = useInfiniteQuery({
    queryKey: [...api.key, path, filter],
    queryFn: ({ pageParam, signal }) =>
      api.get<Page<Row>>(
        `${path}${queryText({ ...filter, limit: PAGE, after: pageParam })}`,
        signal,
      ),
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ data }) => data.some(isUnderWay)) ? REFRESH_MS : false,
    initialPageParam: null as string | null,
    getNextPageParam: ({ data, has_more: hasMore }) => {
      const last = data.at(-1);
      return hasMore && last !== undefined ? cursor(last) : null;
    },
  });
  return { ...query, rows: query.data?.pages.flatMap((page) => page.data) ?? [] };
}

/** Reads what begins with this path again, after a change of it. */
export function useReload(): (path: string) => Promise<void> {
  const api = useApi();
  const cache = useQueryClient();
  return (path) =>
    cache.invalidateQueries({
      predicate: ({ queryKey: [project, environment, name] }) =>
        project === api.key[0] && environment === api.key[1] && String(name).startsWith(path),
    });
}

export type List<Row> = ReturnType<typeof useList<Row>>;
