/** The address of a recipient, as a link to its page. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useScope } from '../api/scope.ts';
import { Address } from './address.tsx';

export function RecipientLink({
  address,
  className = '',
}: {
  address: string;
  className?: string;
}): ReactNode {
  const scope = useScope();
  return (
    <Link
      to="/$project/$environment/recipients/$address"
      params={{ ...scope, address }}
      preload={false}
      className={`cell-link ${className}`}
    >
      <Address address={address} />
    </Link>
  );
}
