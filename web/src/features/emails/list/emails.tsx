/** The emails of a project: a list with a search, and the open email beside it. */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import {
  Link,
  Outlet,
  useLocation,
  useNavigate,
  useParams,
  useSearch,
} from '@tanstack/react-router';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import type { EmailCounts } from '../../../../../sdk/src/api.ts';
import type { Status } from '../../../../../src/core/statuses.ts';
import { useApi, useScope } from '../../../api/scope.ts';
import { useFadedEdges } from '../../../ui/faded-edges.ts';
import { useShortcuts } from '../../../lib/keys.ts';
import { ListAndDetail } from '../../../ui/list-and-detail.tsx';
import { PageHead } from '../../../ui/page.tsx';
import { STATUS_LOOKS } from '../../../ui/status.tsx';
import { EmailList } from './email-list.tsx';
import {
  canSearchLive,
  joinSearch,
  readSearchText,
  splitSearch,
  type SplitSearch,
  statusOf,
  withStatus,
} from './email-search.ts';
import { EmailViews } from './email-views.tsx';
import { STATUSES } from './search-completion.ts';
import { SearchField } from './search-field.tsx';

const ROUTE = '/$project/$environment/emails';

export function EmailsScreen(): ReactNode {
  const { id } = useParams({ strict: false });
  const { q = '' } = useSearch({ from: ROUTE });
  const isOpen = id !== undefined;
  const counts = useCounts(q);
  return (
    <ListAndDetail detail={isOpen ? <Outlet /> : null}>
      {!isOpen && <PageHead title="Emails" isFullWidth secondary={<EmailViews q={q} />} />}
      <SearchBar q={q} count={counts && countOf(counts, statusOf(q))} />
      <StatusChips q={q} counts={counts} />
      <EmailList place="emails" q={q} openId={id ?? null} />
    </ListAndDetail>
  );
}

const COUNTS_STALE_MS = 30_000;

/** The matches by status, whatever status is chosen. They are counted again while the list is shown. */
function useCounts(q: string): EmailCounts | undefined {
  const api = useApi();
  const { data, isError } = useQuery({
    ...api.query('countEmails', { query: { q: withStatus(q, '') } }),
    staleTime: COUNTS_STALE_MS,
    refetchInterval: COUNTS_STALE_MS,
    placeholderData: keepPreviousData,
    retry: false,
  });
  return isError ? undefined : data;
}

function countOf({ total, statuses, scanned_until: cut }: EmailCounts, status: string | null) {
  const count = status === null ? total : (statuses[status as Status] ?? 0);
  return `${count.toLocaleString()}${cut === null ? '' : '+'}`;
}

const TYPING_PAUSE_MS = 200;

function SearchBar({ q, count }: { q: string; count: string | undefined }): ReactNode {
  const scope = useScope();
  const navigate = useNavigate();
  const [split, setSplit] = useState(() => splitSearch(q));
  const shown = useRef(q);
  const field = useRef<HTMLInputElement>(null);
  const { isSearching } = useLocation().state;
  useEffect(() => {
    if (isSearching) field.current?.focus();
  }, [isSearching]);
  // A link or a chip has changed the search.
  useEffect(() => {
    if (q === shown.current) return;
    shown.current = q;
    setSplit(splitSearch(q));
  }, [q]);
  useShortcuts([{ keys: '/', label: 'Search emails', run: () => field.current?.focus() }]);
  const show = (next: SplitSearch, typed: string, replace: boolean): void => {
    const wanted = readSearchText(typed);
    if (wanted.kind === 'id') {
      void navigate({ to: `${ROUTE}/$id`, params: { ...scope, id: wanted.id }, search: { q } });
      return;
    }
    setSplit(next);
    if (wanted.q === q) return;
    shown.current = wanted.q;
    const search = (all: object) => ({ ...all, q: wanted.q || undefined });
    void navigate({ to: '.', params: true, search, replace });
  };
  const searchNow = (typed: string): void => {
    const wanted = readSearchText(typed);
    show(wanted.kind === 'id' ? split : splitSearch(wanted.q), typed, false);
  };
  const latest = useRef(show);
  latest.current = show;
  // The list follows the typing after a short pause.
  useEffect(() => {
    const typed = joinSearch(split);
    if (typed === shown.current || !canSearchLive(split.words)) return;
    const timer = setTimeout(() => latest.current(split, typed, true), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [split]);
  return (
    <form
      role="search"
      className="px-(--page-x) pb-2"
      onSubmit={(event) => {
        event.preventDefault();
        searchNow(joinSearch(split));
      }}
    >
      <SearchField
        field={field}
        text={split.words}
        onText={(words) => setSplit({ ...split, words })}
        filters={split.filters}
        onFilters={(filters, words) => {
          const next = { filters: [...filters], words };
          setSplit(next);
          // A filter that became text again is changed before it is searched.
          if (words === split.words) searchNow(joinSearch(next));
        }}
        count={count ?? null}
      />
    </form>
  );
}

/** The statuses among the matches, each with its number; a click shows only these. */
function StatusChips({ q, counts }: { q: string; counts: EmailCounts | undefined }): ReactNode {
  const chosen = statusOf(q);
  const present = STATUSES.filter(
    (status) => status === chosen || (counts?.statuses[status] ?? 0) > 0,
  );
  const cut = counts && counts.scanned_until !== null;
  const row = useFadedEdges<HTMLDivElement>();
  if (counts?.total === 0 && q === '') return null;
  return (
    <div className="shrink-0 border-b border-line">
      <div
        ref={row}
        role="group"
        aria-label="Status"
        className="flex min-h-8 gap-1 overflow-x-auto px-(--page-x) pb-2 [scrollbar-width:none] md:flex-wrap"
      >
        {counts && (
          <>
            <StatusChip q={q} status={null} isChosen={chosen === null}>
              All {countOf(counts, null)}
            </StatusChip>
            {present.map((status) => (
              <StatusChip key={status} q={q} status={status} isChosen={status === chosen}>
                {status} {(counts.statuses[status] ?? 0).toLocaleString()}
                {cut && '+'}
              </StatusChip>
            ))}
          </>
        )}
      </div>
    </div>
  );
}

function StatusChip(props: {
  q: string;
  status: Status | null;
  isChosen: boolean;
  children: ReactNode;
}): ReactNode {
  const { q, status, isChosen, children } = props;
  const look = status === null ? null : STATUS_LOOKS[status];
  const Icon = look?.[1];
  const tone = look?.[0];
  return (
    <Link
      to="."
      params={true}
      search={(all) => ({ ...all, q: withStatus(q, status ?? '') || undefined })}
      preload={false}
      data-tone={tone}
      // The router marks it as current. Without this it would mark All as well, which has no search.
      activeOptions={{ exact: true, explicitUndefined: true }}
      aria-current={isChosen}
      className={`inline-flex h-6 shrink-0 items-center gap-1 rounded-[5px] px-1.75 text-sm whitespace-nowrap tabular-nums hover:bg-hover ${isChosen ? 'bg-well font-semibold ring-1 ring-edge ring-inset' : 'text-muted hover:text-text'}`}
    >
      {Icon && <Icon size={13} aria-hidden className="text-(--tone)" />}
      <span className="first-letter:uppercase">{children}</span>
    </Link>
  );
}
