/** One email in the list, in columns or in two lines. */
import type { ReactNode } from 'react';
import type { EmailSummary } from '../../../../../sdk/src/api.ts';
import { StatusBadge } from '../../../ui/status.tsx';
import { Time } from '../../../ui/time.tsx';

export type RowProps = { email: EmailSummary; hasColumns: boolean };

const COLUMNS = 'grid min-w-0 grow grid-cols-[minmax(0,4fr)_minmax(0,5fr)_6.5rem_6rem] gap-x-5';

export function EmailHead(): ReactNode {
  return (
    <span className={COLUMNS}>
      <span>To</span>
      <span>Subject</span>
      <span>Status</span>
      <span className="text-right">Created</span>
    </span>
  );
}

export function EmailRow({ email, hasColumns }: RowProps): ReactNode {
  const time = (
    <span className="text-right text-muted">
      <Time at={email.created_at} />
    </span>
  );
  const status = (
    <span className={`leading-none ${hasColumns ? '' : 'text-right'}`}>
      <StatusBadge status={email.status} />
    </span>
  );
  return (
    <span
      className={
        hasColumns
          ? `${COLUMNS} items-center`
          : 'grid min-w-0 grow grid-cols-[minmax(0,1fr)_auto] gap-x-3 gap-y-1'
      }
    >
      <Recipients email={email} />
      {!hasColumns && time}
      <span dir="auto" className="truncate text-left text-muted">
        {email.subject}
      </span>
      {status}
      {hasColumns && time}
    </span>
  );
}

function Recipients({ email: { to, cc, bcc } }: { email: EmailSummary }): ReactNode {
  const [first = '', ...others] = [...to, ...cc, ...bcc];
  return (
    <span className="flex min-w-0 gap-1.5" title={first}>
      <span className="truncate font-medium">{first}</span>
      {others.length > 0 && <span className="shrink-0 text-muted">+{others.length}</span>}
    </span>
  );
}
