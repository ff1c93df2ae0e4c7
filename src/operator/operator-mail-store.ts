/**
 * The queue of mail to the operator: beginnings and ends of conditions, queued by the statement that records them
 * (condition-store.ts). operator/operator-mail.ts composes the mail and has it accepted.
 *
 * Guarantees: every report that was recorded while an address was set is mailed. Each mail is planned once across all
 * nodes, and at most one an hour for each type of condition. A planned mail keeps its id until it is accepted, so that
 * accepting it again is recognised as a repetition.
 */
import type { ConditionType } from '../core/operator-events.ts';
import type { Scope } from '../core/scope.ts';
import { type Address, addressKey } from '../mail/address.ts';
import { createKey } from '../accounts/keys/key-store.ts';
import type { Database, Queryable } from '../database/database.ts';
import { batchDelete } from '../database/expiry.ts';

/** A mail about the failure of this mail would not arrive, and would queue the next one. */
export const NOT_MAILED: ConditionType = 'operator.unreachable';

/** A step of the statements that record a condition, after `clock`, `changed` and `new_events`; $3 is the state. */
export const QUEUE_MAIL = `
queued_mail as (
  insert into operator_mail_queue (event_id, kind, subject, state, message, remedy, since, at)
  select new_events.id, changed.type, changed.subject, $3::text, changed.message, changed.remedy,
         changed.since, clock.now
    from clock, changed, new_events
   where changed.type <> '${NOT_MAILED}' and exists (select from operator_mail)
)`;

/** Sets the address for mail to the operator. Null ends queueing and deletes the queue. */
export async function setOperatorAddress(db: Queryable, address: Address | null): Promise<void> {
  if (address !== null) {
    const text = `insert into operator_mail (address) values ($1)
                  on conflict (only_row) do update set address = excluded.address`;
    return void (await db.query(text, [address]));
  }
  await db.query('with unset as (delete from operator_mail) delete from operator_mail_queue');
}

export async function hasQueuedOperatorMail(db: Queryable): Promise<boolean> {
  return (await db.query('select from operator_mail_queue limit 1')).length > 0;
}

// A node's statement may have begun before the latest plan, so only a plan a minute ahead means a clock set back.
const PLAN = `
with clock as materialized (select app_now() as now),
waiting as (
  select distinct report.kind from operator_mail_queue report
   where report.mail_id is null
     and not exists (select from operator_mail_queue planned where planned.kind = report.kind
                     and planned.mail_id is not null)
),
due as (
  insert into operator_mailed as mail (kind, at)
  select waiting.kind, clock.now from waiting, clock order by waiting.kind
  on conflict (kind) do update set at = excluded.at
   where mail.at <= excluded.at - interval '1 hour' or mail.at > excluded.at + interval '1 minute'
  returning mail.kind
),
mails as materialized (select kind, gen_random_uuid() as id from due)
update operator_mail_queue report set mail_id = mail.id from mails mail where report.kind = mail.kind
  and report.mail_id is null`;

/** Plans a mail for each type of condition that has reports and had no mail within an hour. */
export async function planOperatorMail(db: Queryable): Promise<void> {
  await db.query(PLAN);
}

export type ReportedCondition = {
  subject: string;
  state: 'raised' | 'cleared';
  message: string;
  remedy: string | null;
  since: Date;
  at: Date;
};

export type PlannedMail = {
  id: string;
  kind: ConditionType;
  /** Number of all reports. */
  total: number;
  /** The newest reports, oldest first. */
  reports: ReportedCondition[];
};

const LIST_PLANNED = `
select mail_id as "mailId", kind, subject, state, message, remedy, since, at, total
  from (select report.*, count(*) over (partition by mail_id)::int as total,
               row_number() over (partition by mail_id order by at desc, event_id desc) as place
          from operator_mail_queue report where mail_id is not null) report
 where place <= $1
 order by mail_id, place desc`;

/**
 * Returns mails that are planned and not known to be accepted.
 * @param reportsMax limit for each mail
 */
export async function listPlannedMail(db: Queryable, reportsMax: number): Promise<PlannedMail[]> {
  type Row = ReportedCondition & { mailId: string; kind: ConditionType; total: number };
  const mails = new Map<string, PlannedMail>();
  for (const { mailId: id, kind, total, ...report } of await db.query<Row>(LIST_PLANNED, [
    reportsMax,
  ])) {
    const mail = mails.get(id) ?? { id, kind, total, reports: [] };
    mail.reports.push(report);
    mails.set(id, mail);
  }
  return [...mails.values()];
}

/** Takes an accepted mail off the queue. */
export async function deletePlannedMail(db: Queryable, mailId: string): Promise<void> {
  await db.query('delete from operator_mail_queue where mail_id = $1', [mailId]);
}

export type OperatorSender = Scope & {
  organizationId: string;
  domain: string;
  /** The project's suppression list contains the operator's address. */
  isSuppressed: boolean;
};

const FIND_SENDER = `
select domains.project_id as "projectId", domains.environment, projects.organization_id as "organizationId",
       domains.name as domain,
       exists (select from suppressions suppression
                where suppression.project_id = domains.project_id
                  and suppression.environment = domains.environment
                  and suppression.address_key = $2
                  and (suppression.expires_at is null or suppression.expires_at > app_now()))
         as "isSuppressed"
  from (select domains.* from domains
         where domains.environment = 'live' and domains.deleted_at is null and domains.status = 'verified'
           and domains.paused_at is null and ($1::text is null or domains.name = $1)
           and ($3::uuid is null or exists (select from projects where projects.id = domains.project_id
                                             and projects.organization_id = $3))
           and not exists (select from unusable_secrets
                            where unusable_secrets.kind = 'domain'
                              and unusable_secrets.owner_id = domains.project_id
                              and unusable_secrets.id = domains.id)
         order by domains.created_at, domains.id limit 1) domains
  join projects on projects.id = domains.project_id`;

/**
 * Finds the oldest verified live domain that is not paused.
 * @param criteria.domain the only candidate; null for any
 * @param criteria.organizationId the owner of the domain; absent for any
 */
export async function findOperatorSender(
  db: Queryable,
  criteria: { domain: string | null; to: Address; organizationId?: string },
): Promise<OperatorSender | null> {
  const values = [criteria.domain, addressKey(criteria.to), criteria.organizationId ?? null];
  const [row] = await db.query<OperatorSender>(FIND_SENDER, values);
  return row ?? null;
}

const KEY_NAME = 'Letterhaus, mail to the operator';

const FIND_KEY = `
select id from api_keys
 where project_id = $1 and environment = $2 and name = $3 and domain = $4 and permission = 'sending_access'
   and revoked_at is null and expires_at is null
 order by id limit 1`;

/**
 * Returns the key that the mail is accepted with, and creates it the first time. Nobody knows the key itself. The
 * lock on the row of the address makes sure that only one is created.
 */
export function findOrCreateMailKey(
  db: Pick<Database, 'transaction'>,
  { projectId, environment, domain }: OperatorSender,
  keyName = KEY_NAME,
): Promise<string> {
  const scope = { projectId, environment };
  return db.transaction(async (tx) => {
    await tx.query('select from operator_mail for update');
    const values = [projectId, environment, keyName, domain];
    const [existing] = await tx.query<{ id: string }>(FIND_KEY, values);
    if (existing) return existing.id;
    const limits = { permission: 'sending_access', domain, expiresAt: null } as const;
    return (await createKey(tx, scope, { name: keyName, ...limits })).key.id;
  });
}

// The events stay in the stream of the operator's keys.
export const deleteOldOperatorMail = batchDelete(
  'operator_mail_queue',
  "at < app_now() - interval '30 days'",
);
