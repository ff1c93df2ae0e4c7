/** Reads what an identity provider says about an account. Providers are trusted to sign in, not to send valid types. */
import type { RoleRule } from '../../config/oidc.ts';
import { ROLES, type Role } from '../../core/member-roles.ts';
import { isObject } from '../../lib/json.ts';
import type { Identity } from './identity-store.ts';

type Claims = Readonly<Record<string, unknown>>;

export type Account = Identity & {
  email: string | null;
  isEmailVerified: boolean;
  name: string | null;
  groups: readonly string[];
  /** The provider asked for a second factor at this sign-in (RFC 8176 §2). */
  hasSecondFactor: boolean;
};

const GROUPS_MAX = 2_000;
/** As that of a member's name in the API. */
const NAME_CHARACTERS_MAX = 100;

/**
 * @param idToken claims of the verified ID token; they have precedence
 * @param userInfo claims of the UserInfo endpoint; empty when it was not asked
 */
export function readAccount(
  { idToken, userInfo }: { idToken: Claims & { iss: string; sub: string }; userInfo: Claims },
  groupsClaim: readonly string[],
): Account {
  const claims = { ...userInfo, ...idToken };
  const { email, email_verified: isVerified, amr } = claims;
  // The address and its verification must come from one place.
  const verifiedBy = 'email' in idToken ? idToken['email_verified'] : isVerified;
  return {
    issuer: idToken.iss,
    subject: idToken.sub,
    email: textOf(email),
    // Some providers write it as text.
    isEmailVerified: verifiedBy === true || verifiedBy === 'true',
    name: nameOf(claims),
    groups: groupsOf(claimAt(claims, groupsClaim)),
    hasSecondFactor: Array.isArray(amr) && amr.includes('mfa'),
  };
}

/** Returns whether the ID token lacks something that the UserInfo endpoint may have. */
export function lacksClaims(idToken: Claims, groupsClaim: readonly string[] | null): boolean {
  const lacksGroups = groupsClaim !== null && claimAt(idToken, groupsClaim) === undefined;
  return lacksGroups || idToken['email'] === undefined || idToken['name'] === undefined;
}

/** Returns the highest role of these groups; null when none of them has one. */
export function roleOf(groups: readonly string[], rules: readonly RoleRule[]): Role | null {
  const granted = rules.filter((rule) => rule.groups.some((group) => groups.includes(group)));
  return ROLES.find((role) => granted.some((rule) => rule.role === role)) ?? null;
}

function claimAt(claims: Claims, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, part) => (isObject(value) && Object.hasOwn(value, part) ? value[part] : undefined),
    claims,
  );
}

/** Groups are a list, one name, or the keys of an object (Zitadel). */
function groupsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  const list = Array.isArray(value) ? value : isObject(value) ? Object.keys(value) : [];
  return list.filter((group): group is string => typeof group === 'string').slice(0, GROUPS_MAX);
}

function nameOf(claims: Claims): string | null {
  const name = textOf(claims['name']) ?? textOf(claims['preferred_username']);
  const characters = [...(name ?? '').replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()];
  return characters.slice(0, NAME_CHARACTERS_MAX).join('').trim() || null;
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}
