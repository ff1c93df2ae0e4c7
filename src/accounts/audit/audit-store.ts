/**
 * The audit log: who changed what, when and from which network. Entries are kept for 400 days, with the name that the
 * changed object had.
 */
import type { Environment, Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { isId, newId } from '../../database/ids.ts';
import { type Page, type PageResult, cutToPage, findIdRange } from '../../database/page.ts';
import { batchDelete } from '../../database/expiry.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';

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
  /** Name of the target before a deletion. Otherwise the statement looks it up. */
  targetName?: string | null;
  network: string | null;
  requestId: string | null;
};

type Place = { organization: string; project: string; id: string };

/** Selects the name of the object with an id. A webhook has its URL, a member and an invitation the address. */
const nameOf = ({ organization, project, id }: Place): string => `
  (select named.name
     from (select name from domains where project_id = ${project} and id = ${id}
           union all
           select url from webhook_endpoints where project_id = ${project} and id = ${id}
           union all
           select name from templates where project_id = ${project} and id = ${id}
           union all
           select name from api_keys where project_id = ${project} and id = ${id}
           union all
           select email from members where organization_id = ${organization} and id = ${id}
           union all
           select email from invitations where organization_id = ${organization} and id = ${id}
           union all
           select name from projects where organization_id = ${organization} and id = ${id}) named
    limit 1)`;

const NAME = nameOf({ organization: '$1::uuid', project: '$2::uuid', id: '$3::uuid' });
const FIND_NAME = `select ${NAME} as name`;

/** Returns the name of the object with this id, for the entry about its deletion. */
export async function findTargetName(
  db: Queryable,
  organizationId: string,
  { projectId, id }: { projectId: string | null; id: string },
): Promise<string | null> {
  const [row] = await db.query<{ name: string | null }>(FIND_NAME, [organizationId, projectId, id]);
  return row?.name ?? null;
}

const added = namedParameters([
  'organizationId',
  'id',
  'action',
  'actorType',
  'actorId',
  'actorName',
  'projectId',
  'environment',
  'target',
  'targetId',
  'targetName',
  'network',
  'requestId',
]);

// The request of a key does not contain the key's name, so the statement looks it up.
const ADD = `
insert into audit_log (organization_id, id, created_at, action, actor_type, actor_id, actor_name,
                       project_id, environment, target, target_name, network, request_id)
values (${added.sql.organizationId}::uuid, ${added.sql.id}, app_now(), ${added.sql.action}, ${added.sql.actorType},
        ${added.sql.actorId}::uuid,
        coalesce(${added.sql.actorName},
                 (select name from api_keys
                   where ${added.sql.actorType} = 'api_key' and project_id = ${added.sql.projectId}
                     and id = ${added.sql.actorId})),
        ${added.sql.projectId}::uuid, ${added.sql.environment}, ${added.sql.target},
        coalesce(${added.sql.targetName}, ${nameOf({
          organization: added.sql.organizationId,
          project: added.sql.projectId,
          id: `${added.sql.targetId}::uuid`,
        })}),
        ${added.sql.network}, ${added.sql.requestId})`;

export async function addAuditEvent(
  db: Queryable,
  organizationId: string,
  event: AuditEvent,
): Promise<void> {
  const { target, targetName = null } = event;
  const targetId = target !== null && isId(target) ? target : null;
  const row = { ...event, organizationId, id: newId(), targetId, targetName };
  await db.query(ADD, added.valuesOf(row));
}

export type StoredAuditEvent = AuditEvent & {
  id: string;
  createdAt: Date;
  targetName: string | null;
  /** Current name of the member. */
  memberName: string | null;
};

/** null fields match any entry. */
export type AuditFilter = {
  actions: readonly string[] | null;
  actorId: string | null;
  projectId: string | null;
  target: string | null;
  from: Date | null;
  to: Date | null;
};

const listed = namedParameters([
  'organizationId',
  'limit',
  'olderThan',
  'newerThan',
  'actions',
  'actorId',
  'projectId',
  'target',
  'from',
  'to',
]);

const list = (order: 'desc' | 'asc') => `
select entry.id, entry.created_at as "createdAt", entry.action, entry.actor_type as "actorType",
       entry.actor_id as "actorId", entry.actor_name as "actorName", entry.project_id as "projectId",
       entry.environment, entry.target, entry.target_name as "targetName", entry.network,
       entry.request_id as "requestId", members.name as "memberName"
  from (select * from audit_log
         where organization_id = ${listed.sql.organizationId}
           and (${listed.sql.olderThan}::uuid is null or id < ${listed.sql.olderThan})
           and (${listed.sql.newerThan}::uuid is null or id > ${listed.sql.newerThan})
           and (${listed.sql.actions}::text[] is null or action = any (${listed.sql.actions}))
           and (${listed.sql.actorId}::uuid is null or actor_id = ${listed.sql.actorId})
           and (${listed.sql.projectId}::uuid is null or project_id = ${listed.sql.projectId})
           and (${listed.sql.target}::text is null or target = ${listed.sql.target})
           and (${listed.sql.from}::timestamptz is null or created_at >= ${listed.sql.from})
           and (${listed.sql.to}::timestamptz is null or created_at < ${listed.sql.to})
         order by id ${order} limit ${listed.sql.limit}) entry
  left join members on entry.actor_type = 'member' and members.id = entry.actor_id
 order by entry.id ${order}`;

export async function listAuditEvents(
  db: Queryable,
  organizationId: string,
  { page, filter }: { page: Page; filter: AuditFilter },
): Promise<PageResult<StoredAuditEvent>> {
  const range = await findIdRange(db, page, filter);
  const values = listed.valuesOf({ ...filter, ...range, organizationId, limit: page.limit + 1 });
  const statement = list(page.before === null ? 'desc' : 'asc');
  return cutToPage(await db.query<StoredAuditEvent>(statement, values), page);
}

const READ_MAX = 10_000;

export type TargetChange = Pick<
  StoredAuditEvent,
  'action' | 'actorType' | 'actorId' | 'actorName' | 'target' | 'createdAt'
>;

const FIND_CHANGES = `
select action, actor_type as "actorType", actor_id as "actorId", actor_name as "actorName", target,
       created_at as "createdAt"
  from (select * from audit_log where organization_id = $1 order by id desc limit ${READ_MAX}) recent
 where project_id = $2 and environment = $3 and action = any($4::text[])
 order by id desc`;

/** Returns changes of these kinds in a project and environment, newest first, among the last 10,000 changes. */
export function findChanges(
  db: Queryable,
  organizationId: string,
  { projectId, environment, actions }: Scope & { actions: readonly string[] },
): Promise<TargetChange[]> {
  return db.query<TargetChange>(FIND_CHANGES, [organizationId, projectId, environment, actions]);
}

const KEPT_DAYS = 400;

export const deleteOldAuditEvents = batchDelete(
  'audit_log',
  `created_at <= app_now() - interval '${KEPT_DAYS} days' order by created_at`,
);
