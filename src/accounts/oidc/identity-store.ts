/** The accounts at the identity provider that members sign in with: at most one for each member. */
import type { Queryable } from '../../database/database.ts';

/** The identifier of an account (OpenID Connect Core §5.7). No other claim is unique for ever. */
export type Identity = { issuer: string; subject: string };

export type LinkedMember = { id: string; organizationId: string; password: string };

const USE = `
with used as (
  update member_identities set last_used_at = app_now() where issuer = $1 and subject = $2 returning member_id
)
select members.id, members.organization_id as "organizationId", members.password
  from used join members on members.id = used.member_id`;

/** Returns the member who signs in with this account, and records the use; null when it is linked to nobody. */
export async function useIdentity(
  db: Queryable,
  { issuer, subject }: Identity,
): Promise<LinkedMember | null> {
  return (await db.query<LinkedMember>(USE, [issuer, subject]))[0] ?? null;
}

const LINK = `
insert into member_identities (issuer, subject, member_id, created_at, last_used_at)
values ($1, $2, $3, app_now(), app_now())
on conflict do nothing
returning 1`;

/** Returns false when the member has another account, or the account another member. */
export async function linkIdentity(
  db: Queryable,
  { issuer, subject }: Identity,
  memberId: string,
): Promise<boolean> {
  return (await db.query(LINK, [issuer, subject, memberId])).length > 0;
}

const HAS = 'select exists (select from member_identities where member_id = $1) as found';

export async function hasIdentity(db: Queryable, memberId: string): Promise<boolean> {
  return (await db.query<{ found: boolean }>(HAS, [memberId]))[0]?.found === true;
}

const UNLINK = 'delete from member_identities where member_id = $1 returning 1';

export async function unlinkIdentity(db: Queryable, memberId: string): Promise<boolean> {
  return (await db.query(UNLINK, [memberId])).length > 0;
}
