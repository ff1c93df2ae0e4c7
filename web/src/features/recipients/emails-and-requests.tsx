/** All emails to a recipient and the requests that were refused, newest first. */
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { Ban } from 'lucide-react';
import type { ReactNode } from 'react';
import type { EmailSummary, RecipientOverview } from '../../../../sdk/src/api.ts';
import { useList } from '../../api/list.ts';
import { useScope } from '../../api/scope.ts';
import { Button } from '../../ui/button.tsx';
import { useMay } from '../../ui/allowed.tsx';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Segments } from '../../ui/segments.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { StatusBadge } from '../../ui/status.tsx';
import { Time } from '../../ui/time.tsx';
import { isProblem } from './verdict-words.ts';

const ROUTE = '/$project/$environment/recipients/$address';

type Refused = RecipientOverview['refused_requests'][number];
type Entry = { at: string } & ({ email: EmailSummary } | { refused: Refused });

export function EmailsAndRequests({ recipient }: { recipient: RecipientOverview }): ReactNode {
  const { address, refused_requests: refused } = recipient;
  const { show } = useSearch({ from: ROUTE });
  const list = useList('listEmails', { query: { to: address } });
  const onlyProblems = show === 'problems';
  const oldest = list.hasNextPage ? (list.rows.at(-1)?.created_at ?? '') : '';
  const entries = [
    ...list.rows.map((email): Entry => ({ at: email.created_at, email })),
    // Requests older than the emails read so far follow with those.
    ...refused
      .filter(({ created_at: at }) => at >= oldest)
      .map((one): Entry => ({ at: one.created_at, refused: one })),
  ]
    .filter((entry) => !onlyProblems || !('email' in entry) || isProblem(entry.email.status))
    .toSorted((one, other) => (one.at < other.at ? 1 : -1));
  return (
    <Card
      title="Emails and requests"
      actions={<Filter onlyProblems={onlyProblems} />}
      wide={
        list.isPending ? (
          <RowsSkeleton />
        ) : list.isError ? (
          <Problem error={list.error} retry={() => void list.refetch()} />
        ) : entries.length === 0 ? (
          <p className="p-4 text-muted">
            {onlyProblems
              ? 'No problems among these emails.'
              : 'No email to this address is stored.'}
          </p>
        ) : (
          <ul aria-label="Emails and requests">
            {entries.map((entry) => (
              <li
                key={'email' in entry ? entry.email.id : entry.refused.id}
                className="border-t border-line first:border-t-0"
              >
                {'email' in entry ? (
                  <EmailRow email={entry.email} />
                ) : (
                  <RefusedRow refused={entry.refused} />
                )}
              </li>
            ))}
          </ul>
        )
      }
      footer={
        list.hasNextPage && (
          <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            Show older emails
          </Button>
        )
      }
    />
  );
}

function Filter({ onlyProblems }: { onlyProblems: boolean }): ReactNode {
  const navigate = useNavigate({ from: ROUTE });
  return (
    <Segments
      label="Show"
      options={SHOWN}
      chosen={onlyProblems ? 'problems' : 'all'}
      onChoose={(chosen) =>
        void navigate({
          search: { show: chosen === 'all' ? undefined : chosen },
          replace: true,
        })
      }
    />
  );
}

const SHOWN = [
  ['all', 'All'],
  ['problems', 'Problems'],
] as const;

const ROW =
  'grid min-h-14 grid-cols-[minmax(0,1fr)_auto] content-center items-center gap-x-3 gap-y-0.5 px-4 py-1.5';

function EmailRow({ email }: { email: EmailSummary }): ReactNode {
  const scope = useScope();
  const { id, subject, from, status, created_at: at } = email;
  return (
    <Link
      to="/$project/$environment/emails/$id"
      params={{ ...scope, id }}
      preload={false}
      className={`${ROW} hover:bg-hover`}
    >
      <span dir="auto" className="truncate text-left font-medium">
        {subject || '(no subject)'}
      </span>
      <span className="text-right text-sm text-muted">
        <Time at={at} />
      </span>
      <span className="truncate text-sm text-muted">from {from}</span>
      <span className="text-right">
        <StatusBadge status={status} />
      </span>
    </Link>
  );
}

function RefusedRow({ refused }: { refused: Refused }): ReactNode {
  const scope = useScope();
  const may = useMay();
  const { id, created_at: at, method, path, status, error } = refused;
  const cells = (
    <>
      <span className="truncate font-medium">The API refused a request</span>
      <span className="text-right text-sm text-muted">
        <Time at={at} />
      </span>
      <span className="min-w-0 text-sm break-words text-muted">
        {error.message}{' '}
        <code className="font-mono text-xs whitespace-nowrap">
          {method} {path} {status}
        </code>
      </span>
      <span className="text-right">
        <Chip tone="quiet" icon={Ban}>
          refused
        </Chip>
      </span>
    </>
  );
  if (!may('getRequest')) return <div className={ROW}>{cells}</div>;
  return (
    <Link
      to="/$project/$environment/api-log"
      params={scope}
      search={{ id }}
      preload={false}
      className={`${ROW} hover:bg-hover`}
    >
      {cells}
    </Link>
  );
}
