/**
 * Routes of reputation: end the pauses that alerts caused. The settings of a project contain its rule and its alerts.
 */
import { changeQueue } from '../delivery/queue-control/change.ts';
import { WHOLE_QUEUE } from '../delivery/queue-control/change-store.ts';
import { findProject } from '../accounts/projects/project-store.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';
import { isId } from '../database/ids.ts';
import { notFound } from '../http/errors.ts';
import { requireOperator } from '../http/operators.ts';
import { failures, idParams } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { resumeSenders } from './reputation-store.ts';
import { resumed, resumeRequest } from './schemas.ts';

export function registerResumeRoute(app: App, { db, world }: HttpServices): void {
  app.post('/v1/operator/projects/:id/resume', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'End the pauses of a project',
      description:
        'Ends pauses caused by reputation, and releases mail on hold. One request may release only part of a ' +
        'long queue. `next` is then the position to continue from. For owners.',
      operationId: 'resumeProject',
      tags: ['Operator'],
      security: BY_SESSION,
      params: idParams('project'),
      body: resumeRequest,
      response: { 200: resumed, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const project = isId(id) ? await findProject(db, id) : null;
      if (project === null) return notFound(reply, 'project');
      // The pause ends before mail is released, so no new mail is put on hold in between.
      const domains = await resumeSenders(db, project.id);
      const selector = { ...WHOLE_QUEUE, projectId: project.id };
      const { from } = request.body;
      const released = await changeQueue({ db, world }, 'release', { selector, from });
      const { changed, next } = released;
      return { object: 'project_resumed' as const, domains, released: changed, next };
    },
  });
}
