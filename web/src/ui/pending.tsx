import type { ReactNode } from 'react';
import { useIsImportWaiting } from '../lib/lazy-import.ts';
import { PageSkeleton } from './states.tsx';

/** A screen that is not loaded yet. */
export function Pending(): ReactNode {
  const isWaiting = useIsImportWaiting();
  return (
    <>
      {isWaiting && (
        <p role="status" className="border-b border-line px-(--page-x) py-1 text-sm text-muted">
          The service cannot be reached. This page opens as soon as it can.
        </p>
      )}
      <div aria-hidden className="px-(--page-x) pt-4 pb-5 min-[900px]:pt-6">
        <div className="skeleton h-6.5 w-36" />
      </div>
      <PageSkeleton />
    </>
  );
}
