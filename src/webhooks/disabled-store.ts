/**
 * Compares webhook endpoints that the service has disabled (`sending/queue-store.ts`) with the open conditions
 * `webhook.disabled`. The statement that settles outcomes runs too often to report them itself.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import type { WebhookEndpoint } from './endpoint-store.ts';

export type DisabledWebhook = Scope &
  Pick<WebhookEndpoint, 'id' | 'url' | 'failingSince'> & { reason: string; projectName: string };

const FIND_NEW = `
select e.project_id as "projectId", e.environment, e.id, e.url, e.disabled_reason as reason,
       e.failing_since as "failingSince", p.name as "projectName"
  from webhook_endpoints e
  join projects p on p.id = e.project_id
 where e.status = 'disabled' and e.disabled_reason is not null
   and not exists (select from operator_conditions c
                    where c.type = 'webhook.disabled' and c.subject = e.id::text)
 order by e.id limit $1`;

export function unreportedWebhooks(db: Queryable, limit: number): Promise<DisabledWebhook[]> {
  return db.query<DisabledWebhook>(FIND_NEW, [limit]);
}

const FIND_OVER = `
select c.subject
  from operator_conditions c
 where c.type = 'webhook.disabled'
   and not exists (select from webhook_endpoints e
                    where e.project_id = (c.details ->> 'project_id')::uuid and e.id = c.subject::uuid
                      and e.status = 'disabled' and e.disabled_reason is not null)`;

export async function enabledWebhooks(db: Queryable): Promise<string[]> {
  return (await db.query<{ subject: string }>(FIND_OVER)).map(({ subject }) => subject);
}
