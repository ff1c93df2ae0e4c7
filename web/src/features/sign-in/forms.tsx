/** Forms that sign in: on the page to sign in, and over a page whose session has ended. */
import { type ReactNode, useState } from 'react';
import { ApiError, call } from '../../api/client.ts';
import { Button } from '../../ui/button.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { FormProblems } from '../../ui/form-problems.ts';
import { Logo } from '../../ui/logo.tsx';
import { useSubmit } from '../../ui/submit.ts';

/** A form that signs in. It shows a failure beside its field, or above its button. */
export function SignInForm(props: {
  title: string;
  about: string;
  action: string;
  send: (form: FormData) => Promise<unknown>;
  onSignedIn: () => Promise<void>;
  children: ReactNode;
}): ReactNode {
  const { form, onSubmit, isSending, failure, problems, attempt } = useSubmit(async (typed) => {
    await props.send(typed);
    await props.onSignedIn();
  });
  return (
    <FormProblems value={problems}>
      <form ref={form} onSubmit={onSubmit} className="space-y-4">
        <div>
          <h1 className="text-xl font-semibold">{props.title}</h1>
          <p className="mt-1 text-muted">{props.about}</p>
        </div>
        {props.children}
        {failure !== null && (
          <p key={attempt} role="alert" className="text-sm text-bad">
            {failure}
          </p>
        )}
        <Button type="submit" look="primary" aria-disabled={isSending} className="w-full">
          {props.action}
        </Button>
      </form>
    </FormProblems>
  );
}

/** Asks for a code when the password is right and the member has a second factor. */
export function PasswordForm(props: {
  about: string;
  /** The account that is expected. */
  email?: string;
  onSignedIn: () => Promise<void>;
}): ReactNode {
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
    <SignInForm
      title="Sign in"
      about={props.about}
      action="Sign in"
      send={send}
      onSignedIn={props.onSignedIn}
    >
      <Field
        label="Email"
        name="email"
        type="email"
        autoComplete="username"
        defaultValue={props.email}
        required
        autoFocus={props.email === undefined}
      />
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

/** The sign and the name above a form. */
export function Wordmark(): ReactNode {
  return (
    <p className="mb-5 flex items-center gap-2.5 text-lg font-semibold">
      <Logo className="size-8" />
      Letterhaus
    </p>
  );
}
