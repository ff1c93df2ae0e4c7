/**
 * SQL of the rows of sending limits, for the statements that accept emails. There are two limits, on emails and on
 * recipients, in one row for each project and environment.
 *
 * In the texts `i` is what is asked for, `t` has the time and `w` is the row. The parameters $1 to $4 of every statement
 * are the configured limits (`defaultLimits`). Rows are locked in the order of project and environment, so that
 * statements cannot deadlock.
 */
import type { Limit } from '../../core/limits.ts';
import type { Scope } from '../../core/scope.ts';
import { literalArray } from '../../database/binary-array.ts';

/** The configured limits. */
export type LimitDefaults = {
  /** On emails per project. */
  limit: Limit;
  /** On recipients; null: 50 per email, the maximum of an email. */
  recipientLimit?: Limit | null;
};

/** The parameters $1 to $4. */
export function defaultLimits({ limit, recipientLimit }: LimitDefaults): unknown[] {
  const recipients = [recipientLimit?.max ?? null, recipientLimit?.windowS ?? null];
  return [limit.max, limit.windowS, ...recipients];
}

/** The emails and recipients that are to be counted in the row of a limit. */
export type Wanted = Scope & { emails: number; recipients: number };

/** As the parameters $5 to $8, in the order in which rows are locked. */
export function wantedValues(wanted: readonly Wanted[]): unknown[] {
  const order = ({ projectId, environment }: Scope) => `${projectId} ${environment}`;
  const sorted = wanted.toSorted((one, other) => (order(one) < order(other) ? -1 : 1));
  return [
    literalArray(sorted.map(({ projectId }) => projectId)),
    literalArray(sorted.map(({ environment }) => environment)),
    literalArray(sorted.map(({ emails }) => emails)),
    literalArray(sorted.map(({ recipients }) => recipients)),
  ];
}

/** SQL of these parameters, as `i`. */
export const WANTED = `unnest($5::uuid[], $6::text[], $7::int[], $8::int[])
           as i(project_id, environment, emails, recipients)`;

/**
 * The limit row with what holds for it: the project's own limits, else the configured ones.
 * @param condition of the row `w`
 * @param lock empty: the row is only read
 */
export const limitWindow = (condition = 'true', lock = ' for update'): string => `
      select w.project_id, w.environment, w.has_blocks, w.started_at, w.used, m.max,
             m.window_s * interval '1 second' as length, w.recipients_started_at, w.recipients_used,
             r.recipients_max, r.window_s * interval '1 second' as recipients_length,
             array[m.max, m.window_s, r.recipients_max, r.window_s] as limits
        from (select * from limit_windows w
               where w.project_id = i.project_id and w.environment = i.environment
                 and w.category = 'sending' and ${condition} limit 1${lock}) w
       cross join lateral (
          select coalesce(w.max, $1::int) as max, coalesce(w.window_s, $2::int) as window_s) m
       cross join lateral (
          select coalesce(w.recipients_max, $3::int, least(m.max * 50::bigint, 2147483647)::int)
                   as recipients_max,
                 coalesce(w.recipients_window_s, $4::int, m.window_s) as window_s) r`;

/** Whether the windows of both limits have not ended. @param w the name of a limitWindow */
export const openWindows = (w: string): string => `
      select ${w}.started_at + ${w}.length > t.now and ${w}.started_at < t.now + interval '1 minute'
             as is_open,
             ${w}.recipients_started_at + ${w}.recipients_length > t.now
             and ${w}.recipients_started_at < t.now + interval '1 minute' as is_open_for_recipients`;

/** The counts that hold now; `o` is openWindows. */
export const CURRENT_COUNTS = `
         case when o.is_open then w.used else 0 end as used,
         case when o.is_open then w.started_at else t.now end as started_at,
         case when o.is_open_for_recipients then w.recipients_used else 0 end as recipients_used,
         case when o.is_open_for_recipients then w.recipients_started_at else t.now end
           as recipients_started_at`;

/**
 * A condition of limitWindow that is always true. Before the row is locked, it sets how long this statement waits for
 * locks. A transaction around the statement would hold the row while the worker is frozen.
 * @param parameter milliseconds as text; null: as configured
 */
export const withLockTimeout = (parameter: string): string =>
  `(${parameter}::text is null or set_config('lock_timeout', ${parameter}, true) is not null)`;
