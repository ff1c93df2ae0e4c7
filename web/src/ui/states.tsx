/** The states of a screen without content: loading, empty, failed. */
import type { ReactNode } from 'react';
import { ApiError } from '../api/client.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy.tsx';
import { RequestLink } from './request-link.tsx';

export function RowsSkeleton({ rows = 8 }: { rows?: number }): ReactNode {
  return (
    <div role="status" aria-label="Loading" className="space-y-5 p-4">
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

export function Problem({ error, retry }: { error: unknown; retry?: () => void }): ReactNode {
  const requestId = error instanceof ApiError ? error.requestId : null;
  return (
    <div role="alert" className="m-4 max-w-xl rounded-lg border border-line p-4">
      <p className="text-bad">{sentenceOf(error)}</p>
      {requestId !== null && (
        <p className="mt-1 flex items-center gap-1 text-sm text-muted">
          Request <RequestLink id={requestId} />
          <CopyButton text={requestId} what="request id" />
        </p>
      )}
      {retry && (
        <Button className="mt-3" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}

/** An empty list: what it will hold, and how to fill it. */
export function Empty({ title, children }: { title: string; children?: ReactNode }): ReactNode {
  return (
    <div className="mx-auto max-w-2xl px-4 py-16">
      <h2 className="text-lg font-medium">{title}</h2>
      <div className="mt-2 space-y-3 text-muted">{children}</div>
    </div>
  );
}

export function Code({ text, what }: { text: string; what: string }): ReactNode {
  return (
    <div className="relative rounded-lg border border-line bg-side text-text">
      <pre
        tabIndex={0}
        aria-label={what}
        className="overflow-x-auto p-3 pr-12 font-mono text-xs leading-relaxed"
      >
        {text}
      </pre>
      <span className="absolute top-1.5 right-1.5">
        <CopyButton text={text} what={what} />
      </span>
    </div>
  );
}
