/** Covers a page whose session has ended (cover.tsx). The form is loaded then. */
import { lazy, type ReactNode, Suspense } from 'react';
import { usePageCovered } from '../../api/cover.ts';
import { importWhenOnline } from '../../lib/lazy-import.ts';

const Cover = lazy(async () => {
  const form = await importWhenOnline(() => import('./cover.tsx'));
  return { default: form.Cover };
});

export function SignInAgain(): ReactNode {
  return usePageCovered() ? (
    <Suspense>
      <Cover />
    </Suspense>
  ) : null;
}
