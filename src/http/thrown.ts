/**
 * What is thrown on the way to an answer: Fastify's own complaints, a database that is away, bugs.
 * Each becomes one of our answers; nobody ever sees a stack or an HTML page.
 */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { Overloaded } from '../core/overloaded.ts';
import { AcceptedUnknown } from '../store/accept.ts';
import { DatabaseUnavailable } from '../store/postgres/database.ts';
import { BadRequest, type HttpProblem, sendProblem } from './errors.ts';
import { malformed, NOT_JSON, PATH_TOO_LONG, TOO_LARGE } from './problems.ts';
import type { HttpServices } from './services.ts';

const OF_FASTIFY: Readonly<Record<string, HttpProblem>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: TOO_LARGE,
  FST_ERR_CTP_INVALID_MEDIA_TYPE: NOT_JSON,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: malformed('The body is shorter than its Content-Length.'),
  ECONNRESET: malformed('The connection ended before the body was complete.'),
  FST_ERR_BAD_URL: malformed('The path is not a valid URL path: a %-escape in it is wrong.'),
  FST_ERR_MAX_PARAM_LENGTH: PATH_TOO_LONG,
};

export type ErrorHandler = (
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
) => FastifyReply;

export function createErrorHandler({
  log,
  isStopping,
}: Pick<HttpServices, 'log' | 'isStopping'>): ErrorHandler {
  return (error, request, reply) => {
    // Fastify asks to close the connection when the parser fails. The rest of the body is read and
    // dropped instead: a reset would cost the client our answer.
    if (reply.hasHeader('connection') && !isStopping()) reply.removeHeader('connection');
    return sendProblem(reply, problemOf(error, request) ?? bug(error, request, log));
  };
}

function problemOf(error: FastifyError, request: FastifyRequest): HttpProblem | undefined {
  if (error instanceof BadRequest) return error.problem;
  const message = unavailability(error, request);
  if (message !== null) return { status: 503, code: 'service_unavailable', message };
  return OF_FASTIFY[error.code];
}

/** The sentence must not promise more than is known: a repeated POST may send twice. */
function unavailability(error: Error, request: FastifyRequest): string | null {
  if (error instanceof Overloaded) {
    return `Nothing was accepted: ${error.message}; try again in a moment.`;
  }
  if (error instanceof AcceptedUnknown) {
    return (
      'The database went away meanwhile: this may have been accepted. ' +
      'Repeating it with the same Idempotency-Key is safe.'
    );
  }
  if (!(error instanceof DatabaseUnavailable)) return null;
  const changesNothing = request.method === 'GET' || request.method === 'HEAD';
  if (
    changesNothing ||
    request.caller === null ||
    request.routeOptions.config.limit === 'sending'
  ) {
    return 'The database cannot be reached; nothing was accepted or changed, try again in a moment.';
  }
  return (
    'The database went away meanwhile: this may or may not have been done. ' +
    'Look at the present state before you repeat it.'
  );
}

/** Only what cannot hold a customer's data is logged: no message of the error, no values. */
function bug(error: FastifyError, request: FastifyRequest, log: HttpServices['log']): HttpProblem {
  const { name, code, stack } = error;
  const where = stack
    ?.split('\n')
    .filter((line) => line.startsWith('    at '))
    .join('\n');
  log.error(
    { request_id: request.id, route: request.routeOptions.url, error: name, code, stack: where },
    'bug',
  );
  return {
    status: 500,
    code: 'internal_error',
    message: 'Something went wrong on our side; quote the request id when you report it.',
  };
}
