/** The projects of the caller's organization. Made and changed on the command line. */
import { listProjects, type Project } from '../../store/projects.ts';
import { callerOf } from '../authenticate.ts';
import { failures } from '../schemas/common.ts';
import { projectList } from '../schemas/projects.ts';
import type { App, HttpServices } from '../services.ts';

export function registerProjectRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/projects', {
    schema: {
      summary: 'List the projects of the organization',
      operationId: 'listProjects',
      tags: ['Projects'],
      response: { 200: projectList, ...failures() },
    },
    handler: async (request) => {
      const projects = await listProjects(db, callerOf(request).organizationId);
      return { object: 'list' as const, data: projects.map(toWire), has_more: false };
    },
  });
}

function toWire(project: Project) {
  return {
    object: 'project' as const,
    id: project.id,
    name: project.name,
    created_at: project.createdAt.toISOString(),
  };
}
