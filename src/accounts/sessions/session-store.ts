/**
 * Sessions of members in the dashboard. A session ends after a week without a request, and at the latest after
 * thirty days. Its token is replaced every hour. The old token stays valid until a minute after the first use of the
 * new one, because requests with it may be under way and the response with the new token may be lost.
 */
import type { ProjectRoles, Role } from '../../core/member-roles.ts';
import type { Environment } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { IS_SECOND_FACTOR_REQUIRED } from './policy-store.ts';
import { newId } from '../../database/ids.ts';

export const SESSION_DAYS = 30;
const IDLE_DAYS = 7;
const ROTATE_AFTER = `interval '1 hour'`;
const OVERLAP = `interval '1 minute'`;
/** Limit on sessions of a member. Signing in again ends the oldest. */
const SESSIONS_MAX = 20;

const IS_VALID = `sessions.created_at > app_now() - interval '${SESSION_DAYS} days'
   and sessions.last_used_at > app_now() - interval '${IDLE_DAYS} days'`;

type NewSession = {
  memberId: string;
  sha256: Buffer;
  /** Truncated, so that it identifies no person (net/ip-addresses.ts networkOf). */
  network: string;
  userAgent: string | null;
  /** It began with a passkey, or with a second factor at the identity provider. */
  hasSecondFactor: boolean;
};

const CREATE = `
with surplus as (
  delete from sessions where id = any(array(
    select id from sessions where member_id = $2 order by id desc offset ${SESSIONS_MAX - 1}))
), seen as (
  update members set last_signed_in = app_now() where id = $2
), session as (
  insert into sessions (id, member_id, network, user_agent, has_second_factor, created_at, last_used_at)
  values ($1, $2, $4, $5, $6, app_now(), app_now())
)
insert into session_tokens (sha256, session_id, created_at) values ($3, $1, app_now())`;

export async function createSession(db: Queryable, session: NewSession): Promise<string> {
  const { memberId, sha256, network, userAgent, hasSecondFactor } = session;
  const id = newId();
  await db.query(CREATE, [id, memberId, sha256, network, userAgent, hasSecondFactor]);
  return id;
}

export type SessionState = {
  id: string;
  createdAt: Date;
  expiresAt: Date;
  memberId: string;
  organizationId: string;
  email: string;
  name: string;
  /** In the organization. */
  role: Role;
  projectRoles: ProjectRoles;
  totpEnabled: boolean;
  hasPassword: boolean;
  hasSecondFactor: boolean;
  /** The installation requires a second factor, and the member has to set it up in this session. */
  mustEnrol: boolean;
  /** The member signed in within the last 15 minutes. */
  isNew: boolean;
  /** The requested project, else the first one; null when the member has a role in none. */
  projectId: string | null;
  /** The key that accepting checks (accounts/keys/key-store.ts findOrCreateMemberKey); null until it is created. */
  keyId: string | null;
};

/** Writes that have to follow the look-up. */
type NeededWrites = { isUnseen: boolean; mayReplace: boolean; isFirstUse: boolean };

const STATE = `sessions.id, sessions.created_at as "createdAt",
       least(sessions.created_at + interval '${SESSION_DAYS} days',
             sessions.last_used_at + interval '${IDLE_DAYS} days') as "expiresAt",
       members.id as "memberId", members.organization_id as "organizationId", members.email, members.name,
       members.role, members.project_roles as "projectRoles",
       members.totp_enabled_at is not null as "totpEnabled",
       members.has_password as "hasPassword", sessions.has_second_factor as "hasSecondFactor",
       members.totp_enabled_at is null and not sessions.has_second_factor and ${IS_SECOND_FACTOR_REQUIRED}
         as "mustEnrol",
       sessions.created_at > app_now() - interval '15 minutes' as "isNew", projects.id as "projectId",
       api_keys.id as "keyId"`;

// $2: project; $3: environment.
const IN_SCOPE = `
  join members on members.id = sessions.member_id
  left join lateral (
    select projects.id from projects
     where projects.organization_id = members.organization_id and ($2::uuid is null or projects.id = $2)
       and (members.project_roles is null or members.project_roles ? projects.id::text)
     order by projects.id limit 1) projects on true
  left join api_keys on api_keys.project_id = projects.id and api_keys.environment = $3
       and api_keys.member_id = members.id
                      and api_keys.revoked_at is null`;

const FIND = `
select ${STATE}, sessions.last_used_at < app_now() - interval '1 minute' as "isUnseen",
       token.expires_at is null and token.created_at < app_now() - ${ROTATE_AFTER}
         and (token.replaced_at is null or token.replaced_at < app_now() - ${OVERLAP}) as "mayReplace",
       exists (select from session_tokens other_token
                where other_token.session_id = sessions.id and other_token.expires_at is null
                  and other_token.created_at < token.created_at) as "isFirstUse"
  from session_tokens token
  join sessions on sessions.id = token.session_id${IN_SCOPE}
 where token.sha256 = $1 and (token.expires_at is null or token.expires_at > app_now()) and ${IS_VALID}`;

export type RequestedScope = { projectId: string | null; environment: Environment };

export async function findSession(
  db: Queryable,
  sha256: Buffer,
  { projectId, environment }: RequestedScope,
): Promise<(SessionState & NeededWrites) | null> {
  const values = [sha256, projectId, environment];
  return (await db.query<SessionState & NeededWrites>(FIND, values))[0] ?? null;
}

const FIND_BY_ID = `
select ${STATE} from sessions${IN_SCOPE}
 where sessions.id = $1 and ${IS_VALID}`;

export async function findSessionById(
  db: Queryable,
  id: string,
  { projectId, environment }: RequestedScope,
): Promise<SessionState | null> {
  return (await db.query<SessionState>(FIND_BY_ID, [id, projectId, environment]))[0] ?? null;
}

const TOUCH = `
with used as (
  update sessions set last_used_at = app_now() where id = $1
)
update session_tokens other_token set expires_at = app_now() + ${OVERLAP}
  from session_tokens token
 where token.sha256 = $2 and other_token.session_id = $1 and other_token.expires_at is null
   and other_token.created_at < token.created_at`;

/** Records a use of the session. An older token then expires after the overlap, because the newest has arrived. */
export async function touchSession(db: Queryable, id: string, sha256: Buffer): Promise<void> {
  await db.query(TOUCH, [id, sha256]);
}

// When several requests with one token replace it at once, the first does. The others wait for its update and then see
// that it is replaced. A new token that was not used for a minute is lost, and is deleted.
const REPLACE = `
with present as (
  update session_tokens set replaced_at = app_now()
   where sha256 = $2 and session_id = $1 and expires_at is null
     and (replaced_at is null or replaced_at < app_now() - ${OVERLAP})
  returning created_at
), lost as (
  delete from session_tokens newer using present
   where newer.session_id = $1 and newer.created_at > present.created_at
     and newer.created_at < app_now() - ${OVERLAP}
)
insert into session_tokens (sha256, session_id, created_at)
select $3, $1, app_now() from present
returning 1`;

/** Returns false when another request has just replaced the token. */
export async function replaceToken(
  db: Queryable,
  id: string,
  { before, after }: { before: Buffer; after: Buffer },
): Promise<boolean> {
  return (await db.query(REPLACE, [id, before, after])).length > 0;
}

const END = 'delete from sessions where id = $1 and member_id = $2 returning 1';

export async function endSession(db: Queryable, memberId: string, id: string): Promise<boolean> {
  return (await db.query(END, [id, memberId])).length > 0;
}

const END_ALL = `
delete from sessions where member_id = $1 and ($2::uuid is null or id <> $2) returning 1`;

/**
 * Ends the sessions of a member, and returns their number.
 * @param except the session that stays; null ends all
 */
export async function endSessions(
  db: Queryable,
  memberId: string,
  except: string | null,
): Promise<number> {
  return (await db.query(END_ALL, [memberId, except])).length;
}

export type OwnSession = {
  id: string;
  network: string;
  userAgent: string | null;
  createdAt: Date;
  lastUsedAt: Date;
};

const LIST = `
select sessions.id, sessions.network, sessions.user_agent as "userAgent", sessions.created_at as "createdAt",
       sessions.last_used_at as "lastUsedAt"
  from sessions where sessions.member_id = $1 and ${IS_VALID}
 order by sessions.id desc`;

export function listSessions(db: Queryable, memberId: string): Promise<OwnSession[]> {
  return db.query<OwnSession>(LIST, [memberId]);
}

const DELETE_EXPIRED = `
delete from sessions where ctid = any(array(
  select sessions.ctid from sessions where not (${IS_VALID}) limit $1))
returning 1`;

const DELETE_EXPIRED_TOKENS = `
delete from session_tokens where ctid = any(array(
  select ctid from session_tokens where expires_at <= app_now() limit $1))
returning 1`;

/** Deletes sessions and tokens that have ended. Returns the number of deleted rows, at most twice `limit`. */
export async function deleteExpiredSessions(db: Queryable, limit: number): Promise<number> {
  const sessions = await db.query(DELETE_EXPIRED, [limit]);
  return sessions.length + (await db.query(DELETE_EXPIRED_TOKENS, [limit])).length;
}
