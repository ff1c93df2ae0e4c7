import type { ReactNode } from 'react';
import { useIsImportWaiting } from '../lib/lazy-import.ts';
import { RowsSkeleton } from './states.tsx';

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
      <RowsSkeleton />
    </>
  );
}
