/** The sign-in policy: the owners of the installation may require a second factor of everybody. */
import { entityTagOf, type IsExpected } from '../../core/entity-tag.ts';
import { CHANGED_SINCE, type Refusal } from '../../core/refusals.ts';
import type { Database, Queryable } from '../../database/database.ts';

/** Whether a second factor is required, for a select list. */
export const IS_SECOND_FACTOR_REQUIRED = `
       exists (select from sign_in_policy where second_factor_required_at is not null)`;

const READ = `
select second_factor_required_at as "requiredAt",
       (select count(*)::int from members
         where totp_enabled_at is null
           and not exists (select from passkeys where passkeys.member_id = members.id)) as "membersWithout"
  from (select) one_row left join sign_in_policy on true`;

/** `membersWithout`: number of members without a second factor. */
export type SignInPolicy = { requiredAt: Date | null; membersWithout: number };

export async function readPolicy(db: Queryable): Promise<SignInPolicy> {
  const [row] = await db.query<SignInPolicy>(READ);
  return row ?? { requiredAt: null, membersWithout: 0 };
}

/** Changes with what `changePolicy` can change, and not with the members. */
export function tagOfPolicy({ requiredAt }: Pick<SignInPolicy, 'requiredAt'>): string {
  return entityTagOf({ secondFactorRequiredAt: requiredAt?.toISOString() ?? null });
}

// Makes the row that a new installation does not have yet.
const LOCK = `
insert into sign_in_policy (second_factor_required_at) values (null)
on conflict (only_row) do update set second_factor_required_at = sign_in_policy.second_factor_required_at`;

/** Changes the policy, or returns why it does not. Two changes follow one another. */
export function changePolicy(
  db: Pick<Database, 'transaction'>,
  { isRequired, isExpected }: { isRequired: boolean; isExpected: IsExpected },
): Promise<Refusal | null> {
  return db.transaction(async (tx) => {
    await tx.query(LOCK);
    if (!isExpected(tagOfPolicy(await readPolicy(tx)))) return CHANGED_SINCE;
    if (isRequired) await requireSecondFactor(tx);
    else await makeSecondFactorOptional(tx);
    return null;
  });
}

const REQUIRE = `
with policy as (
  insert into sign_in_policy (second_factor_required_at) values (app_now())
  on conflict (only_row) do update
     set second_factor_required_at = coalesce(sign_in_policy.second_factor_required_at, excluded.second_factor_required_at)
)
delete from sessions using members
 where members.id = sessions.member_id and members.totp_enabled_at is null and not sessions.has_second_factor
returning 1`;

/** Requires a second factor. Ends the sessions that began without one, and returns their number. */
export async function requireSecondFactor(db: Queryable): Promise<number> {
  return (await db.query(REQUIRE)).length;
}

export async function makeSecondFactorOptional(db: Queryable): Promise<void> {
  await db.query('update sign_in_policy set second_factor_required_at = null');
}

const MUST_KEEP = `
select ${IS_SECOND_FACTOR_REQUIRED} as required,
       (select count(*)::int from passkeys where member_id = $1) as passkeys,
       exists (select from members where id = $1 and totp_enabled_at is not null) as totp`;

export type OwnFactors = { required: boolean; passkeys: number; totp: boolean };

export async function readFactors(db: Queryable, memberId: string): Promise<OwnFactors> {
  const [row] = await db.query<OwnFactors>(MUST_KEEP, [memberId]);
  return row ?? { required: false, passkeys: 0, totp: false };
}
