/** A link to the page of an email. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useScope } from '../api/scope.ts';

export function EmailLink({ id, children }: { id: string; children: ReactNode }): ReactNode {
  const scope = useScope();
  return (
    <Link
      to="/$project/$environment/emails/$id"
      params={{ ...scope, id }}
      preload={false}
      className="link"
    >
      {children}
    </Link>
  );
}
