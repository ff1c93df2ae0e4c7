/** A link to the page of an email. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useScope } from '../api/scope.ts';

/** @param props.isQuiet where each row has one, and the row is about something else */
export function EmailLink(props: {
  id: string;
  isQuiet?: boolean;
  children: ReactNode;
}): ReactNode {
  const { id, isQuiet = false, children } = props;
  const scope = useScope();
  return (
    <Link
      to="/$project/$environment/emails/$id"
      params={{ ...scope, id }}
      preload={false}
      className={isQuiet ? 'cell-link' : 'link'}
    >
      {children}
    </Link>
  );
}
