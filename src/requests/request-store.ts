/**
 * The API log: requests of callers with a key or a session that failed or changed something. Entries are kept for a
 * week. A crash loses the last second.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { type Page, type PageResult, cutToPage, findIdRange } from '../database/page.ts';
import { batchDelete } from '../database/expiry.ts';
import { HOUR_MS } from '../lib/units.ts';

export type ApiRequest = {
  id: string;
  /** The key; null for a session, which sets `memberId`. */
  keyId: string | null;
  memberId: string | null;
  method: string;
  path: string;
  status: number;
  durationMs: number;
  /** A /24, or a /48 of IPv6. */
  network: string;
  userAgent: string | null;
  /** null for a success, like `errorMessage`. */
  errorCode: string | null;
  errorMessage: string | null;
};

/** `body` is the JSON of an outline (body-outline.ts). */
export type NewApiRequest = Scope & ApiRequest & { body: string | null };

const ADD = `
insert into api_requests (project_id, environment, id, created_at, key_id, member_id, method, path, status,
                          duration_ms, network, user_agent, error_code, error_message, body)
select input.project_id, input.environment, input.id, app_now(), input.key_id, input.member_id, input.method,
       input.path, input.status,
       input.duration_ms, input.network, input.user_agent, input.error_code, input.error_message, input.body
  from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::smallint[],
              $9::int[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
       as input(project_id, environment, id, key_id, member_id, method, path, status, duration_ms, network,
            user_agent, error_code, error_message, body)
on conflict do nothing`;

const FIELDS = [
  'projectId',
  'environment',
  'id',
  'keyId',
  'memberId',
  'method',
  'path',
  'status',
  'durationMs',
  'network',
  'userAgent',
  'errorCode',
  'errorMessage',
  'body',
] as const satisfies readonly (keyof NewApiRequest)[];

export async function addApiRequests(
  db: Queryable,
  requests: readonly NewApiRequest[],
): Promise<void> {
  const columns = FIELDS.map((field) => requests.map((request) => request[field]));
  await db.query(ADD, columns);
}

export type StoredApiRequest = ApiRequest & {
  /** When it was stored, at most a second after its response. */
  createdAt: Date;
  /** Current name of the key or the member. */
  name: string | null;
  keyHint: string | null;
};

const COLUMNS = `
       request.id, request.key_id as "keyId", request.member_id as "memberId", request.method, request.path,
       request.status,
       request.duration_ms as "durationMs", request.network,
       request.user_agent as "userAgent", request.error_code as "errorCode", request.error_message as "errorMessage",
       request.created_at as "createdAt", coalesce(members.name, api_keys.name) as name,
       api_keys.hint as "keyHint"`;
const ACTOR = `
  left join api_keys on api_keys.project_id = request.project_id and api_keys.id = request.key_id
  left join members on members.id = request.member_id`;

/** null fields match any request. */
export type ApiRequestFilter = {
  statuses: { from: number; to: number } | null;
  method: string | null;
  keyId: string | null;
  memberId: string | null;
  /** Inclusive. */
  from: Date | null;
  /** Exclusive. */
  to: Date | null;
};

const list = (order: 'desc' | 'asc') => `
select ${COLUMNS}
  from (select * from api_requests
         where project_id = $1 and environment = $2
           and ($4::uuid is null or id < $4) and ($5::uuid is null or id > $5)
           and ($6::int is null or status between $6 and $7)
           and ($8::text is null or method = $8) and ($9::uuid is null or key_id = $9)
           and ($10::uuid is null or member_id = $10)
           and ($11::timestamptz is null or created_at >= $11)
           and ($12::timestamptz is null or created_at < $12)
         order by id ${order} limit $3) request
  ${ACTOR}
 order by request.id ${order}`;

/** An id is made when a request begins, and its entry is stored after its response. */
const LONGEST_REQUEST_MS = HOUR_MS;

export async function listApiRequests(
  db: Queryable,
  scope: Scope,
  page: Page,
  { statuses, method, keyId, memberId, from, to }: ApiRequestFilter,
): Promise<PageResult<StoredApiRequest>> {
  const firstFrom = from && new Date(from.getTime() - LONGEST_REQUEST_MS);
  const { olderThan, newerThan } = await findIdRange(db, page, { from: firstFrom, to });
  const place = [scope.projectId, scope.environment, page.limit + 1, olderThan, newerThan];
  const range = [statuses?.from ?? null, statuses?.to ?? null];
  const values = [...place, ...range, method, keyId, memberId, from, to];
  const statement = list(page.before === null ? 'desc' : 'asc');
  return cutToPage(await db.query<StoredApiRequest>(statement, values), page);
}

const FIND = `
select ${COLUMNS}, request.body
  from api_requests request ${ACTOR}
 where request.project_id = $1 and request.environment = $2 and request.id = $3`;

export async function findApiRequest(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<(StoredApiRequest & { body: string | null }) | null> {
  const values = [scope.projectId, scope.environment, id];
  const [found] = await db.query<StoredApiRequest & { body: string | null }>(FIND, values);
  return found ?? null;
}

/** Entries that a search reads, and that it reads when no text can be compared in the database. */
const SEARCHED_MAX = { byText: 20_000, all: 2_000 } as const;
const FOUND_MAX = 100;

export type RefusedRequest = Pick<
  StoredApiRequest,
  'id' | 'createdAt' | 'method' | 'path' | 'status' | 'errorCode' | 'errorMessage'
> & { body: string | null };

const FIND_REFUSED = `
select id, created_at as "createdAt", method, path, status, error_code as "errorCode",
       error_message as "errorMessage", body
  from (select * from api_requests
         where project_id = $1 and environment = $2 order by id desc limit $3) recent
 where status between 400 and 499
   and ($4::text is null or strpos(lower(concat_ws(' ', error_message, body)), $4) > 0)
 order by id desc limit $5`;

/**
 * Returns refused requests with this text, newest first.
 * @param text in small letters; null for any
 */
export function findRefusedRequests(
  db: Queryable,
  { projectId, environment }: Scope,
  text: string | null,
): Promise<RefusedRequest[]> {
  const [readMax, foundMax] =
    text === null ? [SEARCHED_MAX.all, SEARCHED_MAX.all] : [SEARCHED_MAX.byText, FOUND_MAX];
  return db.query<RefusedRequest>(FIND_REFUSED, [projectId, environment, readMax, text, foundMax]);
}

const KEPT_DAYS = 7;

export const deleteOldApiRequests = batchDelete(
  'api_requests',
  `created_at <= app_now() - interval '${KEPT_DAYS} days' order by created_at`,
);
