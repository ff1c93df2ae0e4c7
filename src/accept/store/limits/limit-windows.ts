/**
 * SQL of the rows of sending limits, for the statements that accept emails. One row for each project and environment
 * has two limits: on emails and on recipients.
 *
 * The first parameters of every statement are the configured limits (`configuredLimitValues`). Rows are locked in
 * the order of project and environment, so that statements cannot deadlock.
 */
import type { Limit } from '../../../core/limits.ts';
import { type Scope, scopeKey } from '../../../core/scope.ts';
import { literalArray } from '../../../database/parameters/binary-array.ts';
import { namedParameters } from '../../../database/parameters/named-parameters.ts';

/** Lock timeout for statements that must not wait long for a locked limit row. */
export const SHORT_LOCK_TIMEOUT_MS = 100;

export type ConfiguredLimits = {
  limit: Limit;
  /** null: 50 recipients per email, the maximum of an email. */
  recipientLimit?: Limit | null;
};

const CONFIGURED = namedParameters(['max', 'windowS', 'recipientsMax', 'recipientsWindowS']);

/** The number of parameters that `configuredLimitValues` returns. A statement's own parameters follow them. */
export const LIMIT_PARAMETERS = Object.keys(CONFIGURED.sql).length;

export function configuredLimitValues({ limit, recipientLimit }: ConfiguredLimits): unknown[] {
  return CONFIGURED.valuesOf({
    max: limit.max,
    windowS: limit.windowS,
    recipientsMax: recipientLimit?.max ?? null,
    recipientsWindowS: recipientLimit?.windowS ?? null,
  });
}

/** The emails and recipients to count in a limit row. */
export type LimitDemand = Scope & { emails: number; recipients: number };

const DEMAND = namedParameters(
  ['projectIds', 'environments', 'emails', 'recipients'],
  LIMIT_PARAMETERS,
);

/** The number of parameters of statements with DEMANDS before their own: the configured limits and the demands. */
export const DEMAND_PARAMETERS = LIMIT_PARAMETERS + Object.keys(DEMAND.sql).length;

/** The projects of the demands, so that an index is used for many of them, too. */
export const DEMAND_PROJECTS = `${DEMAND.sql.projectIds}::uuid[]`;

/** Returns the parameters of DEMANDS, in the order in which rows are locked. */
export function demandValues(wanted: readonly LimitDemand[]): unknown[] {
  const sorted = wanted.toSorted((one, other) => (scopeKey(one) < scopeKey(other) ? -1 : 1));
  return DEMAND.valuesOf({
    projectIds: literalArray(sorted.map(({ projectId }) => projectId)),
    environments: literalArray(sorted.map(({ environment }) => environment)),
    emails: literalArray(sorted.map(({ emails }) => emails)),
    recipients: literalArray(sorted.map(({ recipients }) => recipients)),
  });
}

export const DEMANDS = `unnest(${DEMAND.sql.projectIds}::uuid[], ${DEMAND.sql.environments}::text[],
           ${DEMAND.sql.emails}::int[], ${DEMAND.sql.recipients}::int[])
           as request(project_id, environment, emails, recipients)`;

/**
 * The limit row with the limits that apply: the project's own, else the configured ones.
 * @param condition of the row `limit_window`
 * @param lock empty: the row is only read
 */
export const limitWindow = (condition = 'true', lock = ' for update'): string => `
      select limit_window.project_id, limit_window.environment, limit_window.has_blocks,
             limit_window.started_at, limit_window.used, email_limit.max,
             email_limit.window_s * interval '1 second' as length, limit_window.recipients_started_at,
             limit_window.recipients_used,
             recipient_limit.recipients_max,
             recipient_limit.window_s * interval '1 second' as recipients_length,
             array[email_limit.max, email_limit.window_s,
                   recipient_limit.recipients_max, recipient_limit.window_s]
               as limits
        from (select * from limit_windows limit_window
               where limit_window.project_id = request.project_id
                 and limit_window.environment = request.environment
                 and limit_window.category = 'sending' and ${condition} limit 1${lock}) limit_window
       cross join lateral (
          select coalesce(limit_window.max, ${CONFIGURED.sql.max}::int) as max,
                 coalesce(limit_window.window_s, ${CONFIGURED.sql.windowS}::int) as window_s) email_limit
       cross join lateral (
          select coalesce(limit_window.recipients_max, ${CONFIGURED.sql.recipientsMax}::int,
                          least(email_limit.max * 50::bigint, 2147483647)::int)
                   as recipients_max,
                 coalesce(limit_window.recipients_window_s, ${CONFIGURED.sql.recipientsWindowS}::int,
                          email_limit.window_s)
                   as window_s) recipient_limit`;

/** SQL: whether the windows of both limits are still open. @param window the name of a limitWindow */
export const openWindows = (window: string): string => `
      select ${window}.started_at + ${window}.length > clock.now
             and ${window}.started_at < clock.now + interval '1 minute'
             as is_open,
             ${window}.recipients_started_at + ${window}.recipients_length > clock.now
             and ${window}.recipients_started_at < clock.now + interval '1 minute' as is_open_for_recipients`;

export const CURRENT_COUNTS = `
         case when open_windows.is_open then limit_window.used else 0 end as used,
         case when open_windows.is_open then limit_window.started_at else clock.now end as started_at,
         case when open_windows.is_open_for_recipients then limit_window.recipients_used else 0 end
           as recipients_used,
         case when open_windows.is_open_for_recipients then limit_window.recipients_started_at else clock.now end
           as recipients_started_at`;

/**
 * A condition of limitWindow that is always true. It sets how long the statement waits for locks, before the row is
 * locked. A transaction around the statement could set it too, but would keep the row locked while the worker is
 * frozen.
 * @param parameter milliseconds as text, or null for the configured time
 */
export const withLockTimeout = (parameter: string): string =>
  `(${parameter}::text is null or set_config('lock_timeout', ${parameter}, true) is not null)`;
