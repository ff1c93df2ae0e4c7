/**
 * `/logs` of the root mount: the requests to it, noted in memory and written every second. What cannot be
 * written is dropped: a log must not hold up requests, nor the memory of a worker.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isRefusal } from '../../core/refusals.ts';
import { isId } from '../../store/ids.ts';
import type { Queryable } from '../../store/postgres/database.ts';
import {
  addRequests,
  findRequest,
  listRequests,
  type NewLoggedRequest,
  type StoredRequest,
} from '../../store/request-log.ts';
import { callerOf } from '../access.ts';
import { notFound, refuse } from '../errors.ts';
import { pageAnswer, pageFrom } from '../list.ts';
import type { App, HttpServices } from '../services.ts';
import { isOfRootMount } from './failures.ts';
import { HIDDEN, idInPath, pageQuery } from './wire.ts';

const WRITE_EVERY_MS = 1_000;
const WAITING_MAX = 5_000;
const USER_AGENT_MAX = 200;

export function registerResendLogs(app: App, { db }: HttpServices): void {
  const notes = new RequestNotes(db);
  app.addHook('onResponse', (request, reply, done) => {
    notes.add(request, reply);
    done();
  });
  app.addHook('onClose', () => notes.write());

  app.get('/logs', {
    schema: { ...HIDDEN, querystring: pageQuery },
    handler: async (request, reply) => {
      const page = pageFrom(request.query);
      if (isRefusal(page)) return refuse(reply, page);
      return pageAnswer(await listRequests(db, callerOf(request), page), present);
    },
  });

  app.get('/logs/:id', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const { id } = request.params;
      const found = isId(id) ? await findRequest(db, callerOf(request), id) : null;
      if (found === null) return notFound(reply, 'request');
      // Bodies are contents of emails, and are not kept.
      return { object: 'log', ...present(found), request_body: null, response_body: null };
    },
  });
}

class RequestNotes {
  readonly #db: Queryable;
  #waiting: NewLoggedRequest[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(db: Queryable) {
    this.#db = db;
  }

  add(request: FastifyRequest, { statusCode: status }: FastifyReply): void {
    const { caller, id, method, url } = request;
    if (caller === null || !isOfRootMount(url) || this.#waiting.length >= WAITING_MAX) return;
    const { projectId, environment } = caller;
    const userAgent = request.headers['user-agent']?.slice(0, USER_AGENT_MAX) ?? null;
    const endpoint = endpointOf(request);
    this.#waiting.push({ projectId, environment, id, method, endpoint, status, userAgent });
    this.#timer ??= setTimeout(() => void this.write(), WRITE_EVERY_MS).unref();
  }

  async write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length > 0) await addRequests(this.#db, batch).catch(() => {});
  }
}

/** The path with its ids. An address, or what else a client writes there, stays out of the log. */
function endpointOf({ routeOptions, params }: FastifyRequest): string {
  const values = params as Readonly<Record<string, string>>;
  return (routeOptions.url ?? '').replaceAll(/:(\w+)/g, (name, key: string) => {
    const value = values[key] ?? '';
    return isId(value) ? value : name;
  });
}

function present({ id, createdAt, endpoint, method, status, userAgent }: StoredRequest) {
  return {
    id,
    created_at: createdAt.toISOString(),
    endpoint,
    method,
    response_status: status,
    user_agent: userAgent,
  };
}
