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

/** A step of the settle statement, after its steps `clock`, `email` and `numbered`. */
export const QUEUE_NOTICES = `
queued_notices as (
  insert into notices (project_id, environment, email_id, position, kind, facts, created_at, due_at)
  select numbered.project_id, numbered.environment, numbered.email_id, numbered.position,
         numbered.notice_kind, numbered.notice, clock.now, clock.now
    from clock, numbered join email on email.id = numbered.email_id
   where numbered.notice is not null
     and (numbered.notice_kind <> 'delay'
          or clock.now >= greatest(email.created_at, email.scheduled_at) + interval '${DELAY_HOURS} hours')
   order by numbered.project_id, numbered.email_id, numbered.position, numbered.notice_kind
  on conflict do nothing
)`;

const QUEUE_REPORTED_NOTICES = `
insert into notices (project_id, environment, email_id, position, kind, facts, created_at, due_at)
select input.project_id, input.environment, input.email_id, input.position, input.kind, input.facts,
       clock.now, clock.now
  from (select app_now() as now) clock
 cross join json_to_recordset($1::json) as input(
      project_id uuid, environment text, email_id uuid, position smallint, kind text, facts json)
 order by input.project_id, input.email_id, input.position, input.kind
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
with clock as materialized (select app_now() as now),
due as materialized (
  select notices.project_id, notices.email_id, notices.position, notices.kind
    from notices
   where notices.due_at <= (select now from clock)
   order by notices.due_at limit $1
     for update skip locked
),
claimed as (
  update notices set due_at = clock.now + interval '2 minutes'
    from clock, due
   where notices.project_id = due.project_id and notices.email_id = due.email_id
     and notices.position = due.position
     and notices.kind = due.kind
  returning notices.*, notices.created_at < clock.now - interval '5 days' as is_too_old
)
select claimed.project_id as "projectId", claimed.environment, claimed.email_id as "emailId",
       claimed.position, claimed.kind, claimed.facts,
       claimed.created_at as "createdAt", claimed.is_too_old as "isTooOld",
       projects.organization_id as "organizationId",
       emails.key_id as "keyId", recipients.address as recipient,
       exists (select from domains
                where domains.project_id = claimed.project_id and domains.environment = claimed.environment
                  and domains.name = split_part(contents.sender, '@', -1)
                  and domains.status = 'verified' and domains.deleted_at is null) as "isAllowed"
  from claimed
  join projects on projects.id = claimed.project_id
 cross join lateral (
    select emails.key_id from emails
     where emails.project_id = claimed.project_id and emails.environment = claimed.environment
       and emails.id = claimed.email_id
    offset 0) emails
 cross join lateral (
    select recipients.address from recipients
     where recipients.project_id = claimed.project_id and recipients.email_id = claimed.email_id
       and recipients.position = claimed.position
    offset 0) recipients
 cross join lateral (
    select contents.dsn ->> 'sender' as sender from contents
     where contents.project_id = claimed.project_id and contents.email_id = claimed.email_id
    offset 0) contents
 order by claimed.created_at`;

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
export const deleteOldNotices = batchDelete(
  'notices',
  "created_at < app_now() - interval '45 days'",
);
