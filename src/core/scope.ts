/** The caller and its access. Every query takes a Scope, and does not find objects outside of it. */

export const ENVIRONMENTS = ['live', 'test'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export type Scope = { projectId: string; environment: Environment };

/** Returns the scope as one string, for a key of a map or of a lock order. */
export function scopeKey({ projectId, environment }: Scope): string {
  return `${projectId} ${environment}`;
}

export const PERMISSIONS = ['full_access', 'sending_access'] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** Limits of a key. `domain`: the only domain it may send from and manage; null: all domains. */
export type KeyLimits = { permission: Permission; domain: string | null; expiresAt: Date | null };

/** The scope of a request; with a `domain`, only objects of this sending domain. */
export type DomainScope = Scope & { domain?: string | null };

export type Caller = Scope & KeyLimits & { organizationId: string; keyId: string };

/** Returns whether the first key has more access or a later expiry than the second one. */
export function isBroader(key: KeyLimits, than: KeyLimits): boolean {
  if (key.permission === 'full_access' && than.permission !== 'full_access') return true;
  if (than.domain !== null && key.domain !== than.domain) return true;
  return than.expiresAt !== null && (key.expiresAt === null || key.expiresAt > than.expiresAt);
}
