/** The emails of a project: a list with a search, and the open email beside it. */
import { Outlet, useLocation, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { useScope } from '../../../api/scope.ts';
import { useShortcuts } from '../../../lib/keys.ts';
import { INPUT } from '../../../ui/field.tsx';
import { ListAndDetail } from '../../../ui/list-and-detail.tsx';
import { PageHead } from '../../../ui/page.tsx';
import { EmailList } from './email-list.tsx';
import { readSearchText, statusOf, withStatus } from './email-search.ts';
import { EmailViews } from './email-views.tsx';
import { STATUSES } from './search-completion.ts';
import { SearchField } from './search-field.tsx';

const ROUTE = '/$project/$environment/emails';

export function EmailsScreen(): ReactNode {
  const { id } = useParams({ strict: false });
  const { q = '' } = useSearch({ from: ROUTE });
  const isOpen = id !== undefined;
  return (
    <ListAndDetail detail={isOpen ? <Outlet /> : null}>
      {!isOpen && <PageHead title="Emails" />}
      <SearchBar key={q} q={q} />
      <EmailList place="emails" q={q} openId={id ?? null} />
    </ListAndDetail>
  );
}

function SearchBar({ q }: { q: string }): ReactNode {
  const scope = useScope();
  const navigate = useNavigate();
  const [text, setText] = useState(q);
  const field = useRef<HTMLInputElement>(null);
  const { isSearching } = useLocation().state;
  useEffect(() => {
    if (isSearching) field.current?.focus();
  }, [isSearching]);
  useShortcuts([{ keys: '/', label: 'Search emails', run: () => field.current?.focus() }]);
  const search = (typed: string): void => {
    const wanted = readSearchText(typed);
    if (wanted.kind === 'id') {
      void navigate({ to: `${ROUTE}/$id`, params: { ...scope, id: wanted.id }, search: { q } });
    } else {
      void navigate({
        to: '.',
        params: true,
        search: (all) => ({ ...all, q: wanted.q || undefined }),
      });
    }
  };
  return (
    <form
      role="search"
      className="flex gap-2 border-b border-line p-2"
      onSubmit={(event) => {
        event.preventDefault();
        search(text);
      }}
    >
      <SearchField
        field={field}
        text={text}
        onText={(typed) => {
          setText(typed);
          if (typed === '') search('');
        }}
      />
      <select
        aria-label="Status"
        value={statusOf(q) ?? ''}
        onChange={(event) => search(withStatus(text, event.target.value))}
        className={`${INPUT} w-30!`}
      >
        <option value="">All statuses</option>
        {STATUSES.map((status) => (
          <option key={status}>{status}</option>
        ))}
      </select>
      <EmailViews q={q} />
    </form>
  );
}
