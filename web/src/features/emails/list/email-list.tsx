/**
 * The list of emails: virtual rows, loaded page by page, updated by events. New rows do not move a scrolled list:
 * they wait behind a button until it is at its top again. A row is one line in columns where there is room for them,
 * else two lines (row-layout.ts).
 */
import { Link, useNavigate } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import {
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import type { EmailSummary } from '../../../../../sdk/src/api.ts';
import { useApi } from '../../../api/scope.ts';
import { statusOf } from './email-search.ts';
import { useMay } from '../../../ui/allowed.tsx';
import { type Selection, useSelection } from '../../../ui/bulk.tsx';
import { useShortcuts } from '../../../lib/keys.ts';
import { importWhenOnline } from '../../../lib/lazy-import.ts';
import { Button } from '../../../ui/button.tsx';
import { ListSkeleton, Problem } from '../../../ui/states.tsx';
import { rowsUpTo } from './email-pages.ts';
import { useLiveEmails } from './live-emails.ts';
import { NoEmails } from './no-emails.tsx';
import { InboxHead, InboxRow } from '../inbox/inbox-row.tsx';
import { isRemoved } from '../inbox/marks.ts';
import { useMarks } from '../inbox/use-marks.ts';
import { EmailHead, EmailRow } from './email-row.tsx';
import { HEAD_PX, rowPxOf, useHasColumns } from './row-layout.ts';

/** The screens that list emails. */
const PLACES = {
  emails: { to: '/$project/$environment/emails', Row: EmailRow, Head: EmailHead },
  'test-inbox': { to: '/$project/$environment/test-inbox', Row: InboxRow, Head: InboxHead },
} as const;
export type Place = keyof typeof PLACES;

/** The next page is loaded when fewer rows than this remain below the last visible one. */
const AHEAD = 20;
/** Limit on the rows of a list at its top, to which new emails come. */
const ROWS_MAX = 2_000;

type ListProps = { place: Place; q: string; openId: string | null };

export function EmailList({ place, q, openId }: ListProps): ReactNode {
  const { emails, isBehind, catchUp, trim } = useLiveEmails(q);
  const { marks } = useMarks();
  const rows = useMemo(() => {
    const all = emails.data?.pages.flatMap((page) => page.data) ?? [];
    return place === 'test-inbox' ? all.filter(({ id }) => !isRemoved(marks, id)) : all;
  }, [emails.data, marks, place]);
  const { to, Head } = PLACES[place];
  if (emails.isPending) return <ListSkeleton head={<Head />} />;
  if (emails.isLoadingError)
    return <Problem error={emails.error} retry={() => void emails.refetch()} />;
  if (rows.length === 0 && !emails.hasNextPage) return <NoEmails to={to} q={q} />;
  return (
    <>
      <Rows
        key={q}
        {...{ rows, place, openId, q, isBehind, catchUp, trim }}
        onEnd={() => {
          // It would cancel a read of the pages that are shown.
          if (emails.hasNextPage && !emails.isFetching) void emails.fetchNextPage();
        }}
        isLoading={emails.isFetchingNextPage}
      />
    </>
  );
}

/** Loaded where scheduled emails are listed. */
const CancelMany = lazy(async () => {
  const part = await importWhenOnline(() => import('./cancel-many.tsx'));
  return { default: part.CancelMany };
});

type RowsProps = ListProps & {
  rows: readonly EmailSummary[];
  /** There are more new emails than the list has read. */
  isBehind: boolean;
  /** Reads the list from its beginning. */
  catchUp: () => void;
  /** Forgets rows far below. */
  trim: () => void;
  onEnd: () => void;
  isLoading: boolean;
};

function Rows(props: RowsProps): ReactNode {
  const { rows: all, place, openId, q, isBehind, catchUp, trim, onEnd, isLoading } = props;
  const { Head } = PLACES[place];
  const frame = useRef<HTMLDivElement>(null);
  const hasColumns = useHasColumns(frame);
  const rowPx = rowPxOf(hasColumns);
  const headPx = hasColumns ? HEAD_PX : 0;
  const { rows, hiddenCount, isAtTop, showHidden } = useHiddenRows(all, { frame, rowPx });
  useEffect(() => {
    if (isBehind && isAtTop) catchUp();
    else if (isAtTop && all.length > ROWS_MAX) trim();
  });
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowPx,
    overscan: 12,
    getItemKey: (index) => rows[index]?.id ?? index,
    scrollMargin: headPx,
    scrollPaddingStart: headPx,
  });
  useSamePlace(frame, { rowPx, measure: () => list.measure() });
  const selection = useCancelable(rows, { place, q });
  const visible = list.getVirtualItems();
  const lastVisible = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastVisible + AHEAD >= rows.length) onEnd();
  });
  const marked = useWalk(rows, { place, openId, q }, (index) => {
    list.scrollToIndex(index);
    // Its row is drawn after the scrolling.
    requestAnimationFrame(() =>
      frame.current?.querySelector<HTMLElement>(`[data-row="${index}"]`)?.focus(),
    );
  });
  return (
    <div className="relative flex min-h-0 grow flex-col">
      <Suspense>{selection && <CancelMany selection={selection} q={q} />}</Suspense>
      {(hiddenCount > 0 || (isBehind && !isAtTop)) && (
        <ShowNewest
          hiddenCount={isBehind ? null : hiddenCount}
          onShow={isBehind ? catchUp : showHidden}
        />
      )}
      <div ref={frame} className="min-h-0 grow overflow-auto" tabIndex={-1}>
        {hasColumns && <ColumnHeads box={selection?.column.head} Head={Head} />}
        <VisibleRows
          visible={visible}
          {...{ rows, place, openId, q, selection, hasColumns, marked }}
        />
        {isLoading && <ListSkeleton rows={3} />}
      </div>
    </div>
  );
}

/** The rows have another height beside an open email. The first visible one stays at the top. */
function useSamePlace(
  frame: { current: HTMLElement | null },
  { rowPx, measure }: { rowPx: number; measure: () => void },
): void {
  const before = useRef(rowPx);
  useLayoutEffect(() => {
    if (rowPx === before.current) return;
    measure();
    if (frame.current) frame.current.scrollTop *= rowPx / before.current;
    before.current = rowPx;
  });
}

/** Returns the choice of scheduled emails, or null where none are canceled. */
function useCancelable(
  rows: readonly EmailSummary[],
  { place, q }: { place: Place; q: string },
): Selection<EmailSummary> | null {
  const may = useMay();
  const selection = useSelection({
    rows,
    keyOf: ({ id }) => id,
    nameOf: ({ to: [first = ''], subject }) => `${first}, ${subject}`,
  });
  const isOffered = place === 'emails' && statusOf(q) === 'scheduled' && may('cancelEmails');
  return isOffered ? selection : null;
}

type VisibleProps = ListProps & {
  visible: readonly { index: number; key: string | number | bigint }[];
  rows: readonly EmailSummary[];
  selection: Selection<EmailSummary> | null;
  hasColumns: boolean;
  marked: number;
};

function VisibleRows(props: VisibleProps): ReactNode {
  const { visible, rows, place, openId, q, selection, hasColumns, marked } = props;
  const rowPx = rowPxOf(hasColumns);
  return (
    <ul aria-label="Emails" className="relative" style={{ height: rows.length * rowPx }}>
      {visible.map(({ index, key }) => {
        const email = rows[index]!;
        return (
          <li
            key={key}
            className={`absolute inset-x-0 flex ${selection?.chosen.includes(email) ? 'bg-accent-tint' : ''}`}
            style={{ top: index * rowPx, height: rowPx }}
          >
            {selection && (
              <span className="flex items-center border-b border-line pl-(--page-x)">
                {selection.column.cell(email)}
              </span>
            )}
            <RowLink
              {...{ email, place, q, index, hasColumns }}
              isOpen={email.id === openId}
              isMarked={index === marked}
            />
          </li>
        );
      })}
    </ul>
  );
}

/** @param props.hiddenCount null: not known, because the list has not read the newest */
function ShowNewest(props: { hiddenCount: number | null; onShow: () => void }): ReactNode {
  const { hiddenCount, onShow } = props;
  return (
    <Button
      look="primary"
      onClick={onShow}
      className="absolute top-2 left-1/2 z-10 -translate-x-1/2 shadow-lg"
    >
      {hiddenCount === null ? 'Show the newest' : `${hiddenCount.toLocaleString()} new`}
    </Button>
  );
}

/** Titles of the columns, which stay at the top. Each row says what it is to a screen reader. */
function ColumnHeads({ box, Head }: { box: ReactNode; Head: () => ReactNode }): ReactNode {
  return (
    <div
      className="sticky top-0 z-5 flex items-center border-b border-line bg-canvas px-(--page-x) text-xs font-medium text-muted"
      style={{ height: HEAD_PX }}
    >
      {box !== undefined && <span className="flex shrink-0 pr-(--page-x)">{box}</span>}
      <span aria-hidden className="flex min-w-0 grow">
        <Head />
      </span>
    </div>
  );
}

function RowLink(props: {
  email: EmailSummary;
  place: Place;
  q: string;
  index: number;
  hasColumns: boolean;
  isOpen: boolean;
  isMarked: boolean;
}): ReactNode {
  const { email, place, q, index, hasColumns, isOpen, isMarked } = props;
  const { scope } = useApi();
  const { to, Row: Cells } = PLACES[place];
  return (
    <Link
      to={`${to}/$id`}
      params={{ ...scope, id: email.id }}
      search={searchOf(place, q)}
      preload={false}
      data-row={index}
      className={`flex h-full min-w-0 grow items-center gap-3 border-b border-line px-(--page-x) text-sm hover:bg-hover ${isOpen ? 'bg-chosen' : ''} ${isMarked ? 'outline-2 -outline-offset-2 outline-accent' : ''}`}
    >
      <Cells email={email} hasColumns={hasColumns} />
    </Link>
  );
}

/** In the inbox the next email keeps the tab, width and theme of this one. */
function searchOf(place: Place, q: string): true | { q?: string } {
  if (place === 'test-inbox') return true;
  return q ? { q } : {};
}

/** Keeps rows hidden that arrive while the list is scrolled. */
function useHiddenRows(
  all: readonly EmailSummary[],
  { frame, rowPx }: { frame: { current: HTMLElement | null }; rowPx: number },
) {
  const [newest, setNewest] = useState<string | null>(null);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const onScroll = (): void => {
      const isAtTop = element.scrollTop < rowPx;
      setNewest((previous) => (isAtTop ? null : (previous ?? all[0]?.id ?? null)));
    };
    element.addEventListener('scroll', onScroll, { passive: true });
    return () => element.removeEventListener('scroll', onScroll);
  }, [all, frame, rowPx]);
  const rows = rowsUpTo(all, newest);
  const showHidden = (): void => {
    setNewest(null);
    frame.current?.scrollTo({ top: 0 });
  };
  return { rows, hiddenCount: all.length - rows.length, isAtTop: newest === null, showHidden };
}

/** The row that the keys have reached, and where it was: emails that arrive above it move it. */
type Walked = { id: string; index: number };

/** Returns its place now, or that of the row that follows it when it is gone; -1 when no row was reached. */
function placeOf(walked: Walked | null, rows: readonly EmailSummary[]): number {
  if (walked === null) return -1;
  const index = rows.findIndex(({ id }) => id === walked.id);
  return index >= 0 ? index : Math.min(walked.index, rows.length - 1);
}

/** `j` and `k` walk through the rows, Enter opens one, Escape closes it. */
function useWalk(
  rows: readonly EmailSummary[],
  { place, openId, q }: ListProps,
  show: (index: number) => void,
): number {
  const { scope } = useApi();
  const navigate = useNavigate();
  const [walked, setWalked] = useState<Walked | null>(null);
  const { to } = PLACES[place];
  const openIndex = openId === null ? -1 : rows.findIndex(({ id }) => id === openId);
  const at = openIndex >= 0 ? openIndex : placeOf(walked, rows);
  const walkTo = (index: number): void => {
    const row = rows[index];
    if (!row) return;
    setWalked({ id: row.id, index });
    show(index);
  };
  const open = (index: number, isWalking = false): void => {
    const email = rows[index];
    if (!email) return;
    const params = { ...scope, id: email.id };
    void navigate({ to: `${to}/$id`, params, search: searchOf(place, q), state: { isWalking } });
  };
  const step = (by: number): void => {
    const next = Math.min(rows.length - 1, Math.max(0, at + by));
    walkTo(next);
    if (openId !== null) open(next, true);
  };
  const close = (): void => {
    void navigate({ to, params: scope, search: q ? { q } : {} });
    walkTo(at);
  };
  useShortcuts([
    { keys: 'j', label: 'Next email', run: () => step(1) },
    { keys: 'k', label: 'Previous email', run: () => step(-1) },
    // Beside an open email they scroll it.
    ...(openId === null
      ? [
          { keys: 'ArrowDown', label: 'Next email', run: () => step(1) },
          { keys: 'ArrowUp', label: 'Previous email', run: () => step(-1) },
          ...(at < 0 ? [] : [{ keys: 'Enter', label: 'Open the email', run: () => open(at) }]),
        ]
      : [{ keys: 'Escape', label: 'Close the email', run: close }]),
  ]);
  return openId === null ? at : -1;
}
