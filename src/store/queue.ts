/**
 * The queue of open work: claiming what is due, giving back what was not done.
 *
 * A claim names its holder and counts up: an outcome of an earlier holder, or of an earlier claim,
 * does nothing (store/settle-statement.ts). Claims never wait for one another (`skip locked`).
 */
import { failpoint } from '../core/failpoint.ts';
import type { Environment } from '../core/scope.ts';
import { type Address, addressKey } from '../mail/address.ts';
import type { Queryable } from './database.ts';

export type ClaimedRecipient = {
  projectId: string;
  environment: Environment;
  emailId: string;
  position: number;
  claim: number;
  attempts: number;
  destination: string;
  address: Address;
  dueAt: Date;
  /** Milliseconds until it must have been delivered; negative when that time has passed. */
  remainingMs: number;
  /** The address was suppressed after the email was accepted. */
  suppressed: boolean;
  /** The sending domain was deleted after the email was accepted. */
  domainDeleted: boolean;
};

/**
 * The search starts at a low-water mark: with an old snapshot open (a backup), the dead entries at
 * the low end of the index cannot be removed, and walking over them made a claim 14 times slower.
 */
const CLAIM = `
with due as materialized (
  select q.email_id, q.position
    from queue q
   where q.holder is null and q.due_at >= $3::timestamptz and q.due_at <= app_now()
     and q.destination <> all($4::text[])
   order by q.due_at
   limit $2
     for update skip locked
),
claimed as (
  update queue q set holder = $1::uuid, claim = q.claim + 1
    from due
   where q.email_id = due.email_id and q.position = due.position
  returning q.*
)
select c.project_id as "projectId", c.environment, c.email_id as "emailId", c.position, c.claim,
       c.attempts, c.destination, c.due_at as "dueAt", r.address,
       extract(epoch from e.expires_at - app_now())::float8 * 1000 as "remainingMs",
       exists (select from suppressions s
                where s.project_id = c.project_id and s.environment = c.environment
                  and s.address_key = lower(r.address collate "C")
                  and (s.expires_at is null or s.expires_at > app_now())) as suppressed,
       d.deleted_at is not null as "domainDeleted"
  from claimed c
 cross join lateral (
    select r.address from recipients r
     where r.project_id = c.project_id and r.email_id = c.email_id and r.position = c.position
     limit 1) r
 cross join lateral (
    select e.expires_at, e.domain_id from emails e
     where e.project_id = c.project_id and e.environment = c.environment and e.id = c.email_id
     limit 1) e
 cross join lateral (
    select d.deleted_at from domains d
     where d.project_id = c.project_id and d.id = e.domain_id limit 1) d
 order by c.due_at`;

/**
 * Takes up to `max` due recipients for `holder`, oldest first.
 * @param from due times before this are not looked at; `new Date(0)` looks at all
 * @param blocked destinations that cannot be served now
 */
export function claimDue(
  db: Queryable,
  options: { holder: string; max: number; from: Date; blocked: readonly string[] },
): Promise<ClaimedRecipient[]> {
  return db.query<ClaimedRecipient>({ name: 'claim', text: CLAIM }, [
    options.holder,
    options.max,
    options.from,
    options.blocked,
  ]);
}

const RELEASE = `
update queue q
   set holder = null, due_at = app_now() + $5::int * interval '1 millisecond'
  from unnest($1::uuid[], $2::smallint[], $3::int[]) as i(email_id, position, claim)
 where q.email_id = i.email_id and q.position = i.position and q.claim = i.claim
   and q.email_id = any($1::uuid[]) and q.holder = $4::uuid`;

/** Gives back what was claimed and not tried; it is due again after `delayMs`. */
export async function releaseClaims(
  db: Queryable,
  claims: readonly { emailId: string; position: number; claim: number }[],
  options: { holder: string; delayMs: number },
): Promise<void> {
  failpoint('give_back_before_commit');
  await db.query({ name: 'release', text: RELEASE }, [
    claims.map((claim) => claim.emailId),
    claims.map((claim) => claim.position),
    claims.map((claim) => claim.claim),
    options.holder,
    options.delayMs,
  ]);
}

const RELEASE_EMAILS = `
update queue set holder = null, due_at = app_now()
 where email_id = any($1::uuid[]) and holder = $2::uuid and claim = 1`;

/**
 * Gives back whole emails that nobody here knows of: their accept was answered by nobody. Those
 * that were claimed since are left alone.
 */
export async function releaseEmails(
  db: Queryable,
  emailIds: readonly string[],
  holder: string,
): Promise<void> {
  await db.query(RELEASE_EMAILS, [emailIds, holder]);
}

const RELEASE_STRAYS = `
update queue q set holder = null, due_at = app_now()
 where q.holder = $1::uuid and q.claim > 1
   and not exists (select from unnest($2::uuid[], $3::smallint[]) as k(email_id, position)
                    where k.email_id = q.email_id and k.position = q.position)
returning 1`;

/**
 * Gives back what was claimed for a holder that does not know of it: the claim was committed and
 * its answer lost. What was handed over by an accept has claim 1 and is left alone.
 * @param known what the holder has from claims
 * @returns how many were given back
 */
export async function releaseStrays(
  db: Queryable,
  holder: string,
  known: readonly { emailId: string; position: number }[],
): Promise<number> {
  const emailIds = known.map((one) => one.emailId);
  const positions = known.map((one) => one.position);
  return (await db.query(RELEASE_STRAYS, [holder, emailIds, positions])).length;
}

const SUPPRESSED_NOW = `
select i.ord
  from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality
       as i(project_id, environment, address_key, ord)
 where exists (select from suppressions s
                where s.project_id = i.project_id and s.environment = i.environment
                  and s.address_key = i.address_key
                  and (s.expires_at is null or s.expires_at > app_now()))`;

/** Which of these (by index) are on their suppression list now. */
export async function suppressedAmong(
  db: Queryable,
  recipients: readonly { projectId: string; environment: Environment; address: string }[],
): Promise<Set<number>> {
  const rows = await db.query<{ ord: number }>({ name: 'suppressed', text: SUPPRESSED_NOW }, [
    recipients.map((recipient) => recipient.projectId),
    recipients.map((recipient) => recipient.environment),
    recipients.map((recipient) => addressKey(recipient.address)),
  ]);
  return new Set(rows.map((row) => row.ord - 1));
}

/** Counted as far as that costs next to nothing; beyond it is what the server believes. */
const COUNTED_MAX = 10_000;

// `claim >= 0` is always true; it names the index by due time.
const DEPTH = `
select case when counted.n < ${COUNTED_MAX} then counted.n
            else greatest(counted.n, pg_stat_get_live_tuples('queue'::regclass))::int end as depth,
       coalesce(extract(epoch from app_now() - oldest.due_at), 0)::float8 as "oldestS"
  from (select count(*)::int as n
          from (select from queue order by email_id, position limit ${COUNTED_MAX}) q) counted
  left join (select due_at from queue
              where holder is null and claim >= 0 and due_at <= app_now()
              order by due_at limit 1) oldest on true`;

/**
 * How much is open, and for how long the oldest due recipient has been waiting. For metrics: exact
 * below 10,000, and at no higher cost with a million.
 */
export async function queueDepth(db: Queryable): Promise<{ depth: number; oldestS: number }> {
  const [row] = await db.query<{ depth: number; oldestS: number }>(DEPTH);
  return row ?? { depth: 0, oldestS: 0 };
}
