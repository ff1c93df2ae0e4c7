/** One-time links that expire: one creates the first owner, one sets a member's password. */
import type { Queryable } from '../../database/database.ts';
import { batchDelete } from '../../database/expiry.ts';

export type LinkPurpose = 'owner' | 'password';

// Only the newest link for a purpose and member works.
const CREATE = `
with replaced as (
  delete from sign_in_links where purpose = $2 and member_id is not distinct from $3::uuid
)
insert into sign_in_links (sha256, purpose, member_id, created_at, expires_at)
values ($1, $2, $3, app_now(), app_now() + $4 * interval '1 second')`;

/**
 * Creates a link, which replaces earlier ones for the same member.
 * @param memberId null for the first owner
 */
export async function createLink(
  db: Queryable,
  { sha256, memberId, validForS }: { sha256: Buffer; memberId: string | null; validForS: number },
): Promise<void> {
  const purpose: LinkPurpose = memberId === null ? 'owner' : 'password';
  await db.query(CREATE, [sha256, purpose, memberId, validForS]);
}

export type Link = { memberId: string | null };

const FIND = `
select member_id as "memberId" from sign_in_links
 where sha256 = $1 and purpose = $2 and expires_at > app_now()`;

export async function findLink(
  db: Queryable,
  { sha256, purpose }: { sha256: Buffer; purpose: LinkPurpose },
): Promise<Link | null> {
  return (await db.query<Link>(FIND, [sha256, purpose]))[0] ?? null;
}

const USE = `
delete from sign_in_links where sha256 = $1 and purpose = $2 and expires_at > app_now()
returning member_id as "memberId"`;

/** Deletes and returns the link. Of several concurrent uses, one gets it and the others get null. */
export async function useLink(
  db: Queryable,
  { sha256, purpose }: { sha256: Buffer; purpose: LinkPurpose },
): Promise<Link | null> {
  return (await db.query<Link>(USE, [sha256, purpose]))[0] ?? null;
}

export const deleteExpiredLinks = batchDelete('sign_in_links', 'expires_at <= app_now()');
