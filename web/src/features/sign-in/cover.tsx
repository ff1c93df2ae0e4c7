/**
 * Covers a page whose session has ended, with a form to sign in. The page stays below it, so what was typed is there
 * again after the same member has signed in, here or in another tab. Another member starts anew.
 */
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { createPortal } from 'react-dom';
import { call, signedInAgain } from '../../api/client.ts';
import { coverPage } from '../../api/cover.ts';
import { sessionQuery } from '../../api/session.ts';
import { PasswordForm, Wordmark } from './forms.tsx';
import { PasskeyButton } from './passkey.tsx';
import { ProviderLink } from './provider.tsx';

export function Cover(): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const cache = useQueryClient();
  const [before] = useState(() => cache.getQueryData(sessionQuery.queryKey));
  const goOn = async (): Promise<void> => {
    const session = await call('getSession');
    if (session.member.id !== before?.member.id) return location.assign('/dashboard/');
    cache.setQueryData(sessionQuery.queryKey, session);
    signedInAgain();
    coverPage(false);
    await cache.invalidateQueries();
  };
  const latest = useRef(goOn);
  useEffect(() => {
    // Above all else of the page, which takes no keys and clicks any more.
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLInputElement>('[name="password"]')?.focus();
    const onFocus = (): void => void latest.current().catch(() => {});
    window.addEventListener('focus', onFocus);
    return () => window.removeEventListener('focus', onFocus);
  }, []);
  // Beside an open dialog, which hides the rest of the page from screen readers.
  return createPortal(
    <dialog
      ref={dialog}
      aria-label="Sign in again"
      onCancel={(event) => event.preventDefault()}
      className="m-0 h-full max-h-none w-full max-w-none bg-canvas text-text"
    >
      <div className="flex min-h-full flex-col items-center justify-center px-4 py-10">
        <div className="w-full max-w-100">
          <Wordmark />
          <div className="rounded-xl border border-line bg-surface p-6 shadow-low [--spacing-control:2.25rem]">
            <PasswordForm
              about="You have been signed out. Sign in to continue where you were."
              {...(before && { email: before.member.email })}
              onSignedIn={goOn}
            />
            <PasskeyButton onSignedIn={goOn} />
            <ProviderLink />
          </div>
        </div>
      </div>
    </dialog>,
    document.body,
  );
}
