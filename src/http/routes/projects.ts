/** The projects of the caller's organization; they are created and changed on the command line. */
import { z } from 'zod';
import { describeAlert } from '../../core/reputation-alert.ts';
import { callerOf } from '../access.ts';
import {
  environment as environmentSchema,
  failures,
  idSchema,
  listOf,
  time,
} from '../schemas/common.ts';
import type { App, HttpServices } from '../services.ts';
import { listProjects, type Project } from '../../store/projects.ts';
import { listAlerts, type Alert } from '../../store/reputation.ts';

const WARNINGS_MAX = 100;

export function registerProjectRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/projects', {
    config: { withinDomain: true },
    schema: {
      summary: 'List the projects of the organization',
      description: 'A key for one domain sees its own project and the warnings about that domain.',
      operationId: 'listProjects',
      tags: ['Projects'],
      response: { 200: projectList, ...failures() },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const [projects, alerts] = await Promise.all([
        listProjects(db, caller.organizationId),
        listAlerts(db, { projectId: caller.projectId, limit: WARNINGS_MAX }),
      ]);
      const isAbout = (domain: string) => caller.domain === null || domain === caller.domain;
      const own = alerts.filter(
        ({ environment, domain }) => environment === caller.environment && isAbout(domain),
      );
      const data = projects
        .filter(({ id }) => caller.domain === null || id === caller.projectId)
        .map((project) => toWire(project, own));
      return { object: 'list' as const, data, has_more: false };
    },
  });
}

function toWire(project: Project, alerts: readonly Alert[]) {
  return {
    object: 'project' as const,
    id: project.id,
    name: project.name,
    created_at: project.createdAt.toISOString(),
    warnings: alerts.filter(({ projectId }) => projectId === project.id).map(warning),
  };
}

function warning(alert: Alert) {
  const { environment, domain } = alert;
  return { about: 'reputation' as const, environment, domain, message: describeAlert(alert) };
}

const project = z
  .object({
    object: z.literal('project'),
    id: idSchema('The project.'),
    name: z.string().meta({ examples: ['Default'] }),
    created_at: time('When it was made.'),
    warnings: z
      .array(
        z.object({
          about: z.literal('reputation'),
          environment: environmentSchema,
          domain: z.string().meta({ description: 'The sending domain.', examples: ['acme.com'] }),
          message: z
            .string()
            .meta({ examples: ['8.2 % of the last 1,000 recipients bounced; clean the list.'] }),
        }),
      )
      .describe('For the project and environment of the key.'),
  })
  .meta({ id: 'Project' });

const projectList = listOf(project);
