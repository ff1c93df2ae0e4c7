/** The second factor of members: the sealed secret, the last used period, and recovery codes. */
import type { Queryable } from '../../database/database.ts';

export type Totp = {
  email: string;
  organization: string;
  /** Sealed with the member's id; null before the member has begun. */
  secret: Buffer | null;
  isEnabled: boolean;
  codesLeft: number;
  /** The time of the database. */
  nowS: number;
};

const FIND = `
select members.email, organizations.name as organization, members.totp_secret as secret,
       members.totp_enabled_at is not null as "isEnabled",
       (select count(*)::int from recovery_codes where recovery_codes.member_id = members.id) as "codesLeft",
       extract(epoch from app_now())::float8 as "nowS"
  from members join organizations on organizations.id = members.organization_id
 where members.id = $1`;

export async function findTotp(db: Queryable, memberId: string): Promise<Totp | null> {
  return (await db.query<Totp>(FIND, [memberId]))[0] ?? null;
}

const PREPARE = `
update members set totp_secret = $2, totp_step = null
 where id = $1 and totp_enabled_at is null returning 1`;

/** Stores a secret that waits for its first code. Returns false when the second factor is on already. */
export async function prepareTotp(
  db: Queryable,
  memberId: string,
  secret: Buffer,
): Promise<boolean> {
  return (await db.query(PREPARE, [memberId, secret])).length > 0;
}

const ENABLE = `
with enabled as (
  update members set totp_enabled_at = app_now(), totp_step = $3
   where id = $1 and totp_enabled_at is null and totp_secret = $2 returning id
)
insert into recovery_codes (member_id, sha256)
select id, sha256 from enabled, unnest($4::bytea[]) sha256
returning 1`;

/**
 * Switches the second factor on. Returns false when it is on already, or has another secret meanwhile.
 * @param codes hashes of recovery codes, at least one
 */
export async function enableTotp(
  db: Queryable,
  memberId: string,
  { secret, period, codes }: { secret: Buffer; period: number; codes: readonly Buffer[] },
): Promise<boolean> {
  return (await db.query(ENABLE, [memberId, secret, period, codes])).length > 0;
}

const USE_PERIOD = `
update members set totp_step = $2
 where id = $1 and totp_enabled_at is not null and (totp_step is null or totp_step < $2)
returning 1`;

/** Returns false when a code of this or a later period was used already. */
export async function usePeriod(db: Queryable, memberId: string, period: number): Promise<boolean> {
  return (await db.query(USE_PERIOD, [memberId, period])).length > 0;
}

const USE_CODE = 'delete from recovery_codes where member_id = $1 and sha256 = $2 returning 1';

export async function useRecoveryCode(
  db: Queryable,
  memberId: string,
  sha256: Buffer,
): Promise<boolean> {
  return (await db.query(USE_CODE, [memberId, sha256])).length > 0;
}

const REMOVE = `
with codes as (delete from recovery_codes where member_id = $1)
update members set totp_secret = null, totp_enabled_at = null, totp_step = null where id = $1`;

export async function removeTotp(db: Queryable, memberId: string): Promise<void> {
  await db.query(REMOVE, [memberId]);
}
