/**
 * Records changes in the audit log. For members and the operator that is every change. For keys it is changes of
 * access, domains, webhooks, suppressions and queued mail.
 *
 * Guarantee: the entry is stored before the answer is sent, so a change that the client saw confirmed is in the log.
 * The entry is not in the transaction of the change: a crash between the two loses it.
 */
import type { FastifyReply, FastifyRequest, onSendHookHandler, RouteOptions } from 'fastify';
import { networkOf } from '../../net/addresses.ts';
import { addAuditEvent, type AuditEvent } from './audit-store.ts';
import { findResponsibleOrganization } from '../members/member-store.ts';
import { isLocalOperator, isFromLocalOperator } from '../../http/local-operator.ts';
import { LEAST_ROLES } from '../../http/roles.ts';
import type { App, HttpServices } from '../../http/services.ts';

/** Operations that begin a session; the member of that session is the actor. */
const BEGINNINGS = ['signIn', 'createOwner', 'resetPassword', 'acceptInvitation'];

/** Operations that change nothing, or only what one member sees. */
const CHANGES_NOTHING = new Set(['saveView', 'deleteView', 'previewTemplate', 'translateTemplate']);

const BY_KEYS: ReadonlySet<string> = new Set([
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
  'holdQueue',
  'releaseQueue',
  'retryQueue',
  'dropQueue',
  'undoQueueDrop',
]);

/** Operations on the root mount (compat/resend), with the `operationId` they are recorded as. */
const ON_ROOT: ReadonlyMap<string, string> = new Map([
  ['POST /api-keys', 'createApiKey'],
  ['PATCH /api-keys/:id', 'updateApiKey'],
  ['DELETE /api-keys/:id', 'revokeApiKey'],
  ['POST /domains', 'createDomain'],
  ['PATCH /domains/:id', 'updateDomain'],
  ['DELETE /domains/:id', 'deleteDomain'],
  ['POST /webhooks', 'createWebhook'],
  ['PATCH /webhooks/:id', 'updateWebhook'],
  ['DELETE /webhooks/:id', 'deleteWebhook'],
  ['POST /webhooks/:id/signing-secret/rotate', 'rotateWebhookSecret'],
  ['DELETE /suppressions/:id', 'deleteSuppression'],
  ['POST /suppressions/batch/remove', 'deleteSuppression'],
]);

/** Limit on the answer that is parsed for an id, in characters. Exports and previews exceed it; they have none. */
const PAYLOAD_MAX = 64 * 1024;

/** Registers the recording. Call it before the routes are registered and after the access checks. */
export function auditChanges(app: App, services: Pick<HttpServices, 'db' | 'log'>): void {
  app.addHook('onRoute', (route) => {
    const action = actionOf(route);
    if (action === null) return;
    route.onSend = [...[route.onSend ?? []].flat(), recorded(action, services)];
  });
}

function actionOf({ method, url, schema }: RouteOptions): string | null {
  if (method === 'GET' || method === 'HEAD') return null;
  const onRoot = ON_ROOT.get(`${String(method)} ${url}`);
  if (onRoot !== undefined) return onRoot;
  const action = schema?.operationId ?? '';
  const isKnown = LEAST_ROLES.has(action) || BEGINNINGS.includes(action);
  return isKnown && !CHANGES_NOTHING.has(action) ? action : null;
}

function recorded(
  action: string,
  { db, log }: Pick<HttpServices, 'db' | 'log'>,
): onSendHookHandler {
  return (request, reply, payload, done) => {
    const { statusCode } = reply;
    // `sendEmail` answers a dry run and an idempotent replay with 200; both change nothing.
    const isChange = action === 'sendEmail' ? statusCode === 202 : statusCode < 300;
    const who = isChange ? actorOf(request, action) : null;
    if (who === null) return done(null, payload);
    const { organizationId, ...actor } = who;
    const { ip, id: requestId } = request;
    const where = { network: isFromLocalOperator(request) ? null : networkOf(ip), requestId };
    const event = { action, ...actor, ...where, target: targetOf(action, reply, payload) };
    findResponsibleOrganization(db, organizationId)
      .then((informed) => addAuditEvent(db, informed, event))
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
  if (caller === null || !BY_KEYS.has(action)) return null;
  const { organizationId, projectId, environment, keyId: actorId } = caller;
  const actorName = null; // the statement looks it up
  return { organizationId, actorType: 'api_key', actorId, actorName, projectId, environment };
}

type Answer = { id?: unknown; selection?: unknown; name?: unknown };

/** Targets that have no id: a host of return paths, and a day, of all projects or of one. */
const TARGETS = new Map<string, (request: FastifyRequest, answer: Answer) => unknown>([
  ['setReturnPathHost', (_, { name }) => name],
  ['acknowledgeReconciliation', dayOf],
  ['checkReconciliation', dayOf],
]);

function dayOf({ body }: FastifyRequest): string | null {
  const { day, project_id: projectId } = body as { day?: string; project_id?: string };
  if (day === undefined) return projectId ?? null;
  return projectId === undefined ? day : `${day} ${projectId}`;
}

/** Returns the id in the path, else the target in TARGETS, else the selection or the id in the answer. */
function targetOf(action: string, reply: FastifyReply, payload: unknown): string | null {
  const { request } = reply;
  type Params = { id?: string; address?: string; provider?: string };
  const { id, address, provider } = request.params as Params;
  const inPath = id ?? address ?? provider;
  if (inPath !== undefined) return inPath;
  const isJson = String(reply.getHeader('content-type')).startsWith('application/json');
  if (!isJson || typeof payload !== 'string' || payload.length > PAYLOAD_MAX) return null;
  const made = JSON.parse(payload) as Answer;
  const named = TARGETS.get(action);
  const target = named === undefined ? (made.selection ?? made.id) : named(request, made);
  return typeof target === 'string' ? target : null;
}
