/**
 * Blocks of a sending limit, so that workers do not wait for one another's commits.
 *
 * Counting locks the row of the limit until the commit is on disk, which lets a project have one commit at a time on
 * all nodes. Of a large limit, a part of what is left is therefore set aside in up to 8 rows of `limit_blocks`; the
 * fast path locks any one of these that nobody else has locked, and takes from it. The row of the limit
 * counts as used what it has set aside:
 *
 *     used of limit_windows  =  emails accepted in this window  +  permits of the blocks of this window
 *
 * Each statement keeps that equation in one transaction, together with the emails that it stores, so that nothing is
 * lost with a worker and nothing has to be recovered (docs/decisions/0022-blocks-of-a-limit.md).
 *
 * A permit is for one email with one recipient. A block belongs to the window and the limits for which it was filled: in
 * the next window, or when the limit has been changed, its permits are void, or are returned by those who still
 * count them as used.
 *
 * One statement, which holds the row of the limit, fills blocks and takes them back (`shareLimits`), before the full path
 * stores emails: it fills while there is plenty left, and takes back all of them when the row has no room for the emails.
 * Lock order: the limit row first, then a block. Never wait for a limit row while holding a block of the same project.
 */
import type { LimitState } from '../../core/limits.ts';
import type { Scope } from '../../core/scope.ts';
import {
  defaultLimits,
  type LimitDefaults,
  limitWindow,
  openWindows,
  type Wanted,
  WANTED,
  wantedValues,
  withLockTimeout,
} from './limit-windows.ts';
import type { Queryable } from '../../database/database.ts';

/** Concurrent commits of one project; more workers than that share the row of the limit. */
const SLOTS = 8;
/** Of what is left; 8 of 16 parts leave half of it in the row of the limit. */
const PARTS = 16;
/** Room for a batch. A block with less is filled, and less is not set aside. */
const PERMITS_MIN = 128;
/** Emails of a window from which on a project gets blocks: not one that sends little. */
const BUSY_FROM = 1_000;
/**
 * Blocks are filled when they are older than any statement that still runs (the timeout is 20 s), so that every
 * statement that takes them back sees them.
 */
const FILLED_AFTER = `interval '1 minute'`;

/** Whether there is enough left to fill blocks; `o` is openWindows of `w`, a limitWindow. */
const isAmple = (o: string, w: string): string => `
             ${o}.is_open and ${o}.is_open_for_recipients
             and least(${w}.max - ${w}.used, ${w}.recipients_max - ${w}.recipients_used)
                 >= ${PARTS * PERMITS_MIN}`;

const OF_PROJECT = 'b.project_id = i.project_id and b.environment = i.environment';
const IS_FILLED = `
          b.started_at = w.started_at and b.recipients_started_at = w.recipients_started_at
          and b.limits = w.limits and b.permits >= ${PERMITS_MIN}`;
const IS_TO_FILL = `b.made_at < t.now - ${FILLED_AFTER} and not (${IS_FILLED})`;

/** Of the facts: permits that are counted as used now; `w` is a limitWindow and `o` its openWindows. */
export const BLOCKS_IN_FACTS = `
      select coalesce(sum(b.permits) filter (where o.is_open and b.started_at = w.started_at), 0)::int
               as permits,
             coalesce(sum(b.permits) filter (
               where o.is_open_for_recipients and b.recipients_started_at = w.recipients_started_at), 0)::int
               as recipients_permits,
             coalesce(bool_or(${isAmple('o', 'w')} and ${IS_TO_FILL}), false) as is_to_fill
        from limit_blocks b where w.has_blocks and ${OF_PROJECT}`;

/** Whether blocks have to be taken back or can be filled; `i` has the number of emails and recipients. */
const SHARING = `
      select w.used + i.emails > w.max or w.recipients_used + i.recipients > w.recipients_max
             as is_short,${isAmple('o', 'w')}
             and i.recipients <= (w.recipients_max - w.recipients_used) / 2 as is_ample,
             least(w.max - w.used, w.recipients_max - w.recipients_used) / ${PARTS} as part`;

/**
 * Locks the blocks that change and returns their `slots`, what is `returned` to the counts of the row, and the
 * `permits` that each of them has from now on.
 */
const CHANGES = `
      select array_agg(b.slot) as slots, case when s.is_ample then s.part else 0 end as permits,
             coalesce(sum(b.permits) filter (where b.started_at = w.started_at), 0)::int as returned,
             coalesce(sum(b.permits) filter (
               where b.recipients_started_at = w.recipients_started_at), 0)::int as returned_recipients
        from (select * from (select * from limit_blocks b
                              where s.is_short and ${OF_PROJECT}
                              order by b.slot for update) b
               union all
              select * from (select * from limit_blocks b
                              where s.is_ample and ${OF_PROJECT} and ${IS_TO_FILL}
                                for update skip locked) b) b`;

/** Blocks are found by their slots alone, because the snapshot may have an earlier state of the others. */
const SHARE = {
  name: 'share_limits',
  text: `
with windows as materialized (
  select w.*, b.*, coalesce(cardinality(b.slots) * b.permits, 0) as set_aside
    from (select now() + skew as now from clock) t
   cross join ${WANTED}
   cross join lateral (${limitWindow(withLockTimeout('$9'))}) w
   cross join lateral (${openWindows('w')}) o
   cross join lateral (${SHARING}) s
   cross join lateral (${CHANGES}) b
),
blocks as (
  update limit_blocks b
     set permits = w.permits, started_at = w.started_at,
         recipients_started_at = w.recipients_started_at, limits = w.limits
    from windows w
   where b.project_id = w.project_id and b.environment = w.environment and b.slot = any(w.slots)
)
update limit_windows l
   set used = w.used - w.returned + w.set_aside,
       recipients_used = w.recipients_used - w.returned_recipients + w.set_aside
  from windows w
 where l.project_id = w.project_id and l.environment = w.environment and l.category = 'sending'
   and l.project_id = any($5::uuid[]) and w.slots is not null`,
};

/** Takes back the blocks of limits whose row has no room for what is wanted, and fills those of the others. */
export async function shareLimits(
  db: Queryable,
  wanted: readonly Wanted[],
  options: LimitDefaults & { lockTimeoutMs?: number | null },
): Promise<void> {
  if (wanted.length === 0) return;
  await db.query(SHARE, [
    ...defaultLimits(options),
    ...wantedValues(wanted),
    options.lockTimeoutMs ?? null,
  ]);
}

/*
 * Of the fast path. `i` has the number of emails of the project as `together`, `m` is its limit row as read, `n`
 * its openWindows.
 */

const IS_USABLE = `
          b.started_at = m.started_at and b.recipients_started_at = m.recipients_started_at
          and b.limits = m.limits and b.permits >= i.together`;

/** How the emails are to be counted: from a block, from the row of the limit, or (neither) by the accept statement. */
export const BLOCKS_IN_VIEW = `
      select b.is_usable, b.permits,
             not b.is_usable and not (a.is_ample and b.is_ready) as is_by_row
        from (select n.is_open and n.is_open_for_recipients
                     and coalesce(bool_or(${IS_USABLE}), false) as is_usable,
                     coalesce(bool_and(b.made_at < t.now - ${FILLED_AFTER}), false) as is_ready,
                     coalesce(sum(b.permits) filter (where b.started_at = m.started_at), 0)::int
                       as permits
                from limit_blocks b where ${OF_PROJECT}) b,
             (select ${isAmple('n', 'm')} as is_ample) a`;

/**
 * A block that nobody else has locked, in the shape of limitWindow. Its choice depends only on the block's own
 * present row: what the statement has read of the others may be old by now.
 */
export const FREE_BLOCK = `
      select m.project_id, m.environment, m.has_blocks, m.started_at, m.max - b.permits as used, m.max, m.length,
             m.recipients_started_at, m.recipients_max - b.permits as recipients_used,
             m.recipients_max, m.recipients_length, m.limits, b.slot
        from (select * from limit_blocks b
               where s.is_usable and ${OF_PROJECT} and ${IS_USABLE}
               limit 1 for update skip locked) b`;

const MAKE = {
  name: 'make_limit_blocks',
  text: `
with made as (
  update limit_windows set has_blocks = true
   where project_id = $1 and environment = $2 and category = 'sending' and not has_blocks
     and ${withLockTimeout('$3')}
  returning project_id, environment
)
insert into limit_blocks (project_id, environment, slot, made_at)
select project_id, environment, slot, app_now() from made, generate_series(1, ${SLOTS}) slot`,
};

/** Gives a project blocks from now on. They are filled after a minute. */
export async function makeBlocks(
  db: Queryable,
  { projectId, environment }: Scope,
  lockTimeoutMs: number | null = null,
): Promise<void> {
  await db.query(MAKE, [projectId, environment, lockTimeoutMs]);
}

/** Whether a project sends enough for blocks, and its limit has room for them. */
export function needsBlocks({ limit, remaining }: LimitState): boolean {
  return limit - remaining >= BUSY_FROM && remaining >= PARTS * PERMITS_MIN;
}
