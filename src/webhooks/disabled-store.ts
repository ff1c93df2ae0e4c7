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
select webhook_endpoints.project_id as "projectId", webhook_endpoints.environment, webhook_endpoints.id,
       webhook_endpoints.url, webhook_endpoints.disabled_reason as reason,
       webhook_endpoints.failing_since as "failingSince", projects.name as "projectName"
  from webhook_endpoints
  join projects on projects.id = webhook_endpoints.project_id
 where webhook_endpoints.status = 'disabled' and webhook_endpoints.disabled_reason is not null
   and not exists (select from operator_conditions
                    where operator_conditions.type = 'webhook.disabled'
                      and operator_conditions.subject = webhook_endpoints.id::text)
 order by webhook_endpoints.id limit $1`;

/** Finds disabled endpoints without a condition. */
export function findUnreportedEndpoints(db: Queryable, limit: number): Promise<DisabledEndpoint[]> {
  return db.query<DisabledEndpoint>(FIND_UNREPORTED, [limit]);
}

const FIND_REENABLED = `
select operator_conditions.subject
  from operator_conditions
 where operator_conditions.type = 'webhook.disabled'
   and not exists (select from webhook_endpoints
                    where webhook_endpoints.project_id = (operator_conditions.details ->> 'project_id')::uuid
                      and webhook_endpoints.id = operator_conditions.subject::uuid
                      and webhook_endpoints.status = 'disabled'
                      and webhook_endpoints.disabled_reason is not null)`;

/** Returns the ids of endpoints with a condition that were enabled or deleted. */
export async function findReenabledEndpoints(db: Queryable): Promise<string[]> {
  return (await db.query<{ subject: string }>(FIND_REENABLED)).map(({ subject }) => subject);
}
