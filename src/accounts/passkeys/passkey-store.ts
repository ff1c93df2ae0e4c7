/** Passkeys of members. */
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';

export type Passkey = { id: string; name: string; createdAt: Date; lastUsedAt: Date | null };

export type NewPasskey = {
  memberId: string;
  credentialId: Buffer;
  publicKey: Buffer;
  algorithm: number;
  signCount: number;
  name: string;
};

const COLUMNS = `id, name, created_at as "createdAt", last_used_at as "lastUsedAt"`;

const ADD = `
with counted as (select count(*)::int as passkeys from passkeys where member_id = $2),
added as (
  insert into passkeys (id, member_id, credential_id, public_key, algorithm, sign_count, name, created_at)
  select $1, $2, $3, $4, $5, $6, $7, app_now() from counted where passkeys < $8
  on conflict (credential_id) do nothing
  returning ${COLUMNS}
),
marked as (
  update sessions set has_second_factor = true from added where sessions.id = $9 and sessions.member_id = $2
)
select * from added`;

/**
 * Adds a passkey. The session counts as one with a second factor from now on. Returns null when the member has as many
 * as there may be, or the passkey exists.
 */
export async function addPasskey(
  db: Queryable,
  passkey: NewPasskey,
  { sessionId, max }: { sessionId: string; max: number },
): Promise<Passkey | null> {
  const { memberId, credentialId, publicKey, algorithm, signCount, name } = passkey;
  const values = [newId(), memberId, credentialId, publicKey, algorithm, signCount, name];
  return (await db.query<Passkey>(ADD, [...values, max, sessionId]))[0] ?? null;
}

const LIST = `select ${COLUMNS} from passkeys where member_id = $1 order by id desc`;

export function listPasskeys(db: Queryable, memberId: string): Promise<Passkey[]> {
  return db.query<Passkey>(LIST, [memberId]);
}

const LIST_IDS = 'select credential_id as "credentialId" from passkeys where member_id = $1';

export async function listCredentialIds(db: Queryable, memberId: string): Promise<Buffer[]> {
  const rows = await db.query<{ credentialId: Buffer }>(LIST_IDS, [memberId]);
  return rows.map(({ credentialId }) => credentialId);
}

export type StoredKey = { id: string; memberId: string; publicKey: Buffer; algorithm: number };

const FIND = `
select id, member_id as "memberId", public_key as "publicKey", algorithm from passkeys where credential_id = $1`;

export async function findPasskey(db: Queryable, credentialId: Buffer): Promise<StoredKey | null> {
  return (await db.query<StoredKey>(FIND, [credentialId]))[0] ?? null;
}

const USE = `
update passkeys set sign_count = $2, last_used_at = app_now()
 where id = $1 and (sign_count < $2 or (sign_count = 0 and $2 = 0))
returning 1`;

/** Records a use. Returns false when the count did not grow, so the passkey was copied (WebAuthn §6.1.1). */
export async function recordUse(db: Queryable, id: string, signCount: number): Promise<boolean> {
  return (await db.query(USE, [id, signCount])).length > 0;
}

const REMOVE = 'delete from passkeys where id = $1 and member_id = $2 returning 1';

export async function removePasskey(db: Queryable, memberId: string, id: string): Promise<boolean> {
  return (await db.query(REMOVE, [id, memberId])).length > 0;
}

const REMOVE_ALL = 'delete from passkeys where member_id = $1 returning 1';

/** Removes all passkeys of a member, and returns their number. */
export async function removePasskeys(db: Queryable, memberId: string): Promise<number> {
  return (await db.query(REMOVE_ALL, [memberId])).length;
}
