/**
 * Reads the state behind a diagnosis (diagnosis.ts): recipients in the queue, their last attempts, and the sending
 * domain. Reads only, by the keys of one email.
 */
import { type DomainStatus, DISPLAYED_STATUS } from '../../domains/domain-store.ts';
import type { EmailRef } from '../email-store.ts';
import type { Queryable } from '../../database/database.ts';

/** In the order of positions, like the recipients of findEmail. */
export type RecipientState = {
  /** The last attempt as in the timeline, with its dialogue; null: none was made. */
  attempt: Record<string, unknown> | null;
  attemptedAt: Date | null;
  provider: string | null;
  dueAt: Date | null;
  /** Milliseconds until it is due; 0 or less when it is due. */
  dueInMs: number;
  isWithWorker: boolean;
  isOnHold: boolean;
  /** Time of a planned drop (delivery/queue-control/drop-store.ts); null: none. */
  dropsAt: Date | null;
};

const RECIPIENTS = `
with t as materialized (select app_now() as now),
last as materialized (
  select distinct on (v.position) v.position, v.attempt, v.created_at
    from events v
   where v.project_id = $1 and v.environment = $2 and v.subject_id = $3
     and v.position is not null and v.attempt is not null
   order by v.position, v.seq desc
)
select l.attempt, l.created_at as "attemptedAt", q.provider, q.due_at as "dueAt",
       coalesce(extract(epoch from q.due_at - t.now) * 1000, 0)::float8 as "dueInMs", coalesce(num_nonnulls(q.holder) = 1, false) as "isWithWorker",
       coalesce(q.held, false) as "isOnHold", d.drops_at as "dropsAt"
  from t, recipients r
  left join queue q on q.project_id = r.project_id and q.email_id = r.email_id
                   and q.position = r.position
  left join queue_drops d on d.id = q.drop_id and d.undone_at is null
  left join last l on l.position = r.position
 where r.project_id = $1 and r.email_id = $3
 order by r.position`;

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
select e.domain_id as "domainId", e.dual_signed as "dualSigned", e.expires_at as "expiresAt",
       (select c.tls from contents c where c.project_id = $1 and c.email_id = $3) as tls,
       case when d.deleted_at is null then ${DISPLAYED_STATUS('d')} end as "domainStatus",
       coalesce(d.deleted_at is null and d.paused_at is not null, false) as "isPaused",
       exists (select from unusable_secrets u where u.kind = 'domain' and u.owner_id = $1
                                                and u.id = e.domain_id) as "isKeyUnusable",
       exists (select from nodes) as "hasWorkers",
       (select on_hold_since from installation) as "onHoldSince"
  from emails e
  left join domains d on d.project_id = e.project_id and d.id = e.domain_id
 where e.project_id = $1 and e.environment = $2 and e.id = $3`;

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
  from (select from queue q
         where q.project_id = $1 and q.provider = $2 and q.holder is null and q.due_at < $3
         limit ${AHEAD_MAX}) ahead`;

/** Counts the project's recipients at the same provider that are due earlier, up to AHEAD_MAX. */
export async function countAhead(
  db: Queryable,
  { projectId, provider, dueAt }: { projectId: string; provider: string; dueAt: Date },
): Promise<number> {
  return (await db.query<{ count: number }>(AHEAD, [projectId, provider, dueAt]))[0]?.count ?? 0;
}
