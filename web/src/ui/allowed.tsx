/**
 * What the role of the member permits. The service decides each request by the same table (src/http/roles.ts);
 * here it keeps what would be refused from being offered.
 */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { includesRole, type Role } from '../../../src/core/roles.ts';
import { leastRole, type Operation } from '../../../src/http/roles.ts';
import { call } from '../api/client.ts';
import { sessionQuery } from '../api/session.ts';
import { PageHead } from './page.tsx';
import { Empty } from './states.tsx';

export type { Operation };

/** null until it is known. */
export function useRole(): Role | null {
  return useQuery(sessionQuery).data?.member.role ?? null;
}

/** Whether the member may use an operation of the API. */
export function useMay(): (operation: Operation) => boolean {
  const role = useRole();
  return (operation) => role !== null && includesRole(role, leastRole(operation));
}

/** Shows what uses an operation, like its button, to those who may use it. */
export function Allowed({ to, children }: { to: Operation; children: ReactNode }): ReactNode {
  return useMay()(to) ? children : null;
}

/** A whole screen for those who may read what it shows; others learn who could. */
export function AllowedScreen(props: {
  to: Operation;
  title: string;
  children: ReactNode;
}): ReactNode {
  const role = useRole();
  const least = leastRole(props.to);
  if (role === null) return null;
  if (includesRole(role, least)) return props.children;
  return (
    <>
      <PageHead title={props.title} />
      <Empty title={`This page needs the role ${least}`}>
        <p>Your role is {role}.</p>
        <WhoHas least={least} />
      </Empty>
    </>
  );
}

function WhoHas({ least }: { least: Role }): ReactNode {
  const members = useQuery({
    queryKey: ['members', 'all'],
    queryFn: ({ signal }) => call('listMembers', { query: { limit: 100 }, signal }),
  });
  const names = members.data?.data
    .filter(({ role }) => includesRole(role, 'admin'))
    .map(({ name, email }) => `${name} (${email})`);
  if (!names || names.length === 0) return null;
  return (
    <p>
      {names.join(', ')} can give you the role {least}.
    </p>
  );
}
