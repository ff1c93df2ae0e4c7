/**
 * The caller and what it may access. Every query of the store takes a Scope: a project and one of its two
 * environments. Objects outside of it are not found.
 */

export const ENVIRONMENTS = ['live', 'test'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export type Scope = { projectId: string; environment: Environment };

export const PERMISSIONS = ['full_access', 'sending_access'] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** What a key is limited to. `domain`: the only one it may send from and manage; null: no limit. */
export type KeyLimits = { permission: Permission; domain: string | null; expiresAt: Date | null };

/** A scope, optionally restricted to one sending domain. */
export type Reach = Scope & { domain?: string | null };

export type Caller = Scope & KeyLimits & { organizationId: string; keyId: string };

/** Whether a key with the first limits has more access, or a later expiry, than one with the others. */
export function isBroader(one: KeyLimits, other: KeyLimits): boolean {
  if (one.permission === 'full_access' && other.permission !== 'full_access') return true;
  if (other.domain !== null && one.domain !== other.domain) return true;
  return other.expiresAt !== null && (one.expiresAt === null || one.expiresAt > other.expiresAt);
}
