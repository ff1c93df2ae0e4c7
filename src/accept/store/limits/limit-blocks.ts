/**
 * Blocks of a sending limit let workers commit without waiting for one another.
 *
 * Counting locks the limit row until the commit is on disk, so a project would have one commit at a time over all
 * nodes. For a large limit, part of the remaining permits is therefore set aside in up to 8 rows of `limit_blocks`.
 * The fast path locks any block that no other transaction has locked, and takes permits from it. The limit row counts
 * permits that are set aside as used:
 *
 *     used of limit_windows  =  emails accepted in this window  +  permits of the blocks of this window
 *
 * Each statement maintains that equation in one transaction, together with the emails that it stores. A worker that
 * dies therefore loses nothing, and nothing needs recovery (docs/decisions/0022-blocks-of-a-limit.md).
 *
 * A permit is for one email with one recipient. A block belongs to the window and the limits for which it was filled.
 * In the next window, or after a change of the limit, its permits are void. A count that still includes them as used
 * gets them back.
 *
 * Before the full path stores emails, `shareLimits` fills blocks while plenty is left. It takes all of them back when
 * the row has too little capacity for the emails. It is one statement and locks the limit row. Another statement may
 * refill blocks before the emails are inserted. The insert then finds too little capacity and stores nothing, and the
 * full path repeats both.
 *
 * Lock order: the limit row first, then a block. Never wait for a limit row while holding a block of the same
 * project.
 */
import type { LimitState } from '../../../core/limits.ts';
import { type Scope, scopeKey } from '../../../core/scope.ts';
import {
  configuredLimitValues,
  type ConfiguredLimits,
  limitWindow,
  openWindows,
  type LimitDemand,
  DEMAND_PARAMETERS,
  DEMAND_PROJECTS,
  DEMANDS,
  demandValues,
  SHORT_LOCK_TIMEOUT_MS,
  withLockTimeout,
} from './limit-windows.ts';
import type { Queryable } from '../../../database/database.ts';

/** Limit on concurrent commits of one project. More workers than that share the limit row. */
const SLOTS = 8;
/** A block gets one of these parts of what is left. 8 of 16 parts leave half of it in the limit row. */
const PARTS = 16;
/** A block with fewer permits is filled, and fewer are not set aside. */
const PERMITS_MIN = 128;
/** A project gets blocks from this number of emails in a window. */
const BLOCKS_FROM_EMAILS = 1_000;
/**
 * Age from which a new block is filled: longer than any statement runs (the timeout is 20 s), so that every statement
 * that takes blocks back sees it.
 */
const FILLED_AFTER = `interval '1 minute'`;

/** SQL: whether enough is left to fill blocks; `o` is openWindows of `w`, a limitWindow. */
const isAmple = (o: string, w: string): string => `
             ${o}.is_open and ${o}.is_open_for_recipients
             and least(${w}.max - ${w}.used, ${w}.recipients_max - ${w}.recipients_used)
                 >= ${PARTS * PERMITS_MIN}`;

const OF_PROJECT = 'b.project_id = i.project_id and b.environment = i.environment';
const IS_FILLED = `
          b.started_at = w.started_at and b.recipients_started_at = w.recipients_started_at
          and b.limits = w.limits and b.permits >= ${PERMITS_MIN}`;
const IS_TO_FILL = `b.made_at < t.now - ${FILLED_AFTER} and not (${IS_FILLED})`;

/** Permits that count as used now; `w` is a limitWindow and `o` its openWindows. */
export const BLOCKS_IN_FACTS = `
      select coalesce(sum(b.permits) filter (where o.is_open and b.started_at = w.started_at), 0)::int
               as permits,
             coalesce(sum(b.permits) filter (
               where o.is_open_for_recipients and b.recipients_started_at = w.recipients_started_at), 0)::int
               as recipients_permits,
             coalesce(bool_or(${isAmple('o', 'w')} and ${IS_TO_FILL}), false) as is_to_fill
        from limit_blocks b where w.has_blocks and ${OF_PROJECT}`;

const SHARING = `
      select w.used + i.emails > w.max or w.recipients_used + i.recipients > w.recipients_max
             as is_short,${isAmple('o', 'w')}
             and i.recipients <= (w.recipients_max - w.recipients_used) / 2 as is_ample,
             least(w.max - w.used, w.recipients_max - w.recipients_used) / ${PARTS} as part`;

/**
 * Locks the blocks that change. Returns their `slots`, the number `returned` to the row's counts, and the `permits`
 * that each block has from now on.
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

/** Follows the demands. */
const LOCK_TIMEOUT = `$${DEMAND_PARAMETERS + 1}`;

/** Finds blocks by their slots alone, because the snapshot may have an earlier state of the other columns. */
const SHARE_LIMITS = {
  name: 'share_limits',
  text: `
with windows as materialized (
  select w.*, b.*, coalesce(cardinality(b.slots) * b.permits, 0) as set_aside
    from (select now() + skew as now from clock) t
   cross join ${DEMANDS}
   cross join lateral (${limitWindow(withLockTimeout(LOCK_TIMEOUT))}) w
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
   and l.project_id = any(${DEMAND_PROJECTS}) and w.slots is not null`,
};

/** Takes back the blocks of limits whose row has too little capacity for the emails. Fills the others' blocks. */
export async function shareLimits(
  db: Queryable,
  wanted: readonly LimitDemand[],
  options: ConfiguredLimits & { lockTimeoutMs?: number | null },
): Promise<void> {
  if (wanted.length === 0) return;
  await db.query(SHARE_LIMITS, [
    ...configuredLimitValues(options),
    ...demandValues(wanted),
    options.lockTimeoutMs ?? null,
  ]);
}

/*
 * For the fast path: `i` has the number of the project's emails as `project_emails`, `m` is its limit row as read, and
 * `n` is the openWindows of `m`.
 */

const IS_USABLE = `
          b.started_at = m.started_at and b.recipients_started_at = m.recipients_started_at
          and b.limits = m.limits and b.permits >= i.project_emails`;

/** Decides where to count the emails: in a block, in the limit row, or (neither) in the full path. */
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
 * A block that no other transaction has locked, in the shape of limitWindow. The choice depends only on the block's
 * own current row, because what the statement has read of other blocks may be old.
 */
export const FREE_BLOCK = `
      select m.project_id, m.environment, m.has_blocks, m.started_at, m.max - b.permits as used, m.max, m.length,
             m.recipients_started_at, m.recipients_max - b.permits as recipients_used,
             m.recipients_max, m.recipients_length, m.limits, b.slot
        from (select * from limit_blocks b
               where s.is_usable and ${OF_PROJECT} and ${IS_USABLE}
               limit 1 for update skip locked) b`;

const MAKE_BLOCKS = {
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

/** Creates a project's blocks. They are filled after a minute. */
export async function makeBlocks(
  db: Queryable,
  { projectId, environment }: Scope,
  lockTimeoutMs: number | null = null,
): Promise<void> {
  await db.query(MAKE_BLOCKS, [projectId, environment, lockTimeoutMs]);
}

/** The limits that this worker knows to have blocks. Their statements look for blocks, which takes longer. */
export class LimitsWithBlocks {
  readonly #limitKeys = new Set<string>();

  has(scope: Scope): boolean {
    return this.#limitKeys.has(scopeKey(scope));
  }

  add(scope: Scope): void {
    this.#limitKeys.add(scopeKey(scope));
  }

  /**
   * Creates blocks for a limit that needs them, without waiting. After a failure the next call tries again.
   * @param state null: unknown
   */
  makeIfNeeded(db: Queryable, scope: Scope, state: LimitState | null): void {
    if (state === null || this.has(scope) || !needsBlocks(state)) return;
    this.add(scope);
    makeBlocks(db, scope, SHORT_LOCK_TIMEOUT_MS).catch(() =>
      this.#limitKeys.delete(scopeKey(scope)),
    );
  }
}

function needsBlocks({ limit, remaining }: LimitState): boolean {
  return limit - remaining >= BLOCKS_FROM_EMAILS && remaining >= PARTS * PERMITS_MIN;
}
