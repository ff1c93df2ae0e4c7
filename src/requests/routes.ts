/** Routes of the API log of a project and environment. */
import { z } from 'zod';
import { isId } from '../database/ids.ts';
import {
  type ApiRequestFilter,
  findApiRequest,
  listApiRequests,
  type StoredApiRequest,
} from './request-store.ts';
import { callerOf } from '../http/access.ts';
import { notFound } from '../http/errors.ts';
import { pageResponse, readPage } from '../http/list-pages.ts';
import { doc, failures, idParams, idSchema, listOf, listQuery, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';

const TAGS = ['API log'];
const WHAT_IS_LOGGED =
  'The log contains failed requests with a key or a session, and changes other than sending, at most 100 a minute ' +
  'for each process of the service. It keeps an entry for a week.';

export function registerRequestRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/requests', {
    schema: {
      summary: 'List requests',
      description: `Lists logged requests, newest first. ${WHAT_IS_LOGGED}`,
      operationId: 'listRequests',
      tags: TAGS,
      querystring: requestQuery,
      response: { 200: requestList, ...failures(422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      const filter = filterFrom(request.query);
      const caller = callerOf(request);
      const reads = db.readsOf(caller.projectId);
      return pageResponse(await listApiRequests(reads, caller, page, filter), requestToWire);
    },
  });

  app.get('/v1/requests/:id', {
    schema: {
      summary: 'Read a request',
      description: `Returns the request with the id in the \`X-Request-Id\` of its response. An entry appears within a second. ${WHAT_IS_LOGGED}`,
      operationId: 'getRequest',
      tags: TAGS,
      params: idParams('request'),
      response: { 200: requestDetail, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const found = isId(id) ? await findApiRequest(db, callerOf(request), id) : null;
      if (found === null) return notFound(reply, 'request');
      return { ...requestToWire(found), body: JSON.parse(found.body ?? 'null') as unknown };
    },
  });
}

const STATUS_MAX = 599;

function filterFrom(query: z.output<typeof requestQuery>): ApiRequestFilter {
  const { status, method = null, key_id: keyId = null, member_id: memberId = null } = query;
  return {
    statuses: status === undefined ? null : statusesOf(status),
    method,
    keyId,
    memberId,
    from: query.from === undefined ? null : new Date(query.from),
    to: query.to === undefined ? null : new Date(query.to),
  };
}

/** Parses `failed`, `4xx` or `422`. */
function statusesOf(text: string): { from: number; to: number } {
  if (text === 'failed') return { from: 400, to: STATUS_MAX };
  if (!text.endsWith('xx')) return { from: Number(text), to: Number(text) };
  const from = Number(text[0]) * 100;
  return { from, to: from + 99 };
}

function requestToWire(request: StoredApiRequest) {
  const { errorCode: code, errorMessage: message } = request;
  return {
    object: 'request' as const,
    id: request.id,
    method: request.method,
    path: request.path,
    status: request.status,
    duration_ms: request.durationMs,
    actor: {
      type: request.memberId === null ? ('api_key' as const) : ('member' as const),
      id: request.memberId ?? request.keyId ?? '',
      name: request.name,
      hint: request.keyHint,
    },
    network: request.network,
    user_agent: request.userAgent,
    error: code === null ? null : { code, message: message ?? '' },
    created_at: request.createdAt.toISOString(),
  };
}

const timeOf = (description: string) =>
  doc(z.iso.datetime({ offset: true }).optional(), description, '2026-11-21T08:30:00.123Z');

const requestQuery = listQuery({
  status: doc(
    z
      .string()
      .regex(/^(failed|[1-5]xx|[1-5]\d\d)$/, 'must be like 422, 4xx or failed')
      .optional(),
    'Returns only requests with this status: a number, a class such as `4xx`, or `failed`.',
    '4xx',
  ),
  method: doc(
    z.enum(['GET', 'POST', 'PATCH', 'PUT', 'DELETE']).optional(),
    'Returns only requests with this method.',
  ),
  key_id: doc(
    z.uuid().optional(),
    'Returns only requests with this key.',
    '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
  ),
  member_id: doc(
    z.uuid().optional(),
    'Returns only requests by this member in the dashboard.',
    '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
  ),
  from: timeOf('Returns only requests at this time or later.'),
  to: timeOf('Returns only requests before this time.'),
});

const apiRequest = z
  .object({
    object: z.literal('request'),
    id: idSchema('Id of the request, as in `X-Request-Id`.'),
    method: z.string().meta({ examples: ['POST'] }),
    path: z
      .string()
      .meta({ description: 'Path of the request, without its query.', examples: ['/v1/emails'] }),
    status: z.int().meta({ description: 'HTTP status of the response.', examples: [422] }),
    duration_ms: z
      .int()
      .meta({ description: 'Milliseconds until the response was sent.', examples: [3] }),
    actor: z.object({
      type: z.enum(['api_key', 'member']).describe('Type of the caller.'),
      id: idSchema('Id of the key or member.'),
      name: doc(z.string().nullable(), 'Current name of the key or member.', 'Shop'),
      hint: doc(
        z.string().nullable(),
        'First characters of the key, to recognize it.',
        'lh_live_abcd…',
      ),
    }),
    network: doc(z.string(), 'Network of the request.', '203.0.113.0'),
    user_agent: doc(z.string().nullable(), 'User-Agent header of the request.', 'curl/8.9.1'),
    error: doc(
      z
        .object({
          code: z.string().meta({ examples: ['validation_error'] }),
          message: z.string().meta({ examples: ['to[2]: "bob@" is not an email address'] }),
        })
        .nullable(),
      'Error of a failed request, as in the responses of `/v1`.',
    ),
    created_at: time('Time of the entry, at most one second after the response.'),
  })
  .meta({ id: 'ApiRequest' });

const requestList = listOf('ApiRequestList', apiRequest);

const requestDetail = apiRequest
  .extend({
    body: z.unknown().meta({
      description:
        'Outline of the body of a failed request. The sizes of contents, secrets and unknown fields replace ' +
        'their values.',
      examples: [{ to: 'bob@', html: '(text, 2,048 characters)' }],
    }),
  })
  .meta({ id: 'ApiRequestDetail' });
