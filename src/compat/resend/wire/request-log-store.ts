/**
 * The log of requests to the root mount, which clients can list. It has no bodies, queries or keys. It is kept for a
 * week. A crash loses its last second.
 */
import type { Scope } from '../../../core/scope.ts';
import type { Queryable } from '../../../database/database.ts';
import { type Page, type PageResult, cutToPage } from '../../../database/page.ts';
import { batchDelete } from '../../../database/expiry.ts';

export type LoggedRequest = {
  id: string;
  method: string;
  /** Path with ids, but without addresses or names. */
  endpoint: string;
  status: number;
  userAgent: string | null;
};

export type NewLoggedRequest = Scope & LoggedRequest;

const ADD = `
insert into request_log (project_id, environment, id, created_at, method, endpoint, status, user_agent)
select input.project_id, input.environment, input.id, app_now(), input.method, input.endpoint, input.status,
       input.user_agent
  from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::text[])
       as input(project_id, environment, id, method, endpoint, status, user_agent)
on conflict do nothing`;

export async function addRequests(
  db: Queryable,
  requests: readonly NewLoggedRequest[],
): Promise<void> {
  await db.query(ADD, [
    requests.map(({ projectId }) => projectId),
    requests.map(({ environment }) => environment),
    requests.map(({ id }) => id),
    requests.map(({ method }) => method),
    requests.map(({ endpoint }) => endpoint),
    requests.map(({ status }) => status),
    requests.map(({ userAgent }) => userAgent),
  ]);
}

const COLUMNS = `id, method, endpoint, status, user_agent as "userAgent", created_at as "createdAt"`;

export type StoredRequest = LoggedRequest & {
  /** When it was stored, at most a second after its response. */
  createdAt: Date;
};

const list = (order: 'desc' | 'asc') => `
select ${COLUMNS} from request_log
 where project_id = $1 and environment = $2
   and ($4::uuid is null or id < $4) and ($5::uuid is null or id > $5)
 order by id ${order}
 limit $3`;

export async function listRequests(
  db: Queryable,
  scope: Scope,
  page: Page,
): Promise<PageResult<StoredRequest>> {
  const values = [scope.projectId, scope.environment, page.limit + 1, page.after, page.before];
  const statement = list(page.before === null ? 'desc' : 'asc');
  return cutToPage(await db.query<StoredRequest>(statement, values), page);
}

const FIND = `
select ${COLUMNS} from request_log where project_id = $1 and environment = $2 and id = $3`;

export async function findRequest(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<StoredRequest | null> {
  const values = [scope.projectId, scope.environment, id];
  return (await db.query<StoredRequest>(FIND, values))[0] ?? null;
}

const KEPT_DAYS = 7;

export const deleteOldRequests = batchDelete(
  'request_log',
  `created_at <= app_now() - interval '${KEPT_DAYS} days' order by created_at`,
);
