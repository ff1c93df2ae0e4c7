/**
 * Stores counts of outcomes by sending domain and hour, the rules of projects, and active alerts. alert.ts contains the
 * rule, reputation-watch.ts applies it.
 *
 * Workers sum counts in memory and store them every few seconds. A crash loses the last seconds, which does not
 * matter for a rate over a day.
 */
import type { OutcomeCounts, AlertKind, ProjectAlertRule } from './alert.ts';
import { type Scope, scopeKey } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import type { Settlement } from '../settle/settlement.ts';
import { BufferedSums } from '../database/buffered-sums.ts';
import { batchDelete } from '../database/expiry.ts';

export type SenderDomain = Scope & { domain: string };
export type ReputationCount = SenderDomain & OutcomeCounts;

/** Sorted, so that concurrent workers cannot deadlock. */
const ADD = `
insert into reputation_counts (project_id, environment, domain, hour, ended, bounced,
                                    complained, changed_at)
select input.project_id, input.environment, input.domain, date_trunc('hour', app_now(), 'UTC'), input.ended,
       input.bounced, input.complained, app_now()
  from unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::int[], $6::int[])
       as input(project_id, environment, domain, ended, bounced, complained)
 order by 1, 2, 3
on conflict (project_id, environment, domain, hour) do update
   set ended = reputation_counts.ended + excluded.ended,
       bounced = reputation_counts.bounced + excluded.bounced,
       complained = reputation_counts.complained + excluded.complained, changed_at = excluded.changed_at`;

/** Adds to the counts of this hour. A domain may occur once per call. */
export async function addReputationCounts(
  db: Queryable,
  counts: readonly ReputationCount[],
): Promise<void> {
  await db.query({ name: 'add_reputation', text: ADD }, [
    counts.map(({ projectId }) => projectId),
    counts.map(({ environment }) => environment),
    counts.map(({ domain }) => domain),
    counts.map(({ ended }) => ended),
    counts.map(({ bounced }) => bounced),
    counts.map(({ complained }) => complained),
  ]);
}

const KEPT_DAYS = 30;

export const deleteOldReputation = batchDelete(
  'reputation_counts',
  `hour < app_now() - interval '${KEPT_DAYS} days'`,
);

/** The input of the rule: a domain whose counts changed or that has an active alert. */
export type SenderCounts = SenderDomain &
  OutcomeCounts & {
    alerts: { kind: AlertKind; belowForMs: number | null; isPaused: boolean }[];
    now: Date;
  };

const SENDER_COUNTS = `
with changed as (
  select project_id, environment, domain from reputation_counts where changed_at >= $1
  union
  select project_id, environment, domain from reputation_alerts
)
select changed.project_id as "projectId", changed.environment, changed.domain, sums.ended, sums.bounced,
       sums.complained,
       coalesce(open_alerts.alerts, '[]') as alerts, app_now() as now
  from changed
 cross join lateral (
    select coalesce(sum(reputation_counts.ended), 0)::int as ended,
           coalesce(sum(reputation_counts.bounced), 0)::int as bounced,
           coalesce(sum(reputation_counts.complained), 0)::int as complained
      from reputation_counts
     where reputation_counts.project_id = changed.project_id
       and reputation_counts.environment = changed.environment
       and reputation_counts.domain = changed.domain
       and reputation_counts.hour > app_now() - interval '24 hours') sums
 cross join lateral (
    select json_agg(json_build_object('kind', reputation_alerts.kind, 'isPaused', reputation_alerts.paused,
             'belowForMs', extract(epoch from app_now() - reputation_alerts.below_since) * 1000)) as alerts
      from reputation_alerts
     where reputation_alerts.project_id = changed.project_id
       and reputation_alerts.environment = changed.environment
       and reputation_alerts.domain = changed.domain) open_alerts`;

/** Returns the domains whose counts have changed since `since`, and those with an active alert. */
export function readSenderCounts(db: Queryable, since: Date): Promise<SenderCounts[]> {
  return db.query<SenderCounts>(SENDER_COUNTS, [since]);
}

const ENDED = `
select app_now() as now, coalesce(sum(ended), 0)::int as month,
       coalesce(sum(ended) filter (where hour >= date_trunc('day', app_now(), 'UTC')), 0)::int as today
  from reputation_counts
 where project_id = $1 and environment = $2 and hour >= date_trunc('month', app_now(), 'UTC')`;

export type EndedCounts = { now: Date; today: number; month: number };

/**
 * Counts the recipients that ended today and this month, in UTC. The last seconds are missing, and on the 31st also
 * the first day of the month (KEPT_DAYS).
 */
export async function countEnded(
  db: Queryable,
  { projectId, environment }: Scope,
): Promise<EndedCounts> {
  const [row] = await db.query<EndedCounts>(ENDED, [projectId, environment]);
  if (!row) throw new Error('the counts were not returned');
  return row;
}

export type Alert = SenderDomain & {
  kind: AlertKind;
  since: Date;
  count: number;
  ended: number;
  thresholdPpm: number;
  /** True while mail of the domain is on hold until it is released. */
  isPaused: boolean;
};

const COLUMNS = `project_id as "projectId", environment, domain, kind, since, count, ended,
       threshold_ppm as "thresholdPpm", paused as "isPaused"`;

const SAVE = `
insert into reputation_alerts (project_id, environment, domain, kind, since, count, ended,
                              threshold_ppm, paused)
values ($1, $2, $3, $4, app_now(), $5, $6, $7, $9)
on conflict (project_id, environment, domain, kind) do update
   set count = excluded.count, ended = excluded.ended, threshold_ppm = excluded.threshold_ppm,
       below_since = case when $8 = 'keep' then reputation_alerts.below_since
                          when $8 = 'start' then coalesce(reputation_alerts.below_since, app_now()) end
returning ${COLUMNS}, xmax = 0 as "isNew"`;

/**
 * Creates or updates an alert.
 * @param alert.isPaused used for a new alert
 * @param below what happens to the time since which the share is clearly lower; `start` keeps a time that is set
 * @returns `isNew` only for the caller that created it, which sends the notification
 */
export async function saveAlert(
  tx: Queryable,
  alert: Omit<Alert, 'since'>,
  below: 'clear' | 'keep' | 'start',
): Promise<Alert & { isNew: boolean }> {
  const { projectId, environment, domain, kind, count, ended, thresholdPpm, isPaused } = alert;
  const numbers = [count, ended, thresholdPpm];
  const values = [projectId, environment, domain, kind, ...numbers, below, isPaused];
  const [row] = await tx.query<Alert & { isNew: boolean }>(SAVE, values);
  if (!row) throw new Error('a reputation alert was not returned');
  return row;
}

const END = `
delete from reputation_alerts where project_id = $1 and environment = $2 and domain = $3 and kind = $4
returning ${COLUMNS}`;

/** Ends an alert. Returns null when another process has ended it. */
export async function endAlert(
  tx: Queryable,
  { projectId, environment, domain, kind }: SenderDomain & { kind: AlertKind },
): Promise<Alert | null> {
  const [row] = await tx.query<Alert>(END, [projectId, environment, domain, kind]);
  return row ?? null;
}

const LIST = `
select ${COLUMNS} from reputation_alerts
 where $1::uuid is null or project_id = $1
 order by since desc, domain, kind limit $2`;

export function listAlerts(
  db: Queryable,
  { projectId, limit }: { projectId: string | null; limit: number },
): Promise<Alert[]> {
  return db.query<Alert>(LIST, [projectId, limit]);
}

const RULE_COLUMNS = `project_id as "projectId", is_on as "isOn", bounces_ppm as "bouncesPpm",
       complaints_ppm as "complaintsPpm", emails_min as "emailsMin", pauses`;

export function listAlertRules(
  db: Queryable,
): Promise<(ProjectAlertRule & { projectId: string })[]> {
  return db.query(`select ${RULE_COLUMNS} from reputation_rules`);
}

/** Returns undefined while the project has the rule of the installation. */
export async function findAlertRule(
  db: Queryable,
  projectId: string,
): Promise<ProjectAlertRule | undefined> {
  const find = `select ${RULE_COLUMNS} from reputation_rules where project_id = $1`;
  return (await db.query<ProjectAlertRule>(find, [projectId]))[0];
}

const SET_RULE = `
insert into reputation_rules (project_id, is_on, bounces_ppm, complaints_ppm, emails_min, pauses)
values ($1, $2, $3, $4, $5, $6)
on conflict (project_id) do update
   set is_on = excluded.is_on, bounces_ppm = excluded.bounces_ppm,
       complaints_ppm = excluded.complaints_ppm, emails_min = excluded.emails_min,
       pauses = excluded.pauses`;

export async function setAlertRule(
  db: Queryable,
  projectId: string,
  { isOn, bouncesPpm, complaintsPpm, emailsMin, pauses }: ProjectAlertRule,
): Promise<void> {
  await db.query(SET_RULE, [projectId, isOn, bouncesPpm, complaintsPpm, emailsMin, pauses]);
}

const PAUSE = `
update domains set paused_at = coalesce(paused_at, app_now())
 where project_id = $1 and environment = $2 and name = $3 and deleted_at is null`;

/** Pauses a domain. After the commit, its accepted and claimed mail is put on hold. */
export async function pauseSender(
  tx: Queryable,
  { projectId, environment, domain }: SenderDomain,
): Promise<void> {
  await tx.query(PAUSE, [projectId, environment, domain]);
}

const RESUME = `
with alerts as (
  update reputation_alerts set paused = false where project_id = $1 and paused
)
update domains set paused_at = null where project_id = $1 and paused_at is not null
returning name`;

/** Ends all pauses of a project. Its mail on hold is released separately (delivery/queue-control/change-store.ts). */
export async function resumeSenders(tx: Queryable, projectId: string): Promise<string[]> {
  return (await tx.query<{ name: string }>(RESUME, [projectId])).map(({ name }) => name);
}

const ENDINGS: ReadonlySet<string> = new Set(['delivered', 'sent', 'bounced', 'failed']);

function isOurs(reason: object | null): boolean {
  return reason !== null && 'blame' in reason && reason.blame === 'us';
}

export class ReputationCounters {
  readonly #sums: BufferedSums<ReputationCount>;

  constructor(write: (counts: readonly ReputationCount[]) => Promise<void>) {
    this.#sums = new BufferedSums({
      write,
      kindOf: (count) => `${scopeKey(count)} ${count.domain}`,
      merge: (sum, { ended, bounced, complained }) => {
        sum.ended += ended;
        sum.bounced += bounced;
        sum.complained += complained;
      },
    });
  }

  /**
   * Counts an outcome. A late report adds a bounce or a complaint, but no ended recipient. A bounce caused by this
   * service does not count against the sender.
   */
  count({ projectId, environment, senderDomain: domain, status, reason, late }: Settlement): void {
    const ended = !late && ENDINGS.has(status) ? 1 : 0;
    const bounced = status === 'bounced' && !isOurs(reason) ? 1 : 0;
    const complained = status === 'complained' ? 1 : 0;
    if (ended + bounced + complained === 0) return;
    this.#sums.add({ projectId, environment, domain, ended, bounced, complained });
  }

  flush(): Promise<void> {
    return this.#sums.flush();
  }
}
