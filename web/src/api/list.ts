/** Lists of the API, page by page. */
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { callWith } from './client.ts';
import {
  type ListId,
  pathOf,
  type PathValues,
  type Query,
  type ReadId,
  type Row,
} from './operations.ts';
import { type Api, useApi } from './scope.ts';

/** `scanned_until`: how far a search has read, when it stopped before the page was full. */
type Page<Item> = { data: Item[]; has_more: boolean; scanned_until?: string | null };

const PAGE = 50;
const REFRESH_MS = 3_000;

type Options<Id extends ListId> = {
  path?: PathValues<Id>;
  query?: Query<Id>;
  /** Returns the value of `after` for a row. Default: its id. */
  cursor?: (row: Row<Id>) => string;
  /** Returns whether a row changes soon without an event, so that the list is read again. */
  isUnderWay?: (row: Row<Id>) => boolean;
};

export function useList<Id extends ListId>(id: Id, options: Options<Id> = {}) {
  const { path, query = {}, cursor = idOf, isUnderWay = () => false } = options;
  const api = useApi();
  const list = useInfiniteQuery({
    queryKey: [...api.key, pathOf(id, path), query, 'pages'],
    queryFn: async ({ pageParam, signal }) => {
      const parts = { path, query: { ...query, limit: PAGE, after: pageParam } };
      return (await callWith(id, { ...parts, scope: api.scope, signal })) as Page<Row<Id>>;
    },
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ data }) => data.some(isUnderWay)) ? REFRESH_MS : false,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ data, has_more: hasMore, scanned_until: scanned }) => {
      const last = data.at(-1);
      return hasMore ? (scanned ?? (last && cursor(last))) : undefined;
    },
  });
  return { ...list, rows: list.data?.pages.flatMap((page) => page.data) ?? [] };
}

function idOf(row: object): string {
  return String((row as { id?: string }).id);
}

const FIND_PAGE = 100;

/** Reads a list until a row is found, for objects that cannot be read alone. */
export async function findInList<Id extends ListId>(
  api: Api,
  id: Id,
  isWanted: (row: Row<Id>) => boolean,
): Promise<Row<Id> | undefined> {
  let after: string | undefined;
  do {
    const parts = { query: { limit: FIND_PAGE, after }, scope: api.scope };
    const page = (await callWith(id, parts)) as Page<Row<Id>>;
    const found = page.data.find(isWanted);
    if (found !== undefined) return found;
    after = page.has_more ? idOf(page.data.at(-1) ?? {}) : undefined;
  } while (after !== undefined);
  return undefined;
}

type PathArgument<Id extends ReadId> = [keyof PathValues<Id>] extends [never]
  ? []
  : [path: PathValues<Id>];

/** Reloads what an operation reads, and everything below its path, after a change. */
export function useReload(): <Id extends ReadId>(
  id: Id,
  ...path: PathArgument<Id>
) => Promise<void> {
  const { key } = useApi();
  const cache = useQueryClient();
  return (id, ...[path]) => {
    const place = pathOf(id, path);
    return cache.invalidateQueries({
      predicate: ({ queryKey: [project, environment, name] }) =>
        project === key[0] && environment === key[1] && isBelow(String(name), place),
    });
  };
}

function isBelow(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}/`);
}
