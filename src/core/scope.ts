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

/** Whom a key admits. null: everybody. A list has at least one entry, in the form of the file that parses it. */
export type AllowLists = {
  /** Networks of the clients that use the key (net/networks.ts). */
  allowedNetworks: readonly string[] | null;
  /** Addresses that it may send from and to (mail/address-patterns.ts). */
  allowedSenders: readonly string[] | null;
  allowedRecipients: readonly string[] | null;
};

export const ALLOW_ALL: AllowLists = {
  allowedNetworks: null,
  allowedSenders: null,
  allowedRecipients: null,
};

/** Limits of a key. `domain`: the only domain it may send from and manage, or null for all domains. */
export type KeyLimits = AllowLists & {
  permission: Permission;
  domain: string | null;
  expiresAt: Date | null;
};

/** The scope of a request; with a `domain`, only objects of this sending domain. */
export type DomainScope = Scope & { domain?: string | null };

/** @property clientAddress where the key is used; absent: a member or the service itself acts, without a key */
export type Caller = Scope &
  KeyLimits & { organizationId: string; keyId: string; clientAddress?: string };

/** Returns whether the first key has more access or a later expiry than the second one. */
export function isBroader(key: KeyLimits, than: KeyLimits): boolean {
  if (key.permission === 'full_access' && than.permission !== 'full_access') return true;
  if (than.domain !== null && key.domain !== than.domain) return true;
  if (isLonger(key.allowedNetworks, than.allowedNetworks)) return true;
  if (isLonger(key.allowedSenders, than.allowedSenders)) return true;
  if (isLonger(key.allowedRecipients, than.allowedRecipients)) return true;
  return than.expiresAt !== null && (key.expiresAt === null || key.expiresAt > than.expiresAt);
}

/** Returns whether the first list has an entry that the second one lacks. Entries are compared as texts. */
function isLonger(list: readonly string[] | null, than: readonly string[] | null): boolean {
  if (than === null) return false;
  return list === null || !list.every((entry) => than.includes(entry));
}
