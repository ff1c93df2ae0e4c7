/** The identity provider that members may sign in with (OpenID Connect, docs/sign-in.md). */
import { isIP } from 'node:net';
import { type Role, ROLES } from '../core/member-roles.ts';
import { isLoopback } from '../net/ip-addresses.ts';
import type { EnvReader } from './env-reader.ts';

/** Members of one of these groups get the role. */
export type RoleRule = { role: Role; groups: readonly string[] };

export type OidcConfig = {
  /** As the provider writes it: with or without a trailing slash. */
  issuer: string;
  clientId: string;
  /** null: a public client, which proves itself by PKCE alone. */
  clientSecret: string | null;
  /** The provider's name on the sign-in page. */
  name: string;
  scope: string;
  /** Path of the claim with the groups. */
  groupsClaim: readonly string[];
  /** null: roles are those of invitations and of the page Members. */
  roles: readonly RoleRule[] | null;
  /** Who becomes a member at the first sign-in. `mapped`: everybody whose groups have a role. */
  admits: 'invited' | 'mapped';
  /** Takes addresses as verified when the provider does not say so. */
  trustsEmail: boolean;
  /** Members who have signed in with the provider can no longer use a password. */
  endsPasswords: boolean;
};

const SCOPE = 'openid email profile';
const GROUPS_CLAIM = ['groups'];
const NAME_CHARACTERS_MAX = 40;

const ISSUER = 'LETTERHAUS_OIDC_ISSUER';
const ISSUER_RULE =
  'write the https URL of the issuer, exactly as the provider shows it, such as https://login.example.com/realms/acme';
const SCOPE_RULE = 'write scopes with spaces between them, openid first: openid email profile';
const CLAIM_RULE =
  'write the name of the claim, such as groups, a path such as realm_access.roles, or a JSON pointer';
const ROLES_RULE = 'write it as owner=mail-admins;developer=engineering,support';
const JOIN_RULE = 'write invited, or roles';

export function readOidc(read: EnvReader): OidcConfig | null {
  const issuer = read.parsed(ISSUER, parseIssuer, ISSUER_RULE);
  const clientId = read.text('LETTERHAUS_OIDC_CLIENT_ID');
  const clientSecret = read.secret('LETTERHAUS_OIDC_CLIENT_SECRET', (text) => text, 'set it');
  const name = read.parsed(
    'LETTERHAUS_OIDC_NAME',
    parseName,
    `write a name of at most ${NAME_CHARACTERS_MAX} characters`,
  );
  const scope = read.parsed('LETTERHAUS_OIDC_SCOPES', parseScope, SCOPE_RULE) ?? SCOPE;
  const groupsClaim = read.parsed('LETTERHAUS_OIDC_ROLE_CLAIM', parseClaimPath, CLAIM_RULE);
  const roles = read.parsed('LETTERHAUS_OIDC_ROLES', parseRoles, ROLES_RULE);
  const admits = read.parsed('LETTERHAUS_OIDC_JOIN', parseJoin, JOIN_RULE) ?? 'invited';
  const trustsEmail = read.flag('LETTERHAUS_OIDC_TRUST_EMAIL');
  const endsPasswords = read.flag('LETTERHAUS_OIDC_ONLY');
  if (read.text(ISSUER) === null) return null;
  if (clientId === null) {
    read.addProblem(
      'LETTERHAUS_OIDC_CLIENT_ID',
      `it is needed with ${ISSUER}; write the id of the client that you registered with the provider.`,
    );
  }
  if (admits === 'mapped' && roles === null) {
    const problem = 'roles needs LETTERHAUS_OIDC_ROLES; set it, or write invited.';
    read.addProblem('LETTERHAUS_OIDC_JOIN', problem);
  }
  if (issuer === null || clientId === null) return null;
  return Object.freeze({
    issuer,
    clientId,
    clientSecret,
    name: name ?? new URL(issuer).hostname,
    scope,
    groupsClaim: groupsClaim ?? GROUPS_CLAIM,
    roles,
    admits,
    trustsEmail,
    endsPasswords,
  });
}

/** Clear text is for a provider on this machine only. */
function parseIssuer(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '') return null;
  if (url.search !== '' || url.hash !== '') return null;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const isLocal = host === 'localhost' || (isIP(host) !== 0 && isLoopback(host));
  // Endpoints of Entra for accounts of any tenant: every tenant would be the provider.
  if (/^\/(common|organizations|consumers)(\/|$)/.test(url.pathname)) return null;
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLocal) ? text : null;
}

function parseName(text: string): string | null {
  const isPrintable = !/[\p{Cc}\p{Cf}]/u.test(text);
  return isPrintable && [...text].length <= NAME_CHARACTERS_MAX ? text : null;
}

function parseScope(text: string): string | null {
  const scopes = text.split(/\s+/);
  const areValid = scopes.every((scope) => /^[!#-[\]-~]+$/.test(scope));
  return areValid && scopes.includes('openid') ? scopes.join(' ') : null;
}

/** Parses a dotted path. A JSON pointer (RFC 6901) is for claims with dots in their names. */
function parseClaimPath(text: string): string[] | null {
  const isPointer = text.startsWith('/');
  const parts = isPointer ? text.slice(1).split('/') : text.split('.');
  if (parts.some((part) => part === '')) return null;
  return isPointer ? parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')) : parts;
}

function parseRoles(text: string): RoleRule[] | null {
  const rules = text
    .split(';')
    .map((rule) => rule.trim())
    .filter((rule) => rule !== '')
    .map(parseRoleRule);
  const valid = rules.filter((rule) => rule !== null);
  const isEachRoleOnce = new Set(valid.map(({ role }) => role)).size === rules.length;
  return rules.length > 0 && isEachRoleOnce ? valid : null;
}

function parseRoleRule(text: string): RoleRule | null {
  const [name = '', ...groupTexts] = text.split('=');
  const role = ROLES.find((known) => known === name.trim());
  const groups = groupTexts
    .join('=')
    .split(',')
    .map((group) => group.trim())
    .filter((group) => group !== '');
  return role === undefined || groups.length === 0 ? null : { role, groups };
}

function parseJoin(text: string): OidcConfig['admits'] | null {
  if (/^invited$/i.test(text)) return 'invited';
  return /^roles$/i.test(text) ? 'mapped' : null;
}
