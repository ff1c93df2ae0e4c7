/** Routes of the audit log of an organization: its entries, by page. */
import { z } from 'zod';
import { ACTOR_TYPES, listAuditEvents, type StoredAuditEvent } from './audit-store.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import {
  doc,
  environment,
  failures,
  idSchema,
  listOf,
  pageQuery,
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
      querystring: pageQuery,
      response: { 200: auditList, ...failures(400, 404, 422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      const { organizationId } = sessionOf(request);
      return pageResponse(await listAuditEvents(db, organizationId, page), auditEventToWire);
    },
  });
}

function auditEventToWire(event: StoredAuditEvent) {
  return {
    object: 'audit_event' as const,
    id: event.id,
    action: event.action,
    actor: { type: event.actorType, id: event.actorId, name: event.actorName },
    project_id: event.projectId,
    environment: event.environment,
    target_id: event.target,
    network: event.network,
    request_id: event.requestId,
    created_at: event.createdAt.toISOString(),
  };
}

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
    actor: z.object({
      type: z.enum(ACTOR_TYPES).describe('Type of the actor.'),
      id: idSchema('Id of the member or key, or null for a command.').nullable(),
      name: doc(
        z.string().nullable(),
        'Address of the member or name of the key at that time.',
        'jo@acme.com',
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
