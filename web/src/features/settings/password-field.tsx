/** The password that confirms a change of one's own account. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { PasswordConfirmation } from '../../../../sdk/src/api.ts';
import { sessionQuery } from '../../api/session.ts';
import { Field, textOf } from '../../ui/field.tsx';

/** A member without a password must have signed in a few minutes ago instead. */
export function PasswordField(): ReactNode {
  const { data: session } = useQuery(sessionQuery);
  if (session?.member.has_password === false) {
    return (
      <p className="text-muted">You have no password here, so a recent sign-in confirms this.</p>
    );
  }
  return (
    <Field
      label="Password"
      name="password"
      type="password"
      autoComplete="current-password"
      required
    />
  );
}

export function passwordIn(form: FormData): PasswordConfirmation {
  return form.has('password') ? { password: textOf(form, 'password') } : {};
}
