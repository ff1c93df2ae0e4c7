/** Routes of the projects of the caller's organization: members create and rename them, keys only list them. */
import { z } from 'zod';
import { describeAlert } from '../../reputation/alert.ts';
import { hasRoleIn } from '../../core/member-roles.ts';
import { isId } from '../../database/ids.ts';
import { callerOf } from '../../http/access.ts';
import { isLocalOperator, isFromLocalOperator } from '../../http/socket/local-operator.ts';
import { entityTagOf } from '../../core/entity-tag.ts';
import { CHANGED_SINCE, isRefusal, type Refusal } from '../../core/refusals.ts';
import { notFound, refuse } from '../../http/errors.ts';
import {
  doc,
  entityTag,
  environment as environmentSchema,
  expectedBy,
  failures,
  idParams,
  idSchema,
  label,
  listOf,
  preconditionHeaders,
  shown,
  tagged,
  time,
} from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION, sessionOf } from '../sessions/http-sessions.ts';
import { checkProjectsMax } from '../limits/maximum-store.ts';
import {
  createProject,
  findProject,
  isNameTaken,
  listAllProjects,
  listProjects,
  type Project,
  renameProject,
} from './project-store.ts';
import { listAlerts, type Alert } from '../../reputation/reputation-store.ts';

const TAGS = ['Projects'];
const WARNINGS_MAX = 100;

export function registerProjectRoutes(app: App, services: HttpServices): void {
  registerList(app, services);
  registerCreateAndRename(app, services);
}

function registerCreateAndRename(app: App, { db }: HttpServices): void {
  app.post('/v1/projects', {
    config: { access: 'session' },
    schema: {
      summary: 'Create a project',
      description:
        'Creates a project in the organization of the member. For admins, not for API keys.',
      operationId: 'createProject',
      tags: TAGS,
      security: BY_SESSION,
      body: projectWrite,
      response: { 201: project, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const session = sessionOf(request);
      const { organizationId } = session;
      if (!isLocalOperator(session)) await checkProjectsMax(db, organizationId);
      const { name } = request.body;
      const created = await db.transaction(async (tx) => {
        if (await isNameTaken(tx, { organizationId, name, id: null })) return null;
        return createProject(tx, organizationId, name);
      });
      if (created === null) return refuse(reply, nameTaken(name));
      return reply.code(201).send(projectToWire(created, []));
    },
  });

  app.patch('/v1/projects/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Rename a project',
      description: 'Changes the name of a project. For admins.',
      operationId: 'updateProject',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('project'),
      headers: preconditionHeaders,
      body: projectWrite,
      response: { 200: project, ...failures(400, 404, 409, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { organizationId } = sessionOf(request);
      const { name } = request.body;
      if (!isId(id)) return notFound(reply, 'project');
      const changed = await db.transaction(async (tx) => {
        const isTaken = await isNameTaken(tx, { organizationId, name, id });
        // All renames in the organization wait for the lock of that look-up.
        const current = await findProject(tx, id);
        if (current?.organizationId !== organizationId) return null;
        if (!expectedBy(request)(tagOfProject(current))) return CHANGED_SINCE;
        return isTaken ? nameTaken(name) : renameProject(tx, { id, organizationId, name });
      });
      if (changed === null) return notFound(reply, 'project');
      return isRefusal(changed)
        ? refuse(reply, changed)
        : tagged(reply, projectToWire(changed, []));
    },
  });
}

/** Names choose a project on the command line. */
function nameTaken(name: string): Refusal {
  const message = `There is a project with the name ${JSON.stringify(name)} already; choose another name.`;
  return { refused: 'conflict', message };
}

function registerList(app: App, { db }: HttpServices): void {
  app.get('/v1/projects', {
    config: { withinDomain: true },
    schema: {
      summary: 'List the projects of the organization',
      description:
        'Lists the projects of the organization. A key for one domain sees its own project, with the ' +
        'warnings about that domain. A member with roles in some projects sees these.',
      operationId: 'listProjects',
      tags: TAGS,
      response: { 200: projectList, ...failures() },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const [projects, alerts] = await Promise.all([
        isFromLocalOperator(request)
          ? listAllProjects(db)
          : listProjects(db, caller.organizationId),
        listAlerts(db, { projectId: caller.projectId, limit: WARNINGS_MAX }),
      ]);
      const isAbout = (domain: string) => caller.domain === null || domain === caller.domain;
      const ownAlerts = alerts.filter(
        ({ environment, domain }) => environment === caller.environment && isAbout(domain),
      );
      const data = projects
        .filter(({ id }) => caller.domain === null || id === caller.projectId)
        .filter(({ id }) => hasRoleIn(id, request.session?.projectRoles ?? null))
        .map((project) => projectToWire(project, ownAlerts));
      return { object: 'list' as const, data, has_more: false };
    },
  });
}

function projectToWire(project: Project, alerts: readonly Alert[]) {
  return {
    object: 'project' as const,
    id: project.id,
    name: project.name,
    created_at: project.createdAt.toISOString(),
    warnings: alerts.filter(({ projectId }) => projectId === project.id).map(warningToWire),
    etag: tagOfProject(project),
  };
}

function tagOfProject({ id, name }: Project): string {
  return entityTagOf({ id, name });
}

function warningToWire(alert: Alert) {
  const { environment, domain } = alert;
  return { about: 'reputation' as const, environment, domain, message: describeAlert(alert) };
}

const project = z
  .object({
    object: z.literal('project'),
    id: idSchema('The project.'),
    name: z.string().meta({ examples: ['Default'] }),
    created_at: time('Time of creation.'),
    warnings: doc(
      z.array(
        z.object({
          about: z.literal('reputation'),
          environment: environmentSchema,
          domain: z.string().meta({ description: 'The sending domain.', examples: ['acme.com'] }),
          message: shown(z.string(), '8.2 % of the last 1,000 recipients bounced; clean the list.'),
        }),
      ),
      'Warnings for the project and environment of the key.',
    ),
    etag: entityTag,
  })
  .meta({ id: 'Project' });

const projectList = listOf('ProjectList', project);

const projectWrite = z
  .strictObject({
    name: label(100).meta({ description: 'Display name of the project.', examples: ['Shop'] }),
  })
  .meta({ id: 'ProjectWrite' });
