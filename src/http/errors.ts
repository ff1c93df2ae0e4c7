/**
 * Every failure in the one shape: `{"error": {"code", "message", "request_id"}}`, with the status
 * that belongs to the code. Only this file knows which status that is. What is thrown on the way
 * comes here through thrown.ts, what never becomes a request (malformed HTTP) through
 * raw-answers.ts.
 */
import type { FastifyReply } from 'fastify';
import type { LimitState } from '../core/limits.ts';
import type { FieldProblem, Refusal, RefusalCode } from '../core/refusals.ts';
import { setLimitHeaders } from './limit-headers.ts';

/** A refusal without a status does not compile. */
const STATUS = {
  validation_error: 422,
  authentication_error: 401,
  authorization_error: 403,
  domain_not_verified: 403,
  not_found: 404,
  idempotency_conflict: 409,
  conflict: 409,
  suppressed: 422,
  rate_limit_error: 429,
  service_unavailable: 503,
} as const satisfies Record<RefusalCode, number>;

/** Codes that only HTTP has. */
type HttpCode =
  | 'method_not_allowed'
  | 'request_timeout'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'internal_error';

export type HttpProblem = {
  status: number;
  code: RefusalCode | HttpCode;
  message: string;
  details?: readonly FieldProblem[] | undefined;
};

/** How long to stay away when the service cannot work, in seconds. */
const UNAVAILABLE_RETRY_S = 5;

export const JSON_TYPE = 'application/json; charset=utf-8';

/** A problem with the request, thrown where Fastify takes no other answer (parser, validator). */
export class BadRequest extends Error {
  override readonly name = 'BadRequest';
  readonly problem: HttpProblem;

  constructor(problem: HttpProblem) {
    super(problem.message);
    this.problem = problem;
  }
}

/** The body of a failure. */
export function errorBody(problem: HttpProblem, requestId: string): string {
  const { code, message, details } = problem;
  return JSON.stringify({
    error: { code, message, request_id: requestId, ...(details && { details }) },
  });
}

export function sendProblem(reply: FastifyReply, problem: HttpProblem): FastifyReply {
  const { id } = reply.request;
  if (problem.status === 503) reply.header('retry-after', UNAVAILABLE_RETRY_S);
  if (problem.status === 401) reply.header('www-authenticate', 'Bearer');
  return reply
    .code(problem.status)
    .header('x-request-id', id)
    .header('content-type', JSON_TYPE)
    .send(errorBody(problem, id));
}

/** Answers a refusal. With `limit`, the RateLimit headers; a 429 always has one. */
export function refuse(
  reply: FastifyReply,
  refusal: Refusal & { limit?: LimitState | undefined },
): FastifyReply {
  const { refused, message, details, limit } = refusal;
  if (limit) setLimitHeaders(reply, limit);
  if (limit && refused === 'rate_limit_error') reply.header('retry-after', limit.resetS);
  return sendProblem(reply, {
    status: STATUS[refused],
    code: refused,
    message,
    details,
  });
}

/** The same answer for what does not exist and for what is somebody else's. */
export function notFound(reply: FastifyReply, what: string): FastifyReply {
  return refuse(reply, {
    refused: 'not_found',
    message: `There is no ${what} with this id in this project and environment.`,
  });
}
