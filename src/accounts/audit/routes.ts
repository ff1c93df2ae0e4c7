/** Routes of the audit log of an organization: its entries, by page. */
import { z } from 'zod';
import { AUDIT_OBJECTS, objectOfAction } from '../../core/audit/audit-objects.ts';
import {
  ACTOR_TYPES,
  type AuditFilter,
  listAuditEvents,
  type StoredAuditEvent,
} from './audit-store.ts';
import { LEAST_ROLES } from '../../http/roles.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import {
  doc,
  environment,
  failures,
  idSchema,
  listOf,
  listQuery,
  time,
} from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION, sessionOf } from '../sessions/http-sessions.ts';

export function registerAuditRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/audit_log', {
    config: { access: 'session' },
    schema: {
      summary: 'Read the audit log',
      description:
        'Lists changes by members and by commands on the machine, newest first. For API keys, it lists ' +
        'changes to keys, domains, webhooks and queued mail, and removed suppressions. For admins.',
      operationId: 'listAuditEvents',
      tags: ['Audit log'],
      security: BY_SESSION,
      querystring: auditQuery,
      response: { 200: auditList, ...failures(400, 404, 422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      const { organizationId } = sessionOf(request);
      const filter = filterFrom(request.query);
      const found = await listAuditEvents(db, organizationId, { page, filter });
      return pageResponse(found, auditEventToWire);
    },
  });
}

/** Actions that are no operations of members: those that begin a session, of commands, of the identity provider. */
const OTHER_ACTIONS = [
  'signIn',
  'signInWithOidc',
  'signInWithPasskey',
  'createOwner',
  'resetPassword',
  'acceptInvitation',
  'makeOwnerLink',
  'makePasswordLink',
  'removePasskeys',
  'unlinkOidc',
  'linkOidc',
  'joinByOidc',
];
const ACTIONS = [...LEAST_ROLES.keys(), ...OTHER_ACTIONS];

function filterFrom(query: z.output<typeof auditQuery>): AuditFilter {
  const { action, object, actor_id: actorId, project_id: projectId, target_id: target } = query;
  const ofObject = ACTIONS.filter((name) => objectOfAction(name) === object);
  return {
    actions: action !== undefined ? [action] : object !== undefined ? ofObject : null,
    actorId: actorId ?? null,
    projectId: projectId ?? null,
    target: target ?? null,
    from: query.from === undefined ? null : new Date(query.from),
    to: query.to === undefined ? null : new Date(query.to),
  };
}

function auditEventToWire(event: StoredAuditEvent) {
  return {
    object: 'audit_event' as const,
    id: event.id,
    action: event.action,
    object_type: objectOfAction(event.action),
    actor: {
      type: event.actorType,
      id: event.actorId,
      name: event.actorName,
      member_name: event.memberName,
    },
    project_id: event.projectId,
    environment: event.environment,
    target_id: event.target,
    target_name: event.targetName,
    network: event.network,
    request_id: event.requestId,
    created_at: event.createdAt.toISOString(),
  };
}

const TARGET = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';
const timeOf = (description: string) =>
  doc(z.iso.datetime({ offset: true }).optional(), description, '2026-11-21T08:30:00.123Z');

const auditQuery = listQuery({
  action: doc(z.string().max(100).optional(), 'Returns only this action.', 'deleteDomain'),
  object: doc(
    z.enum(AUDIT_OBJECTS).optional(),
    'Returns only changes of objects of this type.',
    'domain',
  ),
  actor_id: doc(z.uuid().optional(), 'Returns only changes by this member or key.', TARGET),
  project_id: doc(z.uuid().optional(), 'Returns only changes in this project.', TARGET),
  target_id: doc(z.string().max(400).optional(), 'Returns only changes of this object.', TARGET),
  from: timeOf('Returns only changes at this time or later.'),
  to: timeOf('Returns only changes before this time.'),
});

const auditEvent = z
  .object({
    object: z.literal('audit_event'),
    id: idSchema('The entry.'),
    action: z.string().meta({
      description:
        'Operation id of the change. The command `letterhaus owner` has `makeOwnerLink` and ' +
        '`makePasswordLink`.',
      examples: ['deleteDomain'],
    }),
    object_type: z.enum(AUDIT_OBJECTS).describe('What was changed.'),
    actor: z.object({
      type: z.enum(ACTOR_TYPES).describe('Type of the actor.'),
      id: idSchema('Id of the member or key, or null for a command.').nullable(),
      name: doc(
        z.string().nullable(),
        'Address of the member or name of the key at that time.',
        'jo@acme.com',
      ),
      member_name: doc(
        z.string().nullable(),
        'Current name of the member, or null for others and after removal.',
        'Jo Meier',
      ),
    }),
    project_id: idSchema('The project, or null for a change of the organization.').nullable(),
    environment: environment.nullable(),
    target_id: doc(
      z.string().nullable(),
      'Id of the changed object. A suppression has its address, the return path host its name, and a ' +
        'reconciliation its day.',
      '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
    ),
    target_name: doc(
      z.string().nullable(),
      'Name of the object at that time: a domain, a key, the URL of a webhook, the address of a member. ' +
        'Null for objects without a name.',
      'acme.com',
    ),
    network: doc(
      z.string().nullable(),
      'Network of the request, or null for a command.',
      '203.0.113.0',
    ),
    request_id: idSchema(
      '`X-Request-Id` of the request, or null for a command that does not use the API.',
    ).nullable(),
    created_at: time('Time of the change.'),
  })
  .meta({ id: 'AuditEvent' });

const auditList = listOf('AuditEventList', auditEvent);
