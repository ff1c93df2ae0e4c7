/**
 * Hides actions that the member's role does not permit. The service checks each request with the same table
 * (src/http/roles.ts).
 */
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { Lock } from 'lucide-react';
import { Fragment, type ReactNode } from 'react';
import { includesRole, type Role, ROLES } from '../../../src/core/member-roles.ts';
import { leastRole, type Operation, ORGANIZATION_OPERATIONS } from '../../../src/http/roles.ts';
import { call } from '../api/client.ts';
import { useScope } from '../api/scope.ts';
import { sessionQuery } from '../api/session.ts';
import { ButtonLink } from './button.tsx';
import { Card } from './card.tsx';
import { PageBody, PageHead } from './page.tsx';
import { Empty } from './states.tsx';

export type { Operation };

/** Returns the role in the organization; null while the session loads. */
export function useRole(): Role | null {
  return useQuery(sessionQuery).data?.member.role ?? null;
}

/** Returns the function that returns the role which counts for an operation: in this project or in the organization. */
function useRoleFor(): (operation: Operation) => Role | null {
  const session = useQuery(sessionQuery).data;
  const { project } = useParams({ strict: false });
  const ofProject = session?.projects.find(({ id }) => id === project)?.role;
  const ofOrganization = session?.member.role ?? null;
  return (operation) =>
    ORGANIZATION_OPERATIONS.has(operation) ? ofOrganization : (ofProject ?? ofOrganization);
}

/** Returns whether the member has roles in some projects only. */
export function useHasSomeProjects(): boolean {
  return useQuery(sessionQuery).data?.member.has_all_projects === false;
}

/** Returns whether the member may use an operation of the API. */
export function useMay(): (operation: Operation) => boolean {
  const roleFor = useRoleFor();
  return (operation) => {
    const role = roleFor(operation);
    return role !== null && includesRole(role, leastRole(operation));
  };
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
  const role = useRoleFor()(props.to);
  const least = leastRole(props.to);
  if (role === null) return null;
  if (includesRole(role, least)) return props.children;
  return (
    <>
      <PageHead title={props.title} />
      <PageBody>
        <Card
          wide={
            <Empty title={titleOf(least)} icon={Lock} action={<ToOverview />}>
              <p>
                You are {WITH_ARTICLE[role]}. <Ask least={least} />
              </p>
            </Empty>
          }
        />
      </PageBody>
    </>
  );
}

function ToOverview(): ReactNode {
  return (
    <ButtonLink to="/$project/$environment/overview" params={useScope()}>
      Go to Overview
    </ButtonLink>
  );
}

const WITH_ARTICLE = {
  owner: 'an owner',
  admin: 'an admin',
  developer: 'a developer',
  viewer: 'a viewer',
} as const satisfies Record<Role, string>;

const allOf = new Intl.ListFormat('en-GB', { type: 'conjunction' });
const anyOf = new Intl.ListFormat('en-GB', { type: 'disjunction' });

function titleOf(least: Role): string {
  const roles = ROLES.filter((role) => includesRole(role, least)).toReversed();
  return `Only ${allOf.format(roles.map((role) => `${role}s`))} can open this page`;
}

const ASKED_MAX = 3;

/** Names members who may give the role: an admin gives all but that of an owner. */
function Ask({ least }: { least: Role }): ReactNode {
  const members = useQuery({
    queryKey: ['members', 'all'],
    queryFn: ({ signal }) => call('listMembers', { query: { limit: 100 }, signal }),
  });
  const asked = (members.data?.data ?? [])
    .filter(({ role }) => includesRole(role, least === 'owner' ? 'owner' : 'admin'))
    .slice(0, ASKED_MAX);
  if (asked.length === 0) return null;
  let index = 0;
  return (
    <>
      Ask{' '}
      {anyOf.formatToParts(asked.map(({ id }) => id)).map(({ type, value }) => {
        if (type === 'literal') return value;
        const { id, name, email } = asked[index++]!;
        return (
          <Fragment key={id}>
            {name} (
            <a href={`mailto:${email}`} className="link">
              {email}
            </a>
            )
          </Fragment>
        );
      })}{' '}
      to make you {WITH_ARTICLE[least]}.
    </>
  );
}
