/**
 * Compares webhook endpoints that the service has disabled (sending/webhook-queue-store.ts) with the open conditions
 * `webhook.disabled`. The statement that settles outcomes runs too often to report them itself.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import type { WebhookEndpoint } from './endpoint-store.ts';

export type DisabledEndpoint = Scope &
  Pick<WebhookEndpoint, 'id' | 'url' | 'failingSince'> & { reason: string; projectName: string };

const FIND_UNREPORTED = `
select e.project_id as "projectId", e.environment, e.id, e.url, e.disabled_reason as reason,
       e.failing_since as "failingSince", p.name as "projectName"
  from webhook_endpoints e
  join projects p on p.id = e.project_id
 where e.status = 'disabled' and e.disabled_reason is not null
   and not exists (select from operator_conditions c
                    where c.type = 'webhook.disabled' and c.subject = e.id::text)
 order by e.id limit $1`;

/** Finds disabled endpoints without a condition. */
export function findUnreportedEndpoints(db: Queryable, limit: number): Promise<DisabledEndpoint[]> {
  return db.query<DisabledEndpoint>(FIND_UNREPORTED, [limit]);
}

const FIND_REENABLED = `
select c.subject
  from operator_conditions c
 where c.type = 'webhook.disabled'
   and not exists (select from webhook_endpoints e
                    where e.project_id = (c.details ->> 'project_id')::uuid and e.id = c.subject::uuid
                      and e.status = 'disabled' and e.disabled_reason is not null)`;

/** Returns the ids of endpoints with a condition that were enabled or deleted. */
export async function findReenabledEndpoints(db: Queryable): Promise<string[]> {
  return (await db.query<{ subject: string }>(FIND_REENABLED)).map(({ subject }) => subject);
}
