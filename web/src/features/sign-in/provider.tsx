/**
 * Signing in with the identity provider: a button that leads there, and what continues when the provider sends the
 * browser back.
 */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { ApiError, call } from '../../api/client.ts';
import { setupQuery } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { sentenceOf } from '../../ui/states.tsx';
import { SignInForm } from './forms.tsx';

/** The page to continue on, while the browser is at the provider. */
const PAGE_KEY = 'letterhaus-sign-in-to';

export function pageBeforeProvider(): string | null {
  const page = sessionStorage.getItem(PAGE_KEY);
  sessionStorage.removeItem(PAGE_KEY);
  return page;
}

/** Shows nothing in an installation without an identity provider. */
export function ProviderButton({ to }: { to: string }): ReactNode {
  const { data: setup } = useQuery(setupQuery);
  const [failure, setFailure] = useState<string | null>(null);
  if (!setup?.oidc) return null;
  const begin = async (): Promise<void> => {
    setFailure(null);
    try {
      const { url } = await call('startOidcSignIn');
      sessionStorage.setItem(PAGE_KEY, to);
      location.assign(url);
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  return (
    <div className="mt-4 space-y-4 border-t border-line pt-4">
      <Button className="w-full" onClick={() => void begin()}>
        Sign in with {setup.oidc.name}
      </Button>
      {failure !== null && (
        <p role="alert" className="text-sm text-bad">
          {failure}
        </p>
      )}
    </div>
  );
}

/** Leads to another tab, so that the page below stays as it is. */
export function ProviderLink(): ReactNode {
  const { data: setup } = useQuery(setupQuery);
  if (!setup?.oidc) return null;
  return (
    <p className="mt-4 border-t border-line pt-4 text-sm">
      <a href="/dashboard/sign-in" target="_blank" rel="noopener" className="link">
        Sign in with {setup.oidc.name} in another tab
      </a>
      , then return here.
    </p>
  );
}

/** @param props.response what the provider sent with the browser */
export function FromProvider(props: {
  response: string;
  onSignedIn: () => Promise<void>;
}): ReactNode {
  const [state, setState] = useState<'sending' | 'code' | { failure: string }>('sending');
  const hasBegun = useRef(false);
  const finish = async (code: string): Promise<void> => {
    const body = { response: props.response, ...(code !== '' && { code }) };
    await call('signInWithOidc', { body });
  };
  useEffect(() => {
    // A response is used once.
    if (hasBegun.current) return;
    hasBegun.current = true;
    finish('')
      .then(props.onSignedIn)
      .catch((error: unknown) => {
        const needsCode = error instanceof ApiError && error.code === 'totp_required';
        setState(needsCode ? 'code' : { failure: sentenceOf(error) });
      });
  });
  if (state === 'sending') return <p role="status">Signing in …</p>;
  if (state === 'code') {
    return (
      <SignInForm
        title="Second factor"
        about="Your account also needs a code."
        action="Sign in"
        send={(form) => finish(textOf(form, 'code'))}
        onSignedIn={props.onSignedIn}
      >
        <Field
          label="Code"
          name="code"
          hint="Code from your authenticator app, or a recovery code"
          autoComplete="one-time-code"
          required
          autoFocus
        />
      </SignInForm>
    );
  }
  return (
    <div className="space-y-4">
      <h1 className="text-xl font-semibold">You are not signed in</h1>
      <p role="alert" className="text-bad">
        {state.failure}
      </p>
      <a href="/dashboard/sign-in" className="link">
        Back to sign-in
      </a>
    </div>
  );
}
