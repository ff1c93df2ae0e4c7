/** The roles of members. Each role may do everything that the later ones may. */

export const ROLES = ['owner', 'admin', 'developer', 'viewer'] as const;
export type Role = (typeof ROLES)[number];

/** A role in one project. Owners have all projects. */
export const PROJECT_ROLES = ['admin', 'developer', 'viewer'] as const satisfies readonly Role[];
export type ProjectRole = (typeof PROJECT_ROLES)[number];

/**
 * The roles of a member by the id of the project, or null when the role of the organization holds in all projects. A
 * member with project roles has the role viewer in the organization, and none in projects that are not listed.
 */
export type ProjectRoles = Readonly<Record<string, ProjectRole>> | null;

/** Returns whether the member has a role in the project. */
export function hasRoleIn(projectId: string, projectRoles: ProjectRoles): boolean {
  return projectRoles === null || Object.hasOwn(projectRoles, projectId);
}

/** Returns whether `role` may do everything that `required` may. */
export function includesRole(role: Role, required: Role): boolean {
  return ROLES.indexOf(role) <= ROLES.indexOf(required);
}
