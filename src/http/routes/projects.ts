/** The projects of the caller's organization. Made and changed on the command line. */
import { listProjects, type Project } from '../../store/projects.ts';
import { describeTrip } from '../../core/guard.ts';
import { listTrips, type Trip } from '../../store/reputation.ts';
import { callerOf } from '../authenticate.ts';
import { failures } from '../schemas/common.ts';
import { projectList } from '../schemas/projects.ts';
import type { App, HttpServices } from '../services.ts';

const WARNINGS_MAX = 100;

export function registerProjectRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/projects', {
    schema: {
      summary: 'List the projects of the organization',
      operationId: 'listProjects',
      tags: ['Projects'],
      response: { 200: projectList, ...failures() },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const [projects, trips] = await Promise.all([
        listProjects(db, caller.organizationId),
        listTrips(db, { projectId: caller.projectId, limit: WARNINGS_MAX }),
      ]);
      const own = trips.filter(({ environment }) => environment === caller.environment);
      const data = projects.map((project) => toWire(project, own));
      return { object: 'list' as const, data, has_more: false };
    },
  });
}

function toWire(project: Project, trips: readonly Trip[]) {
  return {
    object: 'project' as const,
    id: project.id,
    name: project.name,
    created_at: project.createdAt.toISOString(),
    warnings: trips.filter(({ projectId }) => projectId === project.id).map(warning),
  };
}

function warning(trip: Trip) {
  const { environment, domain } = trip;
  return { about: 'reputation' as const, environment, domain, message: describeTrip(trip) };
}
