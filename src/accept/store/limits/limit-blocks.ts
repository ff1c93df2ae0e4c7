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
/** A block gets one of these parts of the remaining permits. 8 of 16 parts leave half of them in the limit row. */
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

/** SQL: whether enough is left to fill blocks. @param open the openWindows of `window`, a limitWindow */
const isAmple = (open: string, window: string): string => `
             ${open}.is_open and ${open}.is_open_for_recipients
             and least(${window}.max - ${window}.used, ${window}.recipients_max - ${window}.recipients_used)
                 >= ${PARTS * PERMITS_MIN}`;

const OF_PROJECT =
  'block.project_id = request.project_id and block.environment = request.environment';
const IS_FILLED = `
          block.started_at = limit_window.started_at
            and block.recipients_started_at = limit_window.recipients_started_at
          and block.limits = limit_window.limits and block.permits >= ${PERMITS_MIN}`;
const IS_TO_FILL = `block.made_at < clock.now - ${FILLED_AFTER} and not (${IS_FILLED})`;

/** Permits that count as used now. */
export const BLOCKS_IN_FACTS = `
      select coalesce(sum(block.permits) filter (where open_windows.is_open
                                                 and block.started_at = limit_window.started_at), 0)::int
               as permits,
             coalesce(sum(block.permits) filter (
               where open_windows.is_open_for_recipients
                 and block.recipients_started_at = limit_window.recipients_started_at), 0)::int
               as recipients_permits,
             coalesce(bool_or(${isAmple('open_windows', 'limit_window')} and ${IS_TO_FILL}), false) as is_to_fill
        from limit_blocks block where limit_window.has_blocks and ${OF_PROJECT}`;

const SHARING = `
      select limit_window.used + request.emails > limit_window.max
        or limit_window.recipients_used + request.recipients > limit_window.recipients_max
             as is_short,${isAmple('open_windows', 'limit_window')}
             and request.recipients <= (limit_window.recipients_max - limit_window.recipients_used) / 2
              as is_ample,
             least(limit_window.max - limit_window.used,
                   limit_window.recipients_max - limit_window.recipients_used) / ${PARTS} as part`;

/**
 * Locks the blocks that change. Returns their `slots`, the number `returned` to the row's counts, and the `permits`
 * that each block has from now on.
 */
const CHANGES = `
      select array_agg(block.slot) as slots,
             case when sharing.is_ample then sharing.part else 0 end as permits,
             coalesce(sum(block.permits) filter (where block.started_at = limit_window.started_at), 0)::int
               as returned,
             coalesce(sum(block.permits) filter (
               where block.recipients_started_at = limit_window.recipients_started_at), 0)::int
               as returned_recipients
        from (select * from (select * from limit_blocks block
                              where sharing.is_short and ${OF_PROJECT}
                              order by block.slot for update) block
               union all
              select * from (select * from limit_blocks block
                              where sharing.is_ample and ${OF_PROJECT} and ${IS_TO_FILL}
                                for update skip locked) block) block`;

/** The parameter after those of the demands. */
const LOCK_TIMEOUT = `$${DEMAND_PARAMETERS + 1}`;

/** Finds blocks by their slots alone, because the snapshot may have an earlier state of the other columns. */
const SHARE_LIMITS = {
  name: 'share_limits',
  text: `
with windows as materialized (
  select limit_window.*, block.*, coalesce(cardinality(block.slots) * block.permits, 0) as set_aside
    from (select now() + skew as now from clock) clock
   cross join ${DEMANDS}
   cross join lateral (${limitWindow(withLockTimeout(LOCK_TIMEOUT))}) limit_window
   cross join lateral (${openWindows('limit_window')}) open_windows
   cross join lateral (${SHARING}) sharing
   cross join lateral (${CHANGES}) block
),
blocks as (
  update limit_blocks block
     set permits = limit_window.permits, started_at = limit_window.started_at,
         recipients_started_at = limit_window.recipients_started_at, limits = limit_window.limits
    from windows limit_window
   where block.project_id = limit_window.project_id and block.environment = limit_window.environment
     and block.slot = any(limit_window.slots)
)
update limit_windows
   set used = limit_window.used - limit_window.returned + limit_window.set_aside,
       recipients_used = limit_window.recipients_used - limit_window.returned_recipients
                         + limit_window.set_aside
  from windows limit_window
 where limit_windows.project_id = limit_window.project_id
   and limit_windows.environment = limit_window.environment
   and limit_windows.category = 'sending'
   and limit_windows.project_id = any(${DEMAND_PROJECTS}) and limit_window.slots is not null`,
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
 * For the fast path: `limit_row` is the limit row as read, without a lock, and `open_row_windows` its openWindows.
 */

const IS_USABLE = `
          block.started_at = limit_row.started_at and block.recipients_started_at = limit_row.recipients_started_at
          and block.limits = limit_row.limits and block.permits >= request.project_emails`;

/** Decides where to count the emails: in a block, in the limit row, or (neither) in the full path. */
export const BLOCKS_IN_VIEW = `
      select block.is_usable, block.permits,
             not block.is_usable and not (ample.is_ample and block.is_ready) as is_by_row
        from (select open_row_windows.is_open and open_row_windows.is_open_for_recipients
                     and coalesce(bool_or(${IS_USABLE}), false) as is_usable,
                     coalesce(bool_and(block.made_at < clock.now - ${FILLED_AFTER}), false) as is_ready,
                     coalesce(sum(block.permits) filter (where block.started_at = limit_row.started_at), 0)::int
                       as permits
                from limit_blocks block where ${OF_PROJECT}) block,
             (select ${isAmple('open_row_windows', 'limit_row')} as is_ample) ample`;

/**
 * A block that no other transaction has locked, in the shape of limitWindow. The choice depends only on the block's
 * own current row, because what the statement has read of other blocks may be old.
 */
export const FREE_BLOCK = `
      select limit_row.project_id, limit_row.environment, limit_row.has_blocks, limit_row.started_at,
             limit_row.max - block.permits as used, limit_row.max, limit_row.length,
             limit_row.recipients_started_at, limit_row.recipients_max - block.permits as recipients_used,
             limit_row.recipients_max, limit_row.recipients_length, limit_row.limits, block.slot
        from (select * from limit_blocks block
               where blocks.is_usable and ${OF_PROJECT} and ${IS_USABLE}
               limit 1 for update skip locked) block`;

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
