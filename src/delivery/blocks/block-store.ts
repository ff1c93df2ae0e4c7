/**
 * Stores refusals because of a source address or a sending domain, and the blocks that follow from them. Refusals
 * count by provider since its last delivery (delivery/blocks/provider-blocks.ts contains the rules).
 *
 * Guarantee: over all workers and nodes, one message at a time probes a block, and each block ends once.
 */
import type { RefusalSubject } from '../../mail/replies/refusal-subject.ts';
import type { Queryable } from '../../database/database.ts';

/** `subject` is the source address, the host name where the system chooses the address, or the sending domain. */
export type BlockKey = { provider: string; about: 'address' | 'domain'; subject: string };

export type ProviderBlock = BlockKey & {
  refusals: number;
  senders: readonly string[];
  category: string;
  reply: string;
  refusedForMs: number;
  /** Start of the block, or null when not blocked. */
  since: Date | null;
  /** Milliseconds until the next probe, or null when not blocked, or when a message is the probe now. */
  nextProbeInMs: number | null;
  /** The same for a sending domain that was not refused yet. */
  firstOfSenderInMs: number | null;
};

export type BlockRules = {
  afterRefusals: number;
  /** Milliseconds until the first probe. Each further wait is twice as long. */
  firstMs: number;
  longestMs: number;
};

export function blockNameOf({ provider, about, subject }: BlockKey): string {
  return `${provider}\n${about}\n${subject}`;
}

const SENDERS_MAX = 100;
/** Limit on a probe, in case its worker died. A reply to the final dot may take 10 minutes. */
const PROBING_MAX_MS = 15 * 60_000;

const PROBES = '(block.probing_until is null or block.probing_until <= clock.now)';
/**
 * Returns the columns of a block.
 * @param firstMs placeholder of the statement's parameter with the first wait
 */
const columns = (firstMs: string): string => `
       block.provider, block.about, block.subject, block.refusals, block.senders, block.category, block.reply,
       block.since,
       (extract(epoch from clock.now - block.refused_at) * 1000)::float8 as "refusedForMs",
       case when block.since is not null and ${PROBES}
            then greatest(0, extract(epoch from block.next_probe_at - clock.now) * 1000)::float8 end
              as "nextProbeInMs",
       case when block.since is not null and ${PROBES}
            then greatest(0, extract(epoch from block.refused_at - clock.now) * 1000 + ${firstMs}::float8)::float8
            end as "firstOfSenderInMs"`;

const REFUSE = `
with clock as materialized (select app_now() as now),
counted as (
  insert into provider_blocks
    as block (provider, about, subject, refusals, is_clear, senders, category, reply, wait_ms,
                                    refused_at, changed_at, since, next_probe_at)
  select $1::text, $2::text, $3::text, 1, $4::boolean, array[$5::text], $6::text, $7::text, $8::float8,
         clock.now, clock.now, case when $10::int <= 1 and $4::boolean then clock.now end,
         case when $10::int <= 1 and $4::boolean then clock.now + $8::float8 * interval '1 millisecond' end
    from clock
  on conflict (provider, about, subject) do update
     set refusals = block.refusals + 1, category = excluded.category, reply = excluded.reply,
         senders = case when $5 = any(block.senders)
           or cardinality(block.senders) >= ${SENDERS_MAX} then block.senders
                        else block.senders || $5 end,
         is_clear = block.is_clear or $4, refused_at = excluded.refused_at, changed_at = excluded.changed_at,
         since = coalesce(block.since, case when block.refusals + 1 >= $10
                          and (block.is_clear or $4 or cardinality(block.senders) > 1
                               or $5 <> all(block.senders))
                          then excluded.changed_at end),
         wait_ms = case when block.since is null then $8::float8
                        when $11::boolean then least($9::float8, block.wait_ms * 2) else block.wait_ms end,
         probing_until = case when $11 then null else block.probing_until end,
         next_probe_at = case when block.since is null then excluded.changed_at + $8 * interval '1 millisecond'
                              when $11 then excluded.changed_at
                                            + least($9::float8, block.wait_ms * 2) * interval '1 millisecond'
                              else block.next_probe_at end
  returning *
)
select ${columns('$8')} from counted block, clock`;

type CountedRefusal = {
  senderDomain: string;
  refusedKind: RefusalSubject;
  category: string;
  reply: string;
  isProbe: boolean;
};

/** Counts a refusal. The last of `afterRefusals` in a row begins the block. The refusal of a probe doubles the wait. */
export async function countRefusal(
  db: Queryable,
  { provider, about, subject }: BlockKey,
  refusal: CountedRefusal & { rules: BlockRules },
): Promise<ProviderBlock> {
  const { senderDomain, category, reply, isProbe, rules } = refusal;
  // An unclear reply counts for the domain until several domains are refused.
  const isClear = refusal.refusedKind === about || about === 'domain';
  const { firstMs, longestMs, afterRefusals } = rules;
  const [row] = await db.query<ProviderBlock>({ name: 'count_refusal', text: REFUSE }, [
    provider,
    about,
    subject,
    isClear,
    senderDomain,
    category,
    withoutNul(reply),
    firstMs,
    longestMs,
    afterRefusals,
    isProbe,
  ]);
  if (!row) throw new Error('a refusal was not returned');
  return row;
}

const TAKE_PROBE = `
with clock as materialized (select app_now() as now)
update provider_blocks block
   set probing_until = clock.now + ${PROBING_MAX_MS} * interval '1 millisecond', changed_at = clock.now
  from clock
 where block.provider = $1 and block.about = $2 and block.subject = $3 and block.since is not null
   and ${PROBES}
   and (block.next_probe_at <= clock.now
        or block.about = 'address' and cardinality(block.senders) < ${SENDERS_MAX}
           and $4::text <> all(block.senders)
           and block.refused_at + $5::float8 * interval '1 millisecond' <= clock.now)
returning 1`;

/** Returns whether the caller's message is the probe. The caller must then report its result or leave it. */
export async function takeProbe(
  db: Queryable,
  { provider, about, subject }: BlockKey,
  { senderDomain, firstMs }: { senderDomain: string; firstMs: number },
): Promise<boolean> {
  const values = [provider, about, subject, senderDomain, firstMs];
  return (await db.query({ name: 'take_probe', text: TAKE_PROBE }, values)).length > 0;
}

const LEAVE_PROBE = `
with clock as materialized (select app_now() as now)
update provider_blocks block
   set probing_until = null, changed_at = clock.now,
       next_probe_at = greatest(block.next_probe_at, clock.now + $4::float8 * interval '1 millisecond')
  from clock
 where block.provider = $1 and block.about = $2 and block.subject = $3 and block.probing_until is not null`;

/** Ends a probe without a result. Another message probes after the first wait. */
export async function leaveProbe(
  db: Queryable,
  { provider, about, subject }: BlockKey,
  firstMs: number,
): Promise<void> {
  await db.query({ name: 'leave_probe', text: LEAVE_PROBE }, [provider, about, subject, firstMs]);
}

const END = `
with clock as materialized (select app_now() as now),
before as (
  select block.provider, block.about, block.subject, block.since from provider_blocks block
   where block.provider = $1 and block.about = $2 and block.subject = $3 and block.refusals > 0
     for update
),
reset as (
  update provider_blocks block
     set refusals = 0, is_clear = false, senders = '{}', since = null, next_probe_at = null,
         probing_until = null, changed_at = clock.now
    from clock, before
   where block.provider = before.provider and block.about = before.about and block.subject = before.subject
)
select since is not null as "wasBlocked" from before`;

/**
 * Resets the count after a delivery.
 * @returns whether this ended a block
 */
export async function endBlock(
  db: Queryable,
  { provider, about, subject }: BlockKey,
): Promise<boolean> {
  const values = [provider, about, subject];
  const [row] = await db.query<{ wasBlocked: boolean }>({ name: 'end_block', text: END }, values);
  return row?.wasBlocked ?? false;
}

const READ_ROWS_MAX = 2_000;

const CHANGED = `
with clock as materialized (select app_now() as now)
select clock.now as "readAt", ${columns('$2')}
  from clock, provider_blocks block
 where block.changed_at > $1::timestamptz or block.since is not null
 order by block.changed_at desc
 limit ${READ_ROWS_MAX}`;

export function readBlocks(
  db: Queryable,
  since: Date,
  firstMs: number,
): Promise<(ProviderBlock & { readAt: Date })[]> {
  return db.query({ name: 'read_blocks', text: CHANGED }, [since, firstMs]);
}

const LIST = `
with clock as materialized (select app_now() as now)
select ${columns('0')}
  from clock, provider_blocks block
 where block.since is not null
 order by position('.' in block.provider) > 0, block.since, block.provider, block.about, block.subject
 limit $1`;

/** Returns blocks: named providers first, then the oldest first. */
export function listBlocks(db: Queryable, limit: number): Promise<ProviderBlock[]> {
  return db.query<ProviderBlock>(LIST, [limit]);
}

const PROBE_NOW = `
with clock as materialized (select app_now() as now)
update provider_blocks block
   set next_probe_at = clock.now, probing_until = null, changed_at = clock.now
  from clock
 where block.provider = $1 and block.since is not null
returning 1`;

/**
 * Makes the next message of each block a probe. Workers read it within seconds.
 * @returns the number of blocks
 */
export async function scheduleProbe(db: Queryable, provider: string): Promise<number> {
  return (await db.query(PROBE_NOW, [provider])).length;
}

/** Selects the mail that has waited longest; 3 recipients of a project, since a probe needs only one message. */
const DUE_SOON = `
update queue set due_at = app_now() + $2::float8 * interval '1 millisecond'
  from (select oldest.project_id, oldest.email_id, oldest.position
          from projects
         cross join lateral (
            select queue.email_id, queue.position, queue.project_id from queue
             where queue.holder is null and queue.project_id = projects.id and queue.provider = $1
               and not queue.held
               and queue.due_at > app_now()
             order by queue.project_id, queue.provider, queue.due_at limit 3) oldest
         limit 300) oldest
 where queue.project_id = oldest.project_id and queue.email_id = oldest.email_id
   and queue.position = oldest.position
   and queue.holder is null and not queue.held
   and not exists (select from emails
                    where emails.project_id = queue.project_id and emails.environment = queue.environment
                      and emails.id = queue.email_id
                      and emails.scheduled_at > app_now())
returning 1`;

/**
 * Makes some of each project's mail for the provider due after `delayMs`.
 * @returns the number of recipients
 */
export async function makeDueForProbe(
  db: Queryable,
  provider: string,
  delayMs: number,
): Promise<number> {
  return (await db.query(DUE_SOON, [provider, delayMs])).length;
}

const SENDER_PROJECTS = `select distinct project_id as id from domains where name = $1 and deleted_at is null`;

export async function listSendingProjects(db: Queryable, domain: string): Promise<string[]> {
  return (await db.query<{ id: string }>(SENDER_PROJECTS, [domain])).map(({ id }) => id);
}

const KEPT_DAYS = 7;

const DELETE_OLD = `
delete from provider_blocks
 where changed_at < app_now() - interval '${KEPT_DAYS} days' returning 1`;

export async function deleteOldBlocks(db: Queryable): Promise<number> {
  return (await db.query(DELETE_OLD)).length;
}

/** Replaces NUL, which PostgreSQL cannot store. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '\uFFFD');
}
