/**
 * Reads the state behind a diagnosis (diagnosis.ts): recipients in the queue, their last attempts, and the sending
 * domain. Reads only, by the keys of one email.
 */
import { type DomainStatus, DISPLAYED_STATUS } from '../../domains/domain-store.ts';
import type { EmailRef } from '../email-store.ts';
import type { Queryable } from '../../database/database.ts';

/** In the order of positions, like the recipients of findEmail. */
export type RecipientState = {
  /** The last attempt as in the timeline, with its dialogue, or null when none was made. */
  attempt: Record<string, unknown> | null;
  attemptedAt: Date | null;
  provider: string | null;
  dueAt: Date | null;
  /** Milliseconds until it is due; 0 or less when it is due. */
  dueInMs: number;
  isWithWorker: boolean;
  isOnHold: boolean;
  /** Time of a planned drop (delivery/queue-control/drop-store.ts), or null when there is none. */
  dropsAt: Date | null;
};

const RECIPIENTS = `
with clock as materialized (select app_now() as now),
last as materialized (
  select distinct on (events.position) events.position, events.attempt, events.created_at
    from events
   where events.project_id = $1 and events.environment = $2 and events.subject_id = $3
     and events.position is not null and events.attempt is not null
   order by events.position, events.seq desc
)
select last.attempt, last.created_at as "attemptedAt", queue.provider, queue.due_at as "dueAt",
       coalesce(extract(epoch from queue.due_at - clock.now) * 1000, 0)::float8 as "dueInMs",
       coalesce(num_nonnulls(queue.holder) = 1, false) as "isWithWorker",
       coalesce(queue.held, false) as "isOnHold", queue_drops.drops_at as "dropsAt"
  from clock, recipients
  left join queue on queue.project_id = recipients.project_id and queue.email_id = recipients.email_id
                   and queue.position = recipients.position
  left join queue_drops on queue_drops.id = queue.drop_id and queue_drops.undone_at is null
  left join last on last.position = recipients.position
 where recipients.project_id = $1 and recipients.email_id = $3
 order by recipients.position`;

export function readRecipientStates(
  db: Queryable,
  { projectId, environment, id }: EmailRef,
): Promise<RecipientState[]> {
  return db.query<RecipientState>(RECIPIENTS, [projectId, environment, id]);
}

export type SenderState = {
  domainId: string;
  dualSigned: boolean;
  expiresAt: Date;
  tls: 'opportunistic' | 'enforced' | null;
  /** null when the domain was removed. */
  domainStatus: DomainStatus | null;
  isPaused: boolean;
  isKeyUnusable: boolean;
  hasWorkers: boolean;
  /** Set while the installation is on hold after a restore. */
  onHoldSince: Date | null;
};

const SENDER = `
select emails.domain_id as "domainId", emails.dual_signed as "dualSigned", emails.expires_at as "expiresAt",
       (select contents.tls from contents where contents.project_id = $1 and contents.email_id = $3) as tls,
       case when domains.deleted_at is null then ${DISPLAYED_STATUS('domains')} end as "domainStatus",
       coalesce(domains.deleted_at is null and domains.paused_at is not null, false) as "isPaused",
       exists (select from unusable_secrets
                where unusable_secrets.kind = 'domain' and unusable_secrets.owner_id = $1
                  and unusable_secrets.id = emails.domain_id) as "isKeyUnusable",
       exists (select from nodes) as "hasWorkers",
       (select on_hold_since from installation) as "onHoldSince"
  from emails
  left join domains on domains.project_id = emails.project_id and domains.id = emails.domain_id
 where emails.project_id = $1 and emails.environment = $2 and emails.id = $3`;

export async function readSenderState(
  db: Queryable,
  { projectId, environment, id }: EmailRef,
): Promise<SenderState | null> {
  return (await db.query<SenderState>(SENDER, [projectId, environment, id]))[0] ?? null;
}

/** The count stops here, because a higher number adds no information. */
export const AHEAD_MAX = 1_000;

const AHEAD = `
select count(*)::int as count
  from (select from queue
         where queue.project_id = $1 and queue.provider = $2 and queue.holder is null and queue.due_at < $3
         limit ${AHEAD_MAX}) ahead`;

/** Counts the project's recipients at the same provider that are due earlier, up to AHEAD_MAX. */
export async function countAhead(
  db: Queryable,
  { projectId, provider, dueAt }: { projectId: string; provider: string; dueAt: Date },
): Promise<number> {
  return (await db.query<{ count: number }>(AHEAD, [projectId, provider, dueAt]))[0]?.count ?? 0;
}
