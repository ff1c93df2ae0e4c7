/** The caller and its access. Every query takes a Scope, and does not find objects outside of it. */

export const ENVIRONMENTS = ['live', 'test'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export type Scope = { projectId: string; environment: Environment };

export const PERMISSIONS = ['full_access', 'sending_access'] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** Limits of a key. `domain`: the only domain it may send from and manage; null: all domains. */
export type KeyLimits = { permission: Permission; domain: string | null; expiresAt: Date | null };

export type Reach = Scope & { domain?: string | null };

export type Caller = Scope & KeyLimits & { organizationId: string; keyId: string };

/** Returns whether the first key has more access or a later expiry than the second one. */
export function isBroader(one: KeyLimits, other: KeyLimits): boolean {
  if (one.permission === 'full_access' && other.permission !== 'full_access') return true;
  if (other.domain !== null && one.domain !== other.domain) return true;
  return other.expiresAt !== null && (one.expiresAt === null || one.expiresAt > other.expiresAt);
}
