/**
 * The rows of the list of emails: virtual, page by page, live. New rows never move what is being read: they
 * wait behind a button until the list is at its top.
 */
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import type { EmailSummary } from '../../../sdk/src/api.ts';
import { queryText } from '../api/client.ts';
import { useEvents } from '../api/live.ts';
import { type Api, useApi } from '../api/scope.ts';
import { useShortcuts } from '../shell/keys.ts';
import { Button } from '../ui/button.tsx';
import { Problem, RowsSkeleton } from '../ui/states.tsx';
import { StatusBadge } from '../ui/status.tsx';
import { Time } from '../ui/time.tsx';
import { NoEmails } from './no-emails.tsx';

const ROW_PX = 36;
const PAGE = 50;
/** Rows below the last visible one from which on the next page is loaded. */
const AHEAD = 20;

type Page = { data: EmailSummary[]; has_more: boolean; scanned_until: string | null };

function useEmails(api: Api, q: string) {
  return useInfiniteQuery({
    queryKey: [...api.key, 'emails', q],
    queryFn: ({ pageParam, signal }) =>
      api.get<Page>(`/v1/emails${queryText({ q, limit: PAGE, after: pageParam })}`, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) =>
      page.has_more ? (page.scanned_until ?? page.data.at(-1)?.id ?? null) : null,
  });
}

/** Replaces the first page whenever something happened, and keeps the others. */
function useLiveFirstPage(api: Api, q: string): boolean {
  const cache = useQueryClient();
  const isBusy = useRef(false);
  const isDue = useRef(false);
  const refresh = async (): Promise<void> => {
    isDue.current = true;
    if (isBusy.current) return;
    isBusy.current = true;
    try {
      while (isDue.current) {
        isDue.current = false;
        const page = await api.get<Page>(`/v1/emails${queryText({ q, limit: PAGE })}`);
        cache.setQueryData<{ pages: Page[]; pageParams: (string | null)[] }>(
          [...api.key, 'emails', q],
          (old) => old && { ...old, pages: mergeFirst(page, old.pages) },
        );
      }
    } catch {
      // The list stays as it is; the next event tries again.
    } finally {
      isBusy.current = false;
    }
  };
  return useEvents(api.scope, () => void refresh());
}

/** Rows that the new first page pushed out of it stay, between it and the next page. */
function mergeFirst(page: Page, [first, ...rest]: Page[]): Page[] {
  const fresh = new Set(page.data.map(({ id }) => id));
  const last = page.data.at(-1)?.id ?? '';
  const pushed = (first?.data ?? []).filter(({ id }) => !fresh.has(id) && id < last);
  return [
    { ...page, data: [...page.data, ...pushed], has_more: first?.has_more ?? false },
    ...rest,
  ];
}

export function EmailList({ q, openId }: { q: string; openId: string | null }): ReactNode {
  const api = useApi();
  const emails = useEmails(api, q);
  const isLive = useLiveFirstPage(api, q);
  const rows = useMemo(() => emails.data?.pages.flatMap((page) => page.data) ?? [], [emails.data]);
  if (emails.isPending) return <RowsSkeleton />;
  if (emails.isError) return <Problem error={emails.error} retry={() => void emails.refetch()} />;
  if (rows.length === 0 && !emails.hasNextPage) return <NoEmails q={q} />;
  return (
    <>
      {!isLive && (
        <p role="status" className="border-b border-line px-4 py-1 text-sm text-muted">
          Not live at the moment; reconnecting.
        </p>
      )}
      <Rows
        key={q}
        rows={rows}
        openId={openId}
        q={q}
        onEnd={() => {
          if (emails.hasNextPage && !emails.isFetchingNextPage) void emails.fetchNextPage();
        }}
        isLoading={emails.isFetchingNextPage}
      />
    </>
  );
}

type RowsProps = {
  rows: readonly EmailSummary[];
  openId: string | null;
  q: string;
  onEnd: () => void;
  isLoading: boolean;
};

function Rows({ rows: all, openId, q, onEnd, isLoading }: RowsProps): ReactNode {
  const { scope } = useApi();
  const frame = useRef<HTMLDivElement>(null);
  const { rows, waiting, release } = useHeldBack(all, frame);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    getItemKey: (index) => rows[index]?.id ?? index,
  });
  const visible = list.getVirtualItems();
  const lastVisible = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastVisible + AHEAD >= rows.length) onEnd();
  });
  const marked = useWalk(rows, openId, q, (index) => list.scrollToIndex(index));
  return (
    <div className="relative flex min-h-0 grow flex-col">
      {waiting > 0 && (
        <Button
          look="primary"
          onClick={release}
          className="absolute top-2 left-1/2 z-10 -translate-x-1/2 shadow-lg"
        >
          {waiting} new
        </Button>
      )}
      <div ref={frame} className="min-h-0 grow overflow-auto" tabIndex={-1}>
        <ul aria-label="Emails" className="relative" style={{ height: list.getTotalSize() }}>
          {visible.map(({ index, key, start }) => {
            const email = rows[index]!;
            return (
              <li key={key} className="absolute inset-x-0" style={{ top: start, height: ROW_PX }}>
                <Link
                  to="/$project/$environment/emails/$id"
                  params={{ ...scope, id: email.id }}
                  search={q ? { q } : {}}
                  preload={false}
                  className={`flex h-full items-center gap-3 border-b border-line px-4 text-sm hover:bg-hover ${email.id === openId ? 'bg-chosen' : ''} ${index === marked ? 'outline-2 -outline-offset-2 outline-accent' : ''}`}
                >
                  <Row email={email} isNarrow={openId !== null} />
                </Link>
              </li>
            );
          })}
        </ul>
        {isLoading && <RowsSkeleton rows={3} />}
      </div>
    </div>
  );
}

function Row({ email, isNarrow }: { email: EmailSummary; isNarrow: boolean }): ReactNode {
  const [first = '', ...others] = [...email.to, ...email.cc, ...email.bcc];
  return (
    <>
      <span className="flex w-4 shrink-0 sm:w-25">
        <StatusBadge status={email.status} isShort />
      </span>
      <span className="min-w-0 flex-1 truncate font-mono text-xs" title={first}>
        {first}
        {others.length > 0 && <span className="text-muted"> +{others.length}</span>}
      </span>
      <span className={`min-w-0 flex-2 truncate ${isNarrow ? 'max-2xl:hidden' : 'max-sm:flex-1'}`}>
        {email.subject}
      </span>
      <span className="w-16 text-right text-muted">
        <Time at={email.created_at} />
      </span>
    </>
  );
}

/** While the list is scrolled, rows that are newer than its first one wait. */
function useHeldBack(all: readonly EmailSummary[], frame: { current: HTMLElement | null }) {
  const [newest, setNewest] = useState<string | null>(null);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const onScroll = (): void => {
      const isAtTop = element.scrollTop < ROW_PX;
      setNewest((held) => (isAtTop ? null : (held ?? all[0]?.id ?? null)));
    };
    element.addEventListener('scroll', onScroll, { passive: true });
    return () => element.removeEventListener('scroll', onScroll);
  }, [all, frame]);
  const rows = newest === null ? all : all.filter(({ id }) => id <= newest);
  const release = (): void => {
    setNewest(null);
    frame.current?.scrollTo({ top: 0 });
  };
  return { rows, waiting: all.length - rows.length, release };
}

/** `j` and `k` walk through the rows, Enter opens one, Escape closes it. */
function useWalk(
  rows: readonly EmailSummary[],
  openId: string | null,
  q: string,
  show: (index: number) => void,
): number {
  const { scope } = useApi();
  const navigate = useNavigate();
  const [walked, setWalked] = useState(-1);
  const openIndex = openId === null ? -1 : rows.findIndex(({ id }) => id === openId);
  const at = openIndex >= 0 ? openIndex : walked;
  const search = q ? { q } : {};
  const open = (index: number): void => {
    const email = rows[index];
    if (!email) return;
    const params = { ...scope, id: email.id };
    void navigate({ to: '/$project/$environment/emails/$id', params, search });
  };
  const step = (by: number): void => {
    const next = Math.min(rows.length - 1, Math.max(0, at + by));
    setWalked(next);
    show(next);
    if (openId !== null) open(next);
  };
  const close = (): void =>
    void navigate({ to: '/$project/$environment/emails', params: scope, search });
  useShortcuts([
    { keys: 'j', label: 'Next email', run: () => step(1) },
    { keys: 'k', label: 'Previous email', run: () => step(-1) },
    ...(openId === null
      ? at < 0
        ? []
        : [{ keys: 'Enter', label: 'Open the email', run: () => open(at) }]
      : [{ keys: 'Escape', label: 'Close the email', run: close }]),
  ]);
  return openId === null ? walked : -1;
}
