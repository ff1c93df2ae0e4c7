/** One email in the list of the test inbox, with a dot until it was read. */
import type { ReactNode } from 'react';
import { Time } from '../../../ui/time.tsx';
import type { RowProps } from '../list/email-row.tsx';
import { isUnread } from './marks.ts';
import { useMarks } from './use-marks.ts';

const COLUMNS =
  'grid min-w-0 grow grid-cols-[0.5rem_minmax(0,2fr)_minmax(0,2fr)_minmax(0,3fr)_6rem] gap-x-3';

export function InboxHead(): ReactNode {
  return (
    <span className={COLUMNS}>
      <span className="col-start-2">From</span>
      <span>To</span>
      <span>Subject</span>
      <span className="text-right">Created</span>
    </span>
  );
}

export function InboxRow({ email, hasColumns }: RowProps): ReactNode {
  const { id, from, to, cc, bcc, subject, created_at: at } = email;
  const { marks } = useMarks();
  const isNew = isUnread(marks, id);
  const recipients = [...to, ...cc, ...bcc].join(', ');
  const sender = (
    <span className={isNew ? 'font-medium' : ''} title={from}>
      {nameOf(from)}
    </span>
  );
  const mark = (
    <span className={`size-2 rounded-full ${isNew ? 'bg-accent' : ''}`}>
      {isNew && <span className="sr-only">Unread: </span>}
    </span>
  );
  const time = (
    <span className="text-right text-muted">
      <Time at={at} />
    </span>
  );
  const title = (
    <span
      dir="auto"
      className={`${hasColumns ? '' : 'col-start-2'} truncate text-left ${isNew ? 'font-medium' : 'text-muted'}`}
    >
      {subject}
    </span>
  );
  if (hasColumns) {
    return (
      <span className={`${COLUMNS} items-center`}>
        {mark}
        <span className="truncate">{sender}</span>
        <span className="truncate text-muted">
          <span className="sr-only">to </span>
          {recipients}
        </span>
        {title}
        {time}
      </span>
    );
  }
  return (
    <span className="grid min-w-0 grow grid-cols-[0.5rem_minmax(0,1fr)_auto] items-center gap-x-2 gap-y-0.5">
      {mark}
      <span className="truncate">
        {sender}
        <span className="text-muted"> to {recipients}</span>
      </span>
      {time}
      {title}
    </span>
  );
}

/** "Acme" of "Acme <hello@acme.test>"; an address without a name. */
function nameOf(from: string): string {
  return /^"?([^"<]*[^"<\s])"?\s*</.exec(from)?.[1] ?? from;
}
