/**
 * Records changes in the audit log: each change by a member or the operator. For API keys, it records changes to keys,
 * domains, webhooks and queued mail, removed suppressions, and emails that were canceled together.
 *
 * Guarantee: the entry is stored before the response is sent, so a change that the client saw confirmed is in the log.
 * The entry is not in the transaction of the change: a crash between the two loses it.
 */
import type {
  FastifyReply,
  FastifyRequest,
  onSendHookHandler,
  preHandlerHookHandler,
  RouteOptions,
} from 'fastify';
import { networkOf } from '../../net/ip-addresses.ts';
import { addAuditEvent, type AuditEvent, findTargetName } from './audit-store.ts';
import { isId } from '../../database/ids.ts';
import { findResponsibleOrganization } from '../members/member-store.ts';
import { isLocalOperator, isFromLocalOperator } from '../../http/socket/local-operator.ts';
import { LEAST_ROLES } from '../../http/roles.ts';
import type { App, HttpServices } from '../../http/services.ts';

/** Operations that begin a session; the member of that session is the actor. */
const SESSION_STARTS = [
  'signIn',
  'signInWithOidc',
  'signInWithPasskey',
  'createOwner',
  'resetPassword',
  'acceptInvitation',
];

/** Operations that change nothing, or only what one member sees. */
const CHANGES_NOTHING = new Set([
  'saveView',
  'deleteView',
  'previewTemplate',
  'translateTemplate',
  'startPasskey',
]);

/** Operations that are recorded when a key runs them. */
const RECORDED_FOR_KEYS: ReadonlySet<string> = new Set([
  'createApiKey',
  'updateApiKey',
  'rotateApiKey',
  'revokeApiKey',
  'createDomain',
  'updateDomain',
  'deleteDomain',
  'rotateDomainDkim',
  'cancelDomainDkimRotation',
  'createWebhook',
  'updateWebhook',
  'deleteWebhook',
  'rotateWebhookSecret',
  'deleteSuppression',
  'cancelEmails',
  'holdQueue',
  'releaseQueue',
  'retryQueue',
  'dropQueue',
  'undoQueueDrop',
]);

/** Limit on the response that is parsed for an id, in characters. Exports and previews exceed it; they have none. */
const PAYLOAD_CHARACTERS_MAX = 64 * 1024;

/** Records changes by the routes that are registered after this call. The access checks are registered before. */
export function auditChanges(app: App, services: Pick<HttpServices, 'db' | 'log'>): void {
  app.decorateRequest('deletedName', null);
  app.addHook('onRoute', (route) => {
    const action = actionOf(route);
    if (action === null) return;
    if (route.method === 'DELETE') {
      route.preHandler = [...[route.preHandler ?? []].flat(), rememberName(action, services)];
    }
    route.onSend = [...[route.onSend ?? []].flat(), recordAfter(action, services)];
  });
}

function actionOf({ method, schema, config }: RouteOptions): string | null {
  if (method === 'GET' || method === 'HEAD') return null;
  if (config?.auditedAs !== undefined) return config.auditedAs;
  const action = schema?.operationId ?? '';
  const isKnown = LEAST_ROLES.has(action) || SESSION_STARTS.includes(action);
  return isKnown && !CHANGES_NOTHING.has(action) ? action : null;
}

/** Reads the name of what the request deletes, while it is there. Without the name the entry has only the id. */
function rememberName(
  action: string,
  { db, log }: Pick<HttpServices, 'db' | 'log'>,
): preHandlerHookHandler {
  return (request, _, done) => {
    const { id } = request.params as { id?: string };
    const actor = actorOf(request, action);
    if (actor === null || id === undefined || !isId(id)) return done();
    const { organizationId, projectId } = actor;
    findTargetName(db, organizationId, { projectId, id })
      .then((name) => {
        request.deletedName = name;
      })
      .catch((error: unknown) => {
        const { code } = error as { code?: string };
        log.warn({ request_id: request.id, action, code }, 'the name of an object was not read');
      })
      .then(() => done(), done);
  };
}

function recordAfter(
  action: string,
  { db, log }: Pick<HttpServices, 'db' | 'log'>,
): onSendHookHandler {
  return (request, reply, payload, done) => {
    const { statusCode } = reply;
    // `sendEmail` responds to a dry run and an idempotent repetition with 200; both change nothing.
    const isChange = action === 'sendEmail' ? statusCode === 202 : statusCode < 300;
    const actor = isChange ? actorOf(request, action) : null;
    if (actor === null) return done(null, payload);
    const { organizationId, ...actorFields } = actor;
    const { ip, id: requestId } = request;
    const network = isFromLocalOperator(request) ? null : networkOf(ip);
    const target = targetOf(action, reply, payload);
    const { deletedName: targetName } = request;
    const event = { action, ...actorFields, network, requestId, target, targetName };
    findResponsibleOrganization(db, organizationId)
      .then((responsible) => addAuditEvent(db, responsible, event))
      .catch((error: unknown) => {
        const { code } = error as { code?: string };
        log.error(
          { request_id: requestId, action, code },
          'a change could not be recorded in the audit log',
        );
      })
      .then(() => done(null, payload), done);
  };
}

type Actor = Pick<
  AuditEvent,
  'actorType' | 'actorId' | 'actorName' | 'projectId' | 'environment'
> & { organizationId: string };

function actorOf(request: FastifyRequest, action: string): Actor | null {
  const { session, caller, routeOptions } = request;
  if (session !== null) {
    const isOfProject = !['session', 'sign_in'].includes(routeOptions.config.access ?? '');
    const { projectId = null, environment = null } = (isOfProject && caller) || {};
    const { organizationId, memberId, email } = session;
    const actor: Pick<Actor, 'actorType' | 'actorId' | 'actorName'> = isLocalOperator(session)
      ? { actorType: 'command', actorId: null, actorName: null }
      : { actorType: 'member', actorId: memberId, actorName: email };
    return { organizationId, ...actor, projectId, environment };
  }
  if (caller === null || !RECORDED_FOR_KEYS.has(action)) return null;
  const { organizationId, projectId, environment, keyId: actorId } = caller;
  const actorName = null; // the statement looks it up
  return { organizationId, actorType: 'api_key', actorId, actorName, projectId, environment };
}

type ResponseBody = { id?: unknown; selection?: unknown; name?: unknown; address?: unknown };

/** Targets that have no id: an address, a host of return paths, and a day, of all projects or of one. */
const TARGETS = new Map<string, (request: FastifyRequest, body: ResponseBody) => unknown>([
  ['createSuppression', (_, { address }) => address],
  ['setReturnPathHost', (_, { name }) => name],
  ['acknowledgeReconciliation', dayOf],
  ['checkReconciliation', dayOf],
]);

function dayOf({ body }: FastifyRequest): string | null {
  const { day, project_id: projectId } = body as { day?: string; project_id?: string };
  if (day === undefined) return projectId ?? null;
  return projectId === undefined ? day : `${day} ${projectId}`;
}

/** Returns the id in the path, else the target in TARGETS, else the selection or the id in the response. */
function targetOf(action: string, reply: FastifyReply, payload: unknown): string | null {
  const { request } = reply;
  type Params = { id?: string; address?: string; provider?: string };
  const { id, address, provider } = request.params as Params;
  const pathTarget = id ?? address ?? provider;
  if (pathTarget !== undefined) return pathTarget;
  const isJson = String(reply.getHeader('content-type')).startsWith('application/json');
  if (!isJson || typeof payload !== 'string' || payload.length > PAYLOAD_CHARACTERS_MAX)
    return null;
  const body = JSON.parse(payload) as ResponseBody;
  const readTarget = TARGETS.get(action);
  const target = readTarget === undefined ? (body.selection ?? body.id) : readTarget(request, body);
  return typeof target === 'string' ? target : null;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Name of the object that the request deletes. */
    deletedName: string | null;
  }
}
