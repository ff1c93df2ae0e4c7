/** One email in the list of the test inbox, bold until it was read. */
import type { ReactNode } from 'react';
import type { EmailSummary } from '../../../../../sdk/src/api.ts';
import { Time } from '../../../ui/time.tsx';
import { isUnread } from './marks.ts';
import { useMarks } from './use-marks.ts';

export function InboxRow({ email }: { email: EmailSummary }): ReactNode {
  const { id, from, to, cc, bcc, subject, created_at: at } = email;
  const { marks } = useMarks();
  const isNew = isUnread(marks, id);
  return (
    <span className="grid min-w-0 grow grid-cols-[0.5rem_minmax(0,1fr)_auto] items-center gap-x-2 gap-y-0.5">
      <span className={`size-2 rounded-full ${isNew ? 'bg-accent' : ''}`}>
        {isNew && <span className="sr-only">Unread: </span>}
      </span>
      <span className="truncate">
        <span className={isNew ? 'font-semibold' : ''}>{from}</span>
        <span className="text-muted"> to {[...to, ...cc, ...bcc].join(', ')}</span>
      </span>
      <span className="text-right text-muted">
        <Time at={at} />
      </span>
      <span
        dir="auto"
        className={`col-start-2 truncate text-left ${isNew ? 'font-semibold' : 'text-muted'}`}
      >
        {subject}
      </span>
    </span>
  );
}
