/** The page to sign in, and the forms behind links: first owner, invitation, new password. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useEffect } from 'react';
import { call, signedInAgain } from '../../api/client.ts';
import { coverPage } from '../../api/cover.ts';
import { setupQuery } from '../../api/session.ts';
import { Field, textOf } from '../../ui/field.tsx';
import { Problem } from '../../ui/states.tsx';
import { PasswordForm, SignInForm, Wordmark } from './forms.tsx';
import { PasskeyButton } from './passkey.tsx';
import { FromProvider, pageBeforeProvider, ProviderButton } from './provider.tsx';

/** A link ends with its purpose and token. The fragment of a URL reaches no server and no log. */
const LINK = /^#(first|reset|invitation|oidc)=(.+)$/;

export function SignIn(): ReactNode {
  const [, purpose, token] = LINK.exec(location.hash) ?? [];
  useEffect(() => {
    document.title = 'Sign in · Letterhaus';
  }, []);
  return (
    <main className="flex min-h-full flex-col items-center justify-center px-4 py-10">
      <div className="w-full max-w-100">
        <Wordmark />
        <div className="rounded-xl border border-line bg-surface p-6 shadow-low [--page-x:0px] [--spacing-control:2.25rem]">
          {token === undefined && <WithoutLink />}
          {token !== undefined && purpose === 'first' && <FirstOwner token={token} />}
          {token !== undefined && purpose === 'reset' && <NewPassword token={token} />}
          {token !== undefined && purpose === 'invitation' && <Invited token={token} />}
          {token !== undefined && purpose === 'oidc' && <Returned response={token} />}
        </div>
      </div>
    </main>
  );
}

function WithoutLink(): ReactNode {
  const goOn = useContinue();
  const { to = '/' } = useSearch({ from: '/sign-in' });
  const setup = useQuery(setupQuery);
  if (setup.isError) return <Problem error={setup.error} retry={() => void setup.refetch()} />;
  if (setup.isPending) return null;
  return setup.data.needs_owner ? (
    <NoOwnerYet />
  ) : (
    <>
      <PasswordForm about={`Your account on ${location.host}`} onSignedIn={goOn} />
      <PasskeyButton onSignedIn={goOn} />
      <ProviderButton to={to} />
      <LostPassword />
    </>
  );
}

function LostPassword(): ReactNode {
  return (
    <p className="mt-5 text-sm text-pretty text-muted">
      Forgot your password? Ask the operator of this installation for a link to set a new one.
    </p>
  );
}

/** Continues on the page that was requested. */
function useContinue(): () => Promise<void> {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const search = useSearch({ from: '/sign-in' });
  return async () => {
    const to = pageBeforeProvider() ?? search.to ?? '/';
    cache.clear();
    signedInAgain();
    coverPage(false);
    // Only paths of the dashboard.
    await navigate({ to: to.startsWith('/') && !to.startsWith('//') ? to : '/' });
  };
}

/** The identity provider has sent the browser back. */
function Returned({ response }: { response: string }): ReactNode {
  const goOn = useContinue();
  return <FromProvider response={decodeURIComponent(response)} onSignedIn={goOn} />;
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
  const goOn = useContinue();
  return (
    <>
      <SignInForm
        onSignedIn={goOn}
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
      <ProviderButton to="/" />
    </>
  );
}

function NewPassword({ token }: { token: string }): ReactNode {
  const goOn = useContinue();
  return (
    <SignInForm
      onSignedIn={goOn}
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
  const goOn = useContinue();
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
      onSignedIn={goOn}
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
