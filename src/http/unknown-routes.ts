/** What to answer when no route takes this method and path: 405 with what the path takes, else 404. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sendProblem } from './errors.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;

/** Before the body is read: nobody sends 40 MB to a typo in the path. */
export function answerUnknownRoute(
  app: Pick<FastifyInstance, 'findRoute'>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { method, url } = request;
  const allowed = METHODS.filter((candidate) => app.findRoute({ method: candidate, url }) !== null);
  if (allowed.length === 0) {
    return sendProblem(reply, {
      status: 404,
      code: 'not_found',
      message: 'There is nothing at this path; /openapi.json lists what there is.',
    });
  }
  return sendProblem(reply.header('allow', allowed.join(', ')), {
    status: 405,
    code: 'method_not_allowed',
    message: `This path does not take ${method}; it takes ${allowed.join(', ')}.`,
  });
}
