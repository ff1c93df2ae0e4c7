/**
 * Who is asking, and for what. Every query of the store takes a Scope: a project and one of its
 * two environments. Nothing outside of it exists for the caller.
 */

export const ENVIRONMENTS = ['live', 'test'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export type Scope = { projectId: string; environment: Environment };

export const PERMISSIONS = ['full_access', 'sending_access'] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** The holder of a valid API key. `domain`: the only domain the key may send from, or null. */
export type Caller = Scope & {
  organizationId: string;
  keyId: string;
  permission: Permission;
  domain: string | null;
};
