/**
 * Routes of views, which are named searches in the list of emails. For sessions only. Each member sees only their own,
 * so the audit log does not record them.
 */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Refusal, noSuch } from '../../core/refusals.ts';
import { SEARCH_MAX } from '../../emails/search.ts';
import { isId } from '../../database/ids.ts';
import {
  deleteView,
  listViews,
  type MemberView,
  saveView,
  type ViewOwner,
  VIEWS_MAX,
} from './view-store.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { listResponse } from '../../http/list-pages.ts';
import {
  deleted,
  doc,
  failures,
  idParams,
  idSchema,
  label,
  listOf,
  time,
} from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION, sessionOf } from '../sessions/http-sessions.ts';

const TAGS = ['Members'];
const NAME_MAX = 80;

const TOO_MANY: Refusal = {
  refused: 'conflict',
  message: `You have ${VIEWS_MAX} views of this project; delete one first.`,
};

const name = doc(
  label(NAME_MAX),
  'Name of the view. A view with the same name is replaced.',
  'Bounced today',
);
const q = doc(
  z
    .string()
    .max(SEARCH_MAX)
    .refine((text) => !text.includes('\0'), 'contains a NUL; leave it out'),
  'Search text in the syntax of `q` in `GET /v1/emails`.',
  'status:bounced domain:acme.com',
);

const newView = z.strictObject({ name, q }).meta({ id: 'ViewCreation' });
const view = z
  .object({
    object: z.literal('view'),
    id: idSchema('The view.'),
    name: z.string().meta({ examples: ['Bounced today'] }),
    q: z.string().meta({ examples: ['status:bounced domain:acme.com'] }),
    created_at: time('Time of creation.'),
  })
  .meta({ id: 'View', description: 'A saved search in the list of emails.' });

const viewList = listOf('ViewList', view);
const viewDeleted = deleted('DeletedView', 'view');

export function registerViewRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/views', {
    config: { access: 'session' },
    schema: {
      summary: 'List your views',
      description: 'Lists your views of this project by name, at most 50.',
      operationId: 'listViews',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: viewList, ...failures(404) },
    },
    handler: async (request, reply) => {
      const owner = viewOwnerOf(request);
      if (owner === null) return refuse(reply, noSuch('project'));
      return listResponse((await listViews(db, owner)).map(viewToWire), VIEWS_MAX);
    },
  });

  app.post('/v1/views', {
    config: { access: 'session' },
    schema: {
      summary: 'Save a view',
      description: 'Saves a search in the list of emails under a name.',
      operationId: 'saveView',
      tags: TAGS,
      security: BY_SESSION,
      body: newView,
      response: { 200: view, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const owner = viewOwnerOf(request);
      if (owner === null) return refuse(reply, noSuch('project'));
      const saved = await saveView(db, owner, request.body);
      return saved === null ? refuse(reply, TOO_MANY) : viewToWire(saved);
    },
  });

  app.delete('/v1/views/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Delete a view',
      description: 'Deletes one of your views.',
      operationId: 'deleteView',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('view'),
      response: { 200: viewDeleted, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const owner = viewOwnerOf(request);
      const isDeleted = owner !== null && isId(id) && (await deleteView(db, owner, id));
      if (!isDeleted) return refuse(reply, noSuch('view'));
      return { object: 'view' as const, id, deleted: true as const };
    },
  });
}

function viewOwnerOf(request: FastifyRequest): ViewOwner | null {
  if (request.caller === null) return null;
  return { memberId: sessionOf(request).memberId, projectId: callerOf(request).projectId };
}

function viewToWire({ id, name: title, q: search, createdAt }: MemberView) {
  const created_at = createdAt.toISOString();
  return { object: 'view' as const, id, name: title, q: search, created_at };
}
