/** Rights of a member: one role in all projects, or a role in each of some. For invitations and changes. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Member, Session } from '../../../../sdk/src/api.ts';
import { sessionQuery } from '../../api/session.ts';
import { useRole } from '../../ui/allowed.tsx';
import { chosenOf, textOf } from '../../ui/field.tsx';
import { FieldRefusal } from '../../ui/form-problems.ts';
import { Select } from '../../ui/select.tsx';

const ROLES = [
  ['developer', 'Developer: can send, and change templates and webhooks'],
  ['viewer', 'Viewer: read-only'],
  ['admin', 'Admin: can also manage domains, keys, suppressions and members'],
  ['owner', 'Owner: full access'],
] as const;

const PROJECT_ROLES = [
  ['', 'No access'],
  ['viewer', 'Viewer'],
  ['developer', 'Developer'],
  ['admin', 'Admin'],
] as const;

const REACHES = [
  ['all', 'All projects'],
  ['some', 'Some projects'],
] as const;

export type Rights = Pick<Member, 'role' | 'projects'>;
/** A role in all projects excludes roles in some. */
export type RightsChange =
  | { role: Member['role']; projects: null }
  | { projects: NonNullable<Member['projects']> };

/** Returns the change that makes these rights. */
export function changeTo({ role, projects }: Rights): RightsChange {
  return projects === null ? { role, projects } : { projects };
}

/** Returns the rights in words, such as "admin in Shop, viewer in Blog". */
export function rightsInWords({ role, projects }: Rights, known: Session['projects']): string {
  if (projects === null) return role;
  const nameOf = (id: string) => known.find((project) => project.id === id)?.name ?? id;
  return projects.map((one) => `${one.role} in ${nameOf(one.id)}`).join(', ');
}

const capitalized = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** Returns the role as a cell: one of all projects, or of each. */
export function roleInWords({ role, projects }: Rights): string {
  const [first, ...others] = new Set(projects === null ? [role] : projects.map((one) => one.role));
  return first === undefined || others.length > 0 ? 'By project' : capitalized(first);
}

/** Returns the projects as a cell, with roles where they differ. */
export function projectsInWords(rights: Rights, known: Session['projects']): string {
  const { projects } = rights;
  if (projects === null) return 'All';
  const hasOne = new Set(projects.map(({ role }) => role)).size === 1;
  return projects
    .map(({ id, role }) => {
      const name = known.find((project) => project.id === id)?.name ?? id;
      return hasOne ? name : `${name}: ${role}`;
    })
    .join(', ');
}

/** The same of a change, which has no role beside projects. */
export function changeInWords(change: RightsChange, known: Session['projects']): string {
  return rightsInWords({ role: 'viewer', ...change }, known);
}

const fieldOf = (projectId: string) => `project ${projectId}`;

export function rightsIn(form: FormData, known: Session['projects']): RightsChange {
  if (chosenOf(form, 'reach', REACHES) === 'all') {
    return { role: chosenOf(form, 'role', ROLES), projects: null };
  }
  const projects = known.flatMap(({ id }) => {
    const role = chosenOf(form, fieldOf(id), PROJECT_ROLES);
    return role === '' || textOf(form, fieldOf(id)) === '' ? [] : [{ id, role }];
  });
  if (projects.length === 0) {
    throw new FieldRefusal('reach', 'Choose a role in at least one project.');
  }
  return { projects };
}

/** Fields of a form. Only an owner can grant the role owner. */
export function RightsFields({ present }: { present?: Rights }): ReactNode {
  const own = useRole();
  const { data: session } = useQuery(sessionQuery);
  const [reach, setReach] = useState<string>(present?.projects ? 'some' : 'all');
  const options = ROLES.filter(([name]) => own === 'owner' || name !== 'owner');
  return (
    <>
      <Select
        label="Access to"
        name="reach"
        options={REACHES}
        chosen={reach}
        onChange={(chosen) => setReach(chosen)}
      />
      {reach === 'all' && (
        <Select label="Role" name="role" options={options} chosen={present?.role} />
      )}
      {reach === 'some' &&
        session?.projects.map(({ id, name }) => (
          <Select
            key={id}
            label={`Role in ${name}`}
            name={fieldOf(id)}
            options={PROJECT_ROLES}
            chosen={present?.projects?.find((one) => one.id === id)?.role}
          />
        ))}
    </>
  );
}
