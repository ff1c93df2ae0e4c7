/**
 * Records requests for the API log (requests/request-store.ts), on both mounts: every failure of a caller with a key or
 * a session, and changes that succeeded. It records neither sending, because emails have their own record and the mail
 * path must not pay for a log, nor reading. A request that fails before its key was checked is in no project's log.
 */
import type { FastifyReply, FastifyRequest, onResponseHookHandler, RouteOptions } from 'fastify';
import type { World } from '../lib/world.ts';
import type { Caller } from '../core/scope.ts';
import { networkOf } from '../net/ip-addresses.ts';
import { addApiRequests, type NewApiRequest } from './request-store.ts';
import { isFromLocalOperator } from '../http/socket/local-operator.ts';
import { outlineOf } from './body-outline.ts';
import { WriteBehind } from '../lib/write-behind.ts';
import type { Access, App, HttpServices } from '../http/services.ts';
import { MINUTE_MS } from '../lib/units.ts';

/** Limit per project in this process, so that a program in a loop does not fill the disk. */
const ENTRIES_PER_MINUTE = 100;
const PATH_MAX = 300;
const MESSAGE_MAX = 1_000;
const USER_AGENT_MAX = 200;

/** Their requests concern members, not a project; the audit log contains those that changed something. */
const MEMBER_ACCESS: ReadonlySet<Access> = new Set<Access>(['session', 'sign_in']);

/** Adds the hooks of the API log. They apply only to routes that are registered afterwards. */
export function registerRequestLog(
  app: App,
  { db, world }: Pick<HttpServices, 'db' | 'world'>,
): void {
  const notes = new WriteBehind<NewApiRequest>((rows) => addApiRequests(db, rows));
  const turns = new EntriesPerMinute(world);
  const note: onResponseHookHandler = (request, reply, done) => {
    const { caller } = request;
    const isOfProject =
      caller !== null && !isFromLocalOperator(request) && !MEMBER_ACCESS.has(accessOf(request));
    if (isOfProject && turns.take(caller.projectId)) notes.add(entryOf(request, reply, caller));
    done();
  };
  app.decorateRequest('failure', null);
  app.addHook('onResponse', (request, reply, done) => {
    if (reply.statusCode >= 400) note.call(app, request, reply, done);
    else done();
  });
  app.addHook('onRoute', (route) => {
    if (!isLoggedChange(route)) return;
    const onSuccess: onResponseHookHandler = (request, reply, done) => {
      if (reply.statusCode < 400) note.call(app, request, reply, done);
      else done();
    };
    route.onResponse = [...[route.onResponse ?? []].flat(), onSuccess];
  });
  app.addHook('onClose', () => notes.flush());
}

function accessOf({ routeOptions }: FastifyRequest): Access {
  return routeOptions.config.access ?? 'full_access';
}

function isLoggedChange({ method, config }: RouteOptions): boolean {
  const isRead = [method].flat().every((one) => one === 'GET' || one === 'HEAD');
  return !isRead && config?.limit !== 'sending';
}

export class EntriesPerMinute {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #taken = new Map<string, number>();
  #startedMs = 0;

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  take(projectId: string): boolean {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#startedMs >= MINUTE_MS) {
      this.#taken.clear();
      this.#startedMs = nowMs;
    }
    const taken = this.#taken.get(projectId) ?? 0;
    this.#taken.set(projectId, taken + 1);
    return taken < ENTRIES_PER_MINUTE;
  }
}

function entryOf(request: FastifyRequest, reply: FastifyReply, caller: Caller): NewApiRequest {
  const { id, method, failure, body, headers, session } = request;
  const { projectId, environment } = caller;
  const { statusCode: status } = reply;
  return {
    projectId,
    environment,
    id,
    keyId: session === null ? caller.keyId : null,
    memberId: session?.memberId ?? null,
    method,
    // The query is left out, because it contains search texts and tokens of links.
    path: storableText(request.url.split('?', 1)[0], PATH_MAX) ?? '',
    status,
    durationMs: Math.round(reply.elapsedTime),
    network: networkOf(request.ip),
    userAgent: storableText(headers['user-agent'], USER_AGENT_MAX),
    errorCode: failure?.code ?? null,
    errorMessage: storableText(failure?.message, MESSAGE_MAX),
    body: failure === null || body === undefined || body === null ? null : outlineOf(body),
  };
}

/** PostgreSQL stores no NUL, and no half of a surrogate pair. */
function storableText(text: string | undefined, max: number): string | null {
  return text?.slice(0, max).replaceAll('\0', '').toWellFormed() ?? null;
}
