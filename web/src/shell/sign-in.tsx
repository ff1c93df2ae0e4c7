/** Signing in; and the first owner, by the link that the first start prints. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type FormEvent, type ReactNode, useEffect, useState } from 'react';
import { ApiError, call, keyOfTab } from '../api/client.ts';
import { sessionQuery, setupQuery } from '../api/session.ts';
import { Button } from '../ui/button.tsx';
import { Field, textsOf } from '../ui/field.tsx';
import { Problem, sentenceOf } from '../ui/states.tsx';

export function SignIn(): ReactNode {
  const setup = useQuery(setupQuery);
  const firstToken = /^#first=(.+)$/.exec(location.hash)?.[1];
  useEffect(() => {
    document.title = 'Sign in · Posthorn';
  }, []);
  return (
    <main className="mx-auto flex min-h-full max-w-sm flex-col justify-center px-4 py-10">
      <img src="/dashboard/icon.svg" alt="" width={36} height={36} className="mb-4" />
      {setup.isError && <Problem error={setup.error} retry={() => void setup.refetch()} />}
      {setup.data === 'key' && <WithKey />}
      {setup.data === 'owner' && (firstToken ? <FirstOwner token={firstToken} /> : <NoOwnerYet />)}
      {setup.data === 'password' && <WithPassword />}
    </main>
  );
}

/** A form that signs in: its button waits, its failure is said above the button. */
function SignInForm(props: {
  title: string;
  about: string;
  action: string;
  send: (form: FormData) => Promise<unknown>;
  children: ReactNode;
}): ReactNode {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const { to = '/' } = useSearch({ from: '/sign-in' });
  const [state, setState] = useState<{ isSending: boolean; failure: string | null }>({
    isSending: false,
    failure: null,
  });
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    setState({ isSending: true, failure: null });
    try {
      await props.send(new FormData(event.currentTarget));
      cache.clear();
      if ((await cache.fetchQuery(sessionQuery)) === null)
        throw new Error('The API key is not valid.');
      // Only paths of the dashboard.
      await navigate({ to: to.startsWith('/') && !to.startsWith('//') ? to : '/' });
    } catch (error) {
      setState({ isSending: false, failure: sentenceOf(error) });
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)} className="space-y-4">
      <div>
        <h1 className="text-xl font-semibold">{props.title}</h1>
        <p className="mt-1 text-muted">{props.about}</p>
      </div>
      {props.children}
      {state.failure !== null && (
        <p role="alert" className="text-sm text-bad">
          {state.failure}
        </p>
      )}
      <Button type="submit" look="primary" disabled={state.isSending} className="h-9 w-full">
        {props.action}
      </Button>
    </form>
  );
}

function WithPassword(): ReactNode {
  const [needsCode, setNeedsCode] = useState(false);
  const send = async (form: FormData): Promise<void> => {
    const { code, ...rest } = textsOf(form);
    try {
      await call('POST', '/v1/session', { body: code ? { ...rest, code } : rest });
    } catch (error) {
      if (error instanceof ApiError && error.code === 'code_required') setNeedsCode(true);
      throw error;
    }
  };
  return (
    <SignInForm
      title="Sign in"
      about="To the dashboard of this installation."
      action="Sign in"
      send={send}
    >
      <Field label="Email" name="email" type="email" autoComplete="username" required autoFocus />
      <Field
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        required
      />
      {needsCode && (
        <Field
          label="Code of your authenticator"
          name="code"
          inputMode="numeric"
          autoComplete="one-time-code"
        />
      )}
    </SignInForm>
  );
}

function FirstOwner({ token }: { token: string }): ReactNode {
  const send = (form: FormData): Promise<unknown> =>
    call('POST', '/v1/session/owner', { body: { token, ...textsOf(form) } });
  return (
    <SignInForm
      title="Welcome to Posthorn"
      about="Create the account that owns this installation. It can invite others."
      action="Create the account"
      send={send}
    >
      <Field label="Email" name="email" type="email" autoComplete="username" required autoFocus />
      <Field label="Name" name="name" autoComplete="name" required />
      <Field
        label="Password"
        name="password"
        type="password"
        autoComplete="new-password"
        minLength={12}
        required
      />
    </SignInForm>
  );
}

function NoOwnerYet(): ReactNode {
  return (
    <div className="space-y-2">
      <h1 className="text-xl font-semibold">Nobody owns this installation yet</h1>
      <p className="text-muted">
        The service printed a link when it was started for the first time. Open it to create the
        first account.
      </p>
    </div>
  );
}

function WithKey(): ReactNode {
  const send = async (form: FormData): Promise<void> =>
    keyOfTab.keep(textsOf(form)['key']?.trim() ?? '');
  return (
    <SignInForm
      title="Open a project"
      about="Accounts with passwords come with a later version. Until then an API key with full access opens its project and environment; it is kept in this tab only."
      action="Open"
      send={send}
    >
      <Field label="API key" name="key" type="password" autoComplete="off" required autoFocus />
    </SignInForm>
  );
}
