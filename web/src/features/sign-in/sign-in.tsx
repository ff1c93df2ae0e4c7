/** Signing in, and the forms behind links: first owner, invitation, new password. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type FormEvent, type ReactNode, useEffect, useState } from 'react';
import { ApiError, call } from '../../api/client.ts';
import { setupQuery } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { Problem, sentenceOf } from '../../ui/states.tsx';

/** A link ends with its purpose and token. The fragment of a URL reaches no server and no log. */
const LINK = /^#(first|reset|invitation)=(.+)$/;

export function SignIn(): ReactNode {
  const [, purpose, token] = LINK.exec(location.hash) ?? [];
  useEffect(() => {
    document.title = 'Sign in · Letterhaus';
  }, []);
  return (
    <main className="mx-auto flex min-h-full max-w-sm flex-col justify-center px-4 py-10">
      <img src="/dashboard/icon.svg" alt="" width={36} height={36} className="mb-4 self-start" />
      {token === undefined && <WithoutLink />}
      {token !== undefined && purpose === 'first' && <FirstOwner token={token} />}
      {token !== undefined && purpose === 'reset' && <NewPassword token={token} />}
      {token !== undefined && purpose === 'invitation' && <Invited token={token} />}
    </main>
  );
}

function WithoutLink(): ReactNode {
  const setup = useQuery(setupQuery);
  if (setup.isError) return <Problem error={setup.error} retry={() => void setup.refetch()} />;
  if (setup.isPending) return null;
  return setup.data.needs_owner ? <NoOwnerYet /> : <WithPassword />;
}

/** A form that signs in. It shows a failure above its button. */
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

/** Asks for a code when the password is right and the member has a second factor. */
function WithPassword(): ReactNode {
  const [needsCode, setNeedsCode] = useState(false);
  const send = async (form: FormData): Promise<void> => {
    try {
      const code = textOf(form, 'code');
      const body = { email: textOf(form, 'email'), password: textOf(form, 'password') };
      await call('signIn', { body: { ...body, ...(code !== '' && { code }) } });
    } catch (error) {
      if (error instanceof ApiError && error.code === 'totp_required') setNeedsCode(true);
      throw error;
    }
  };
  return (
    <SignInForm title="Sign in" about="Use your Letterhaus account." action="Sign in" send={send}>
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
          label="Code"
          name="code"
          hint="Code from your authenticator app, or a recovery code"
          autoComplete="one-time-code"
          required
          autoFocus
        />
      )}
    </SignInForm>
  );
}

function PasswordToChoose(): ReactNode {
  return (
    <Field
      label="Password"
      name="password"
      type="password"
      autoComplete="new-password"
      hint="At least 10 characters."
      minLength={10}
      required
    />
  );
}

function Invited({ token }: { token: string }): ReactNode {
  return (
    <SignInForm
      title="Welcome to Letterhaus"
      about="You have been invited. Choose a password for your account."
      action="Create account"
      send={(form) => {
        const body = { token, name: textOf(form, 'name'), password: textOf(form, 'password') };
        return call('acceptInvitation', { body });
      }}
    >
      <Field label="Name" name="name" autoComplete="name" required autoFocus />
      <PasswordToChoose />
    </SignInForm>
  );
}

function NewPassword({ token }: { token: string }): ReactNode {
  return (
    <SignInForm
      title="Choose a new password"
      about="This signs you out everywhere else."
      action="Set password"
      send={(form) =>
        call('resetPassword', { body: { token, password: textOf(form, 'password') } })
      }
    >
      <PasswordToChoose />
    </SignInForm>
  );
}

function FirstOwner({ token }: { token: string }): ReactNode {
  const send = (form: FormData): Promise<unknown> =>
    call('createOwner', {
      body: {
        token,
        email: textOf(form, 'email'),
        name: textOf(form, 'name'),
        password: textOf(form, 'password'),
      },
    });
  return (
    <SignInForm
      title="Welcome to Letterhaus"
      about="Create the owner account of this installation. You can invite others later."
      action="Create account"
      send={send}
    >
      <Field label="Email" name="email" type="email" autoComplete="username" required autoFocus />
      <Field label="Name" name="name" autoComplete="name" required />
      <PasswordToChoose />
    </SignInForm>
  );
}

function NoOwnerYet(): ReactNode {
  return (
    <div className="space-y-2">
      <h1 className="text-xl font-semibold">This installation has no owner yet</h1>
      <p className="text-muted">
        Open the link that the service printed on its first start to create the owner account. To
        print a new link, run <code className="font-mono text-sm">letterhaus owner link</code> on
        its machine.
      </p>
    </div>
  );
}
