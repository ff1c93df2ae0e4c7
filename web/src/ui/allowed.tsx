/**
 * Hides actions that the member's role does not permit. The service checks each request with the same table
 * (src/http/roles.ts).
 */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { includesRole, type Role } from '../../../src/core/member-roles.ts';
import { leastRole, type Operation } from '../../../src/http/roles.ts';
import { call } from '../api/client.ts';
import { sessionQuery } from '../api/session.ts';
import { PageHead } from './page.tsx';
import { Empty } from './states.tsx';

export type { Operation };

/** null while the session loads. */
export function useRole(): Role | null {
  return useQuery(sessionQuery).data?.member.role ?? null;
}

/** Returns whether the member may use an operation of the API. */
export function useMay(): (operation: Operation) => boolean {
  const role = useRole();
  return (operation) => role !== null && includesRole(role, leastRole(operation));
}

/** Shows its children only to members who may use the operation. */
export function Allowed({ to, children }: { to: Operation; children: ReactNode }): ReactNode {
  return useMay()(to) ? children : null;
}

/** A screen for members who may read it. Others see which role they need, and who can grant it. */
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
