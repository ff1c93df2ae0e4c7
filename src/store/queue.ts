/**
 * The queue of open work: giving back what was not done. Claiming is in queue-claims.ts.
 *
 * A claim names its holder and counts up: an outcome of an earlier holder, or of an earlier claim,
 * does nothing (store/settle.ts).
 */
import { failpoint } from '../core/failpoint.ts';
import type { Scope } from '../core/scope.ts';
import { addressKey } from '../mail/address.ts';
import type { Queryable } from './postgres/database.ts';

/** What becomes free keeps its age, as far as claims look back: their low-water mark is 60 s behind. */
export const DUE_BY_AGE = `least(app_now(), greatest(q.due_at, app_now() - interval '50 seconds'))`;

const RELEASE = `
update queue q
   set holder = null, provider = i.provider,
       due_at = case when i.delay_ms > 0 then app_now() + i.delay_ms * interval '1 millisecond'
                     else ${DUE_BY_AGE} end
  from unnest($1::uuid[], $2::smallint[], $3::int[], $4::text[], $5::int[], $6::uuid[])
       as i(email_id, position, claim, provider, delay_ms, holder)
 where q.email_id = i.email_id and q.position = i.position and q.claim = i.claim
   and q.email_id = any($1::uuid[]) and q.holder = i.holder
returning 1`;

/**
 * @property delayMs how long it must not be taken again; 0: it keeps its age
 */
export type Release = {
  emailId: string;
  position: number;
  claim: number;
  provider: string;
  holder: string;
  delayMs: number;
};

/**
 * Gives back what was claimed and not tried, with the provider that has become known.
 * @returns how many were still held so
 */
export async function releaseClaims(db: Queryable, claims: readonly Release[]): Promise<number> {
  failpoint('give_back_before_commit');
  const released = await db.query({ name: 'release', text: RELEASE }, [
    claims.map((claim) => claim.emailId),
    claims.map((claim) => claim.position),
    claims.map((claim) => claim.claim),
    claims.map((claim) => claim.provider),
    claims.map((claim) => Math.ceil(claim.delayMs)),
    claims.map((claim) => claim.holder),
  ]);
  return released.length;
}

const HOLD = `
update queue q
   set holder = null, held = true, due_at = app_now() + i.remaining_ms * interval '1 millisecond'
  from unnest($1::uuid[], $2::smallint[], $3::int[], $4::float8[])
       as i(email_id, position, claim, remaining_ms)
 where q.email_id = i.email_id and q.position = i.position and q.claim = i.claim
   and q.email_id = any($1::uuid[]) and q.holder = $5::uuid`;

/** Puts what was claimed on hold until it is released or expires: its sender is paused. */
export async function holdClaims(
  db: Queryable,
  claims: readonly { emailId: string; position: number; claim: number; remainingMs: number }[],
  holder: string,
): Promise<void> {
  await db.query({ name: 'hold_claims', text: HOLD }, [
    claims.map((claim) => claim.emailId),
    claims.map((claim) => claim.position),
    claims.map((claim) => claim.claim),
    claims.map((claim) => claim.remainingMs),
    holder,
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

/** What the queue table says that somebody holds. */
export type Stray = Pick<Release, 'emailId' | 'position' | 'claim' | 'provider'>;

export const STRAYS_MAX = 10_000;

const FIND_STRAYS = `
select q.email_id as "emailId", q.position, q.claim, q.provider
  from queue q
 where q.holder = $1::uuid
   and not exists (select from unnest($2::uuid[], $3::smallint[]) as k(email_id, position)
                    where k.email_id = q.email_id and k.position = q.position)
 limit ${STRAYS_MAX}`;

/**
 * What is held by a holder who does not know of it. Reads the whole queue: every few minutes.
 * @param known what the holder knows of
 */
export function findStrays(
  db: Queryable,
  holder: string,
  known: readonly { emailId: string; position: number }[],
): Promise<Stray[]> {
  const emailIds = known.map((one) => one.emailId);
  const positions = known.map((one) => one.position);
  return db.query<Stray>(FIND_STRAYS, [holder, emailIds, positions]);
}

const STOPPED_NOW = `
select exists (select from suppressions s
                where s.project_id = $1 and s.environment = $2 and s.address_key = $3
                  and (s.expires_at is null or s.expires_at > app_now())) as suppressed,
       exists (select from domains d
                where d.project_id = $1 and d.id = $4
                  and d.deleted_at is not null) as "domainDeleted"`;

/** Whether an address is on its suppression list now, and the sending domain removed. */
export async function stoppedNow(
  db: Queryable,
  recipient: Scope & { address: string; domainId: string },
): Promise<{ suppressed: boolean; domainDeleted: boolean }> {
  const { projectId, environment, address, domainId } = recipient;
  const values = [projectId, environment, addressKey(address), domainId];
  const [row] = await db.query<{ suppressed: boolean; domainDeleted: boolean }>(
    { name: 'stopped_now', text: STOPPED_NOW },
    values,
  );
  return row!;
}

/** 16 MB, about 100,000 rows: read in some milliseconds. */
const COUNTED_PAGES_MAX = 2_000;
const COUNTED_SHARE = `least(1, ${COUNTED_PAGES_MAX}::float8
                       / greatest(1, pg_relation_size('queue') / current_setting('block_size')::int))`;

// No index: with an old snapshot open, dead entries are walked over there, however many. The time is
// asked once: for each of 100,000 rows it took seconds.
const DEPTH = `
with t as materialized (select app_now() as now),
by_provider as (
  select provider, count(*) / ${COUNTED_SHARE} as depth,
         extract(epoch from (select now from t) - min(due_at)
           filter (where holder is null and due_at <= (select now from t)))::float8 as oldest_s
    from queue tablesample system (100 * ${COUNTED_SHARE})
   group by provider
)
select provider, round(depth)::int as depth, coalesce(oldest_s, 0) as "oldestS",
       round(sum(depth) over ())::int as "depthInAll",
       coalesce(max(oldest_s) over (), 0) as "oldestInAllS"
  from by_provider
 order by depth desc
 limit $1`;

/** `oldestS`: for how long the oldest recipient that is due has been waiting; 0 when none is. */
export type QueueDepth = {
  depth: number;
  oldestS: number;
  /** The deepest. */
  providers: { provider: string; depth: number; oldestS: number }[];
};

/**
 * How much is open, in all and by provider. For metrics: exact up to about 100,000 recipients, and from
 * a sample of as many pages beyond, at no higher cost.
 * @param providersMax providers that are told by name
 */
export async function queueDepth(db: Queryable, providersMax: number): Promise<QueueDepth> {
  const rows = await db.query<{
    provider: string;
    depth: number;
    oldestS: number;
    depthInAll: number;
    oldestInAllS: number;
  }>(DEPTH, [providersMax]);
  const providers = rows.map(({ provider, depth, oldestS }) => ({ provider, depth, oldestS }));
  return { depth: rows[0]?.depthInAll ?? 0, oldestS: rows[0]?.oldestInAllS ?? 0, providers };
}
