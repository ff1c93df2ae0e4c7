/**
 * Keeps the emails of a list current by the event stream: an event causes a refresh of its part of the list. One
 * refresh runs at a time, and events that arrive meanwhile wait for the next one. A list that is read again as a whole,
 * as after an outage, keeps its rows below the new ones.
 */
import {
  type InfiniteData,
  type QueryClient,
  useInfiniteQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { useRef, useState } from 'react';
import type { StreamEvent } from '../../../../../sdk/src/api.ts';
import { type NewEvents, useEvents } from '../../../api/live.ts';
import { type Api, useApi } from '../../../api/scope.ts';
import {
  asFirst,
  type EmailPage,
  firstPages,
  nextAfter,
  PAGE,
  type Part,
  partsToRead,
  withPart,
} from './email-pages.ts';

type Cached = InfiniteData<EmailPage, string | undefined>;

const REFRESH_MS = 1_000;
const FILL_PAGE = 100;
const KEPT_PAGES = 4;
/** Pages that close the gap to the newest known row. More new emails than that replace the list. */
const FILL_PAGES_MAX = 20;
/** Limit on the parts of the list that one refresh reads. With more of them all loaded pages are read again. */
const PARTS_MAX = 10;

export function useLiveEmails(q: string) {
  const api = useApi();
  const cache = useQueryClient();
  const queryKey = [...api.key, 'emails', q];
  const emails = useShownEmails(q, queryKey);
  const [searchBehind, setSearchBehind] = useState<string | null>(null);
  const isBehind = searchBehind === q;
  const waiting = useRef({ touched: new Set<string>(), isAll: false, isBusy: false });
  const refresh = async (): Promise<void> => {
    const state = waiting.current;
    if (state.isBusy) return;
    state.isBusy = true;
    try {
      while (state.isAll || state.touched.size > 0) {
        // A page that is being read may be older than these events.
        await untilRead(cache, queryKey);
        const { touched, isAll } = state;
        Object.assign(state, { touched: new Set(), isAll: false });
        const shown = cache.getQueryData<Cached>(queryKey);
        const parts = partsToRead(shown?.pages ?? [], touched).filter(
          ({ after }) => !isBehind || after !== undefined,
        );
        if (isAll || parts.length > PARTS_MAX) {
          await cache.invalidateQueries({ queryKey, exact: true });
        } else if (!(await readParts(parts))) setSearchBehind(q);
      }
    } catch {
      // The list stays. It is read as a whole with the next event, or after an outage (api/stream/live-data.ts).
      state.isAll = true;
    } finally {
      state.isBusy = false;
    }
  };
  /** Returns false when there are more new emails than it reads. */
  const readParts = async (parts: readonly Part[]): Promise<boolean> => {
    let isComplete = true;
    for (const part of parts) {
      const read = await readPart(api, q, part);
      if (read === null) isComplete = false;
      else {
        // A page that arrives later would replace this.
        await untilRead(cache, queryKey);
        cache.setQueryData<Cached>(
          queryKey,
          (old) => old && withPages(old, withPart(old.pages, part.after, read)),
        );
      }
    }
    return isComplete;
  };
  const onEvents = ({ events, isGapless }: NewEvents): void => {
    for (const id of events.flatMap(emailIdOf)) waiting.current.touched.add(id);
    waiting.current.isAll ||= !isGapless;
    void refresh();
  };
  useEvents(api.scope, onEvents, { everyMs: REFRESH_MS });
  const catchUp = (): void => {
    setSearchBehind(null);
    void cache.resetQueries({ queryKey, exact: true });
  };
  /** Forgets rows far below the visible ones, so that a page that stays open does not grow with the mail. */
  const trim = (): void => void cache.setQueryData<Cached>(queryKey, trimmed);
  return { emails, isBehind, catchUp, trim };
}

/** The emails that match, page by page. */
function useShownEmails(q: string, queryKey: readonly unknown[]) {
  const api = useApi();
  const cache = useQueryClient();
  return useInfiniteQuery({
    queryKey,
    queryFn: async ({ pageParam: after, signal }) => {
      const shown = after === undefined ? cache.getQueryData<Cached>(queryKey) : undefined;
      const again = shown?.pages[0]
        ? await readAgain(api, { q, first: shown.pages[0], signal })
        : null;
      return again ?? (await api.call('listEmails', { query: { q, limit: PAGE, after }, signal }));
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: nextAfter,
    // A pause would end after events have changed the pages that it reads again.
    networkMode: 'always',
    // The event stream reports changes.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
}

/**
 * Returns the first page with all new emails before it, so that the pages below begin where they did; null when there
 * are more new ones than it reads.
 */
async function readAgain(
  api: Api,
  { q, first, signal }: { q: string; first: EmailPage; signal: AbortSignal },
): Promise<EmailPage | null> {
  const part = { after: undefined, until: nextAfter(first) ?? '' };
  const read = await readPart(api, q, part, signal);
  return read && asFirst(read, first);
}

/** Resolves when no request for the list is under way. */
function untilRead(cache: QueryClient, queryKey: readonly unknown[]): Promise<void> {
  const isIdle = (): boolean => cache.getQueryState(queryKey)?.fetchStatus !== 'fetching';
  if (isIdle()) return Promise.resolve();
  return new Promise((resolve) => {
    const end = cache.getQueryCache().subscribe(() => {
      if (!isIdle()) return;
      end();
      resolve();
    });
  });
}

/** Returns the pages of a part; null when it is longer than FILL_PAGES_MAX. */
async function readPart(
  api: Api,
  q: string,
  { after, until }: Part,
  signal?: AbortSignal,
): Promise<EmailPage[] | null> {
  const pages: EmailPage[] = [];
  let cursor = after;
  while (pages.length < FILL_PAGES_MAX) {
    const limit = pages.length === 0 ? PAGE : FILL_PAGE;
    const page = await api.call('listEmails', { query: { q, limit, after: cursor }, signal });
    pages.push(page);
    cursor = nextAfter(page);
    if (cursor === undefined || cursor <= until) return pages;
  }
  return null;
}

function trimmed(old: Cached | undefined): Cached | undefined {
  return old && withPages(old, firstPages(old.pages, KEPT_PAGES));
}

function withPages({ pageParams }: Cached, pages: EmailPage[]): Cached {
  return { pages, pageParams: pages.map((_, index) => pageParams[index]) };
}

function emailIdOf({ data }: StreamEvent): string[] {
  const id = data['email_id'];
  return typeof id === 'string' ? [id] : [];
}
