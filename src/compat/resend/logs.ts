/** `/logs` of the root mount: the requests to it. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Scope } from '../../core/scope.ts';
import { isId } from '../../database/ids.ts';
import {
  addRequests,
  findRequest,
  listRequests,
  type NewLoggedRequest,
  type StoredRequest,
} from './wire/request-log-store.ts';
import { callerOf } from '../../http/access.ts';
import { notFound } from '../../http/errors.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import { WriteBehind } from '../../lib/write-behind.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { isOfRootMount } from './wire/failures.ts';
import { HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

const USER_AGENT_MAX = 200;

export function registerResendLogs(app: App, { db }: HttpServices): void {
  const requestLog = new WriteBehind<NewLoggedRequest>((rows) => addRequests(db, rows));
  app.addHook('onResponse', (request, reply, done) => {
    const { caller, url } = request;
    if (caller !== null && isOfRootMount(url)) requestLog.add(logEntryOf(request, reply, caller));
    done();
  });
  app.addHook('onClose', () => requestLog.flush());

  app.get('/logs', {
    schema: { ...HIDDEN, querystring: pageQuery },
    handler: async (request) => {
      const page = readPage(request.query);
      const caller = callerOf(request);
      const reads = db.readsOf(caller.projectId);
      return pageResponse(await listRequests(reads, caller, page), logToResend);
    },
  });

  app.get('/logs/:id', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const { id } = request.params;
      const found = isId(id) ? await findRequest(db, callerOf(request), id) : null;
      if (found === null) return notFound(reply, 'request');
      // Bodies contain emails, so they are not stored.
      return { object: 'log', ...logToResend(found), request_body: null, response_body: null };
    },
  });
}

function logEntryOf(
  request: FastifyRequest,
  { statusCode: status }: FastifyReply,
  { projectId, environment }: Scope,
): NewLoggedRequest {
  const { id, method } = request;
  const userAgent = request.headers['user-agent']?.slice(0, USER_AGENT_MAX) ?? null;
  return { projectId, environment, id, method, endpoint: endpointOf(request), status, userAgent };
}

/** Returns the path with its ids. Addresses and other values of the client stay out of the log. */
function endpointOf({ routeOptions, params }: FastifyRequest): string {
  const values = params as Readonly<Record<string, string>>;
  return (routeOptions.url ?? '').replaceAll(/:(\w+)/g, (name, key: string) => {
    const value = values[key] ?? '';
    return isId(value) ? value : name;
  });
}

function logToResend({ id, createdAt, endpoint, method, status, userAgent }: StoredRequest) {
  return {
    id,
    created_at: createdAt.toISOString(),
    endpoint,
    method,
    response_status: status,
    user_agent: userAgent,
  };
}
