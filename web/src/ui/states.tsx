/** The states of a screen without content: loading, empty, failed. */
import { CloudOff, type LucideIcon, SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import { ApiError } from '../api/client.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy.tsx';
import { RequestLink } from './request-link.tsx';
import { Tile } from './verdict.tsx';

export function RowsSkeleton({ rows = 8 }: { rows?: number }): ReactNode {
  return (
    <div role="status" aria-label="Loading" className="space-y-5 px-(--page-x) py-4">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="flex gap-4">
          <div className="skeleton h-3.5 w-20" />
          <div className="skeleton h-3.5 grow" />
          <div className="skeleton h-3.5 w-16" />
        </div>
      ))}
    </div>
  );
}

/** Rows of two lines, like those of the lists of emails. */
export function ListSkeleton({ rows = 10 }: { rows?: number }): ReactNode {
  return (
    <div role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <div
          key={row}
          className="flex h-14.5 items-center justify-between gap-8 border-b border-line px-(--page-x)"
        >
          <div className="min-w-0 grow space-y-2.5">
            <div className="skeleton h-3 w-48 max-w-full" />
            <div className={`skeleton h-3 ${LINE_WIDTHS[row % LINE_WIDTHS.length]}`} />
          </div>
          <div className="flex w-16 shrink-0 flex-col items-end gap-2.5">
            <div className="skeleton h-3 w-12" />
            <div className="skeleton h-3 w-16" />
          </div>
        </div>
      ))}
    </div>
  );
}

const LINE_WIDTHS = ['w-3/5', 'w-2/5', 'w-1/2', 'w-1/3'];

const NOT_FOUND = 404;

export function Problem({ error, retry }: { error: unknown; retry?: () => void }): ReactNode {
  // Another attempt would find as little.
  const isGone = error instanceof ApiError && error.status === NOT_FOUND;
  const requestId = error instanceof ApiError ? error.requestId : null;
  return (
    <div role="alert" className="flex max-w-2xl gap-4 px-(--page-x) py-5">
      <Tile icon={isGone ? SearchX : CloudOff} tone={isGone ? 'quiet' : 'bad'} />
      <div className="min-w-0 grow">
        <p className="pt-1 font-medium break-words">{sentenceOf(error)}</p>
        {requestId !== null && (
          <p className="mt-1 flex items-center gap-1 text-sm text-muted">
            Request <RequestLink id={requestId} />
            <CopyButton text={requestId} what="request id" />
          </p>
        )}
        {retry && !isGone && (
          <Button className="mt-3" onClick={retry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  );
}

export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}

/**
 * An empty list: what it will hold, and how to fill it.
 * @param props.action the button that fills it, and a link to what explains it
 */
export function Empty(props: {
  title: string;
  icon?: LucideIcon;
  action?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  const { title, icon, action, children } = props;
  return (
    <div className="flex max-w-2xl flex-col items-start gap-2 px-(--page-x) py-6">
      {icon && <Tile icon={icon} tone="accent" />}
      <h2 className="text-base font-semibold">{title}</h2>
      <div className="w-full space-y-3 text-pretty text-muted empty:hidden">{children}</div>
      {action && <div className="mt-1 flex flex-wrap items-center gap-2">{action}</div>}
    </div>
  );
}

export function Code({ text, what }: { text: string; what: string }): ReactNode {
  return (
    <div className="relative rounded-md border border-line bg-sunken text-text">
      <pre
        tabIndex={0}
        aria-label={what}
        className="overflow-x-auto p-3 pr-12 font-mono text-xs leading-relaxed"
      >
        {text}
      </pre>
      <span className="pointer-events-none absolute inset-y-0 right-0 rounded-r-md bg-linear-to-l from-sunken from-75% to-transparent p-1.5 pl-5 *:pointer-events-auto">
        <CopyButton text={text} what={what} />
      </span>
    </div>
  );
}
