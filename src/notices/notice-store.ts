/**
 * The queue of delivery notices (mail/notice.ts): finds due notices, and makes sure that none is sent twice.
 *
 * Guarantee: the transaction that stores the outcome queues its notice, once for each kind and recipient, because the
 * row remains. When a worker dies after a claim, the next claim gets its notices. Accepting a notice again is
 * recognised by its idempotency key (notices/notice-sender.ts).
 */
import type { Environment } from '../core/scope.ts';
import type { Address } from '../mail/address.ts';
import type { NoticeFacts, NoticeKind } from '../mail/notice.ts';
import type { Queryable } from '../database/database.ts';
import type { Settlement } from '../settle/settlement.ts';
import { batchDelete } from '../database/expiry.ts';

/** A delay is reported to the sender once it has lasted this long, not after each attempt. */
const DELAY_HOURS = 4;

/** A step of the settle statement, after its steps `t`, `email` and `numbered`. */
export const QUEUE_NOTICES = `
queued_notices as (
  insert into notices (project_id, environment, email_id, position, kind, facts, created_at, due_at)
  select n.project_id, n.environment, n.email_id, n.position, n.notice_kind, n.notice, t.now, t.now
    from t, numbered n join email e on e.id = n.email_id
   where n.notice is not null
     and (n.notice_kind <> 'delay'
          or t.now >= greatest(e.created_at, e.scheduled_at) + interval '${DELAY_HOURS} hours')
   order by n.project_id, n.email_id, n.position, n.notice_kind
  on conflict do nothing
)`;

const QUEUE_REPORTED_NOTICES = `
insert into notices (project_id, environment, email_id, position, kind, facts, created_at, due_at)
select i.project_id, i.environment, i.email_id, i.position, i.kind, i.facts, t.now, t.now
  from (select app_now() as now) t
 cross join json_to_recordset($1::json) as i(
      project_id uuid, environment text, email_id uuid, position smallint, kind text, facts json)
 order by i.project_id, i.email_id, i.position, i.kind
on conflict do nothing`;

type ReportedNotice = Pick<
  Settlement,
  'projectId' | 'environment' | 'emailId' | 'position' | 'notice'
>;

/** Queues notices of reports from servers further on, which change no status. */
export async function queueNotices(
  tx: Queryable,
  reports: readonly ReportedNotice[],
): Promise<void> {
  const rows = reports.flatMap(({ projectId, environment, emailId, position, notice }) =>
    notice === undefined
      ? []
      : {
          project_id: projectId,
          environment,
          email_id: emailId,
          position,
          kind: notice.kind,
          facts: notice.facts,
        },
  );
  if (rows.length === 0) return;
  await tx.query({ name: 'queue_reported_notices', text: QUEUE_REPORTED_NOTICES }, [
    JSON.stringify(rows),
  ]);
}

type NoticeId = {
  projectId: string;
  environment: Environment;
  emailId: string;
  position: number;
  kind: NoticeKind;
};

export type DueNotice = NoticeId & {
  facts: NoticeFacts;
  createdAt: Date;
  /** True when the notice could not be accepted for days. */
  isTooOld: boolean;
  organizationId: string;
  /** The key that submitted its message. */
  keyId: string;
  recipient: Address;
  /** True when the domain of the envelope sender is a verified one of the project. */
  isAllowed: boolean;
};

const CLAIM = `
with t as materialized (select app_now() as now),
due as materialized (
  select n.project_id, n.email_id, n.position, n.kind
    from notices n
   where n.due_at <= (select now from t)
   order by n.due_at limit $1
     for update skip locked
),
claimed as (
  update notices n set due_at = t.now + interval '2 minutes'
    from t, due d
   where n.project_id = d.project_id and n.email_id = d.email_id and n.position = d.position
     and n.kind = d.kind
  returning n.*, n.created_at < t.now - interval '5 days' as is_too_old
)
select c.project_id as "projectId", c.environment, c.email_id as "emailId", c.position, c.kind, c.facts,
       c.created_at as "createdAt", c.is_too_old as "isTooOld", p.organization_id as "organizationId",
       e.key_id as "keyId", r.address as recipient,
       exists (select from domains d
                where d.project_id = c.project_id and d.environment = c.environment
                  and d.name = split_part(k.sender, '@', -1)
                  and d.status = 'verified' and d.deleted_at is null) as "isAllowed"
  from claimed c
  join projects p on p.id = c.project_id
 cross join lateral (
    select e.key_id from emails e
     where e.project_id = c.project_id and e.environment = c.environment and e.id = c.email_id
    offset 0) e
 cross join lateral (
    select r.address from recipients r
     where r.project_id = c.project_id and r.email_id = c.email_id and r.position = c.position
    offset 0) r
 cross join lateral (
    select k.dsn ->> 'sender' as sender from contents k
     where k.project_id = c.project_id and k.email_id = c.email_id
    offset 0) k
 order by c.created_at`;

/** Claims notices for two minutes. Skips notices whose email was deleted. */
export function claimNotices(db: Queryable, limit: number): Promise<DueNotice[]> {
  return db.query<DueNotice>({ name: 'claim_notices', text: CLAIM }, [limit]);
}

const END = `
update notices set due_at = null
 where project_id = $1 and email_id = $2 and position = $3 and kind = $4`;

/** Ends a notice that was accepted, or that has no recipient. */
export async function endNotice(
  db: Queryable,
  { projectId, emailId, position, kind }: NoticeId,
): Promise<void> {
  await db.query({ name: 'end_notice', text: END }, [projectId, emailId, position, kind]);
}

// Reports arrive for as long as a return path is valid.
export const forgetNotices = batchDelete('notices', "created_at < app_now() - interval '45 days'");
