/** The audit log: who changed what, when and from which network. Entries are kept for 400 days. */
import type { Environment } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { type Page, type PageResult, cutToPage } from '../../database/page.ts';
import { batchDelete } from '../../database/expiry.ts';

export const ACTOR_TYPES = ['member', 'api_key', 'command'] as const;

export type AuditEvent = {
  action: string;
  actorType: (typeof ACTOR_TYPES)[number];
  /** The member or the key; null for a command. */
  actorId: string | null;
  /** The member's address or the key's name, at the time of the change. */
  actorName: string | null;
  /** null when the change concerns the whole organization. */
  projectId: string | null;
  environment: Environment | null;
  target: string | null;
  network: string | null;
  requestId: string | null;
};

// The request of a key does not contain the key's name, so the statement looks it up.
const ADD = `
insert into audit_log (organization_id, id, created_at, action, actor_type, actor_id, actor_name,
                       project_id, environment, target, network, request_id)
values ($1, $2, app_now(), $3, $4, $5,
        coalesce($6, (select name from api_keys where $4 = 'api_key' and project_id = $7 and id = $5)),
        $7, $8, $9, $10, $11)`;

export async function addAuditEvent(
  db: Queryable,
  organizationId: string,
  event: AuditEvent,
): Promise<void> {
  const { action, actorType, actorId, actorName, projectId, environment } = event;
  const { target, network, requestId } = event;
  const actor = [organizationId, newId(), action, actorType, actorId, actorName];
  await db.query(ADD, [...actor, projectId, environment, target, network, requestId]);
}

export type StoredAuditEvent = AuditEvent & { id: string; createdAt: Date };

const LIST = `
select id, created_at as "createdAt", action, actor_type as "actorType", actor_id as "actorId",
       actor_name as "actorName", project_id as "projectId", environment, target, network,
       request_id as "requestId"
  from audit_log
 where organization_id = $1 and ($3::uuid is null or id < $3) and ($4::uuid is null or id > $4)
 order by id`;

export async function listAuditEvents(
  db: Queryable,
  organizationId: string,
  page: Page,
): Promise<PageResult<StoredAuditEvent>> {
  const values = [organizationId, page.limit + 1, page.after, page.before];
  const statement = `${LIST} ${page.before === null ? 'desc' : 'asc'} limit $2`;
  return cutToPage(await db.query<StoredAuditEvent>(statement, values), page);
}

const KEPT_DAYS = 400;

export const deleteOldAuditEvents = batchDelete(
  'audit_log',
  `created_at <= app_now() - interval '${KEPT_DAYS} days' order by created_at`,
);
