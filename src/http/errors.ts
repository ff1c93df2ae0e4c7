/**
 * Sends all failures in one shape, `{"error": {"code", "message", "request_id"}}`, with the status of the code:
 * refusals and thrown errors (Fastify's, an unavailable database, bugs). Only this file defines the statuses of the
 * API. Three others send their own failures: the root mount (root-format.ts), pages of unsubscribe links
 * (suppressions/http-unsubscribe-page.ts), and malformed HTTP (http/socket/raw-responses.ts).
 *
 * A refusal by a limit also gets the rate-limit headers and Retry-After (accounts/limits/http-limits.ts).
 */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { LimitState } from '../core/limits.ts';
import {
  type FieldProblem,
  MaximumReached,
  noSuch,
  Overloaded,
  type Refusal,
  type RefusalCode,
  refuseFields,
} from '../core/refusals.ts';
import { rootFormatOf } from './root-format.ts';
import { AcceptedUnknown } from '../accept/store/lost-commits.ts';
import { busyReasonOf, DatabaseUnavailable } from '../database/database.ts';
import { SecretUnopenable } from '../secrets/secret-box.ts';
import { MIB } from '../lib/units.ts';

const STATUS_OF_CODE = {
  validation_error: 422,
  authentication_error: 401,
  totp_required: 401,
  authorization_error: 403,
  key_restricted: 403,
  domain_not_verified: 403,
  not_found: 404,
  idempotency_conflict: 409,
  conflict: 409,
  precondition_failed: 412,
  suppressed: 422,
  rate_limit_error: 429,
  service_unavailable: 503,
} as const satisfies Record<RefusalCode, number>;

type HttpCode =
  | 'method_not_allowed'
  | 'request_timeout'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'internal_error';

declare module 'fastify' {
  interface FastifyRequest {
    /** The failure that was sent; null before or without one. */
    failure: HttpFailure | null;
  }
}

export type HttpFailure = {
  status: number;
  code: RefusalCode | HttpCode;
  message: string;
  details?: readonly FieldProblem[] | undefined;
  /** Fields of the body beside `error`. */
  extraFields?: Readonly<Record<string, unknown>>;
};

export const JSON_TYPE = 'application/json; charset=utf-8';

const UNAVAILABLE_RETRY_S = 5;
const ENCODING_CHARACTERS_MAX = 60;
export const BODY_MAX_BYTES = 45 * MIB;

export const BODY_TOO_LARGE: HttpFailure = {
  status: 413,
  code: 'payload_too_large',
  message: 'The body is larger than 45 MB; send smaller attachments.',
};

export const NOT_JSON: HttpFailure = {
  status: 415,
  code: 'unsupported_media_type',
  message: 'The body must be JSON in UTF-8; send it with Content-Type: application/json.',
};

export const PATH_TOO_LONG: HttpFailure = {
  status: 414,
  code: 'validation_error',
  message: 'The path and query are too long; shorten them.',
};

export const STOPPING: HttpFailure = {
  status: 503,
  code: 'service_unavailable',
  message: 'The service is stopping; nothing was accepted or changed, try again in a moment.',
};

const FASTIFY_FAILURES: Readonly<Record<string, HttpFailure>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: BODY_TOO_LARGE,
  FST_ERR_CTP_INVALID_MEDIA_TYPE: NOT_JSON,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: malformed('The body is shorter than its Content-Length.'),
  ERR_TINY_PIECES: malformed('The body arrives in pieces of a few bytes; send larger chunks.'),
  ECONNRESET: malformed('The connection ended before the body was complete.'),
  FST_ERR_BAD_URL: malformed('The path is not a valid URL path: it contains an invalid %-escape.'),
  FST_ERR_MAX_PARAM_LENGTH: PATH_TOO_LONG,
};

export const WRONG_ENVIRONMENT = malformed('Letterhaus-Environment: write live or test.');

export function malformed(message: string): HttpFailure {
  return { status: 400, code: 'validation_error', message };
}

/** Carries the failure of a request, for places where Fastify expects an exception (parser, validator). */
export class BadRequest extends Error {
  override readonly name = 'BadRequest';
  readonly failure: HttpFailure;

  constructor(failure: HttpFailure) {
    super(failure.message);
    this.failure = failure;
  }
}

export function badFields(problems: readonly FieldProblem[]): BadRequest {
  const { message, details } = refuseFields(problems);
  return new BadRequest({ status: 422, code: 'validation_error', message, details });
}

export function errorBody(failure: HttpFailure, requestId: string): string {
  const { code, message, details, extraFields } = failure;
  return JSON.stringify({
    ...extraFields,
    error: { code, message, request_id: requestId, ...(details && { details }) },
  });
}

export function sendFailure(reply: FastifyReply, failure: HttpFailure): FastifyReply {
  const { request } = reply;
  request.failure = failure;
  if (failure.status === 503) reply.header('retry-after', UNAVAILABLE_RETRY_S);
  if (failure.status === 401) reply.header('www-authenticate', 'Bearer');
  const { status, body } = renderFailure(request, failure);
  return reply
    .code(status)
    .header('x-request-id', request.id)
    .header('content-type', JSON_TYPE)
    .send(body);
}

/** Renders a failure in the shape of the API that the path belongs to. */
function renderFailure(
  request: FastifyRequest,
  failure: HttpFailure,
): { status: number; body: string } {
  const { id, headers } = request;
  const rootFormat = rootFormatOf(request);
  if (rootFormat === null) return { status: failure.status, body: errorBody(failure, id) };
  const hasKey = headers.authorization !== undefined;
  return rootFormat.renderFailure(failure, { requestId: id, hasKey });
}

/** Sends a refusal. With `limit`, sets the RateLimit headers; an exceeded limit always has one. */
export function refuse(
  reply: FastifyReply,
  refusal: Refusal & { limit?: LimitState | undefined },
): FastifyReply {
  const { refused, limit } = refusal;
  if (limit) setLimitHeaders(reply, limit);
  if (limit && refused === 'rate_limit_error') reply.header('retry-after', limit.resetS);
  return sendFailure(reply, failureOfRefusal(refusal));
}

export function failureOfRefusal({ refused, message, details }: Refusal): HttpFailure {
  return { status: STATUS_OF_CODE[refused], code: refused, message, details };
}

export function notFound(reply: FastifyReply, what: string): FastifyReply {
  return refuse(reply, noSuch(what));
}

/**
 * Sets RateLimit-* (draft-ietf-httpapi-ratelimit-06) and the same without the prefix. Times are whole seconds from
 * now. The policy names the unit if it is not requests.
 */
export function setLimitHeaders(reply: FastifyReply, state: LimitState): void {
  const unit = state.counts === undefined ? '' : `;comment="${state.counts}"`;
  reply.headers({
    'ratelimit-limit': state.limit,
    'ratelimit-remaining': state.remaining,
    'ratelimit-reset': state.resetS,
    'ratelimit-policy': `${state.limit};w=${state.windowS}${unit}`,
    limit: state.limit,
    remaining: state.remaining,
    reset: state.resetS,
  });
}

/**
 * Returns why the encoding of the body is refused; null without one. None is decoded (RFC 9110 §8.4, §15.5.16).
 */
export function encodingFailureOf(request: FastifyRequest): HttpFailure | null {
  const codings = (request.headers['content-encoding'] ?? '').toLowerCase().split(',');
  const names = codings.map((coding) => coding.trim()).filter((coding) => coding !== '');
  if (names.every((coding) => coding === 'identity') || !hasBody(request)) return null;
  const printable = names
    .join(', ')
    .replaceAll(/[^!-~ ]/g, '?')
    .slice(0, ENCODING_CHARACTERS_MAX);
  const message = `The body has the Content-Encoding ${printable}, which is not supported; send it without an encoding.`;
  return { status: 415, code: 'unsupported_media_type', message };
}

/** Sends the failure, and names the encoding that is supported. */
export function refuseEncoding(reply: FastifyReply, failure: HttpFailure): FastifyReply {
  return sendFailure(reply.header('accept-encoding', 'identity'), failure);
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

type ErrorHandler = (
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
) => FastifyReply;

export function createErrorHandler({
  log,
  isStopping,
  onDatabaseFailure,
}: {
  log: Logger;
  isStopping: () => boolean;
  onDatabaseFailure: () => void;
}): ErrorHandler {
  return (error, request, reply) => {
    if (error instanceof DatabaseUnavailable || error instanceof AcceptedUnknown) {
      onDatabaseFailure();
    }
    // Fastify closes the connection when the parser fails, which could discard the response. The rest of the body is
    // read and dropped instead.
    if (reply.hasHeader('connection') && !isStopping()) reply.removeHeader('connection');
    return sendFailure(reply, failureOf(error, request) ?? logBug(error, request, log));
  };
}

function failureOf(error: FastifyError, request: FastifyRequest): HttpFailure | undefined {
  if (error instanceof BadRequest) return error.failure;
  if (error instanceof MaximumReached) {
    return { status: STATUS_OF_CODE.conflict, code: 'conflict', message: error.message };
  }
  const message = unavailableMessage(error, request);
  if (message !== null) return { status: 503, code: 'service_unavailable', message };
  return FASTIFY_FAILURES[error.code];
}

/** Returns a message that states only certain facts, because repeating a POST may send twice. */
function unavailableMessage(error: Error, request: FastifyRequest): string | null {
  if (error instanceof Overloaded) {
    return `Nothing was accepted: ${error.message}; try again in a moment.`;
  }
  if (error instanceof AcceptedUnknown) {
    return (
      'The connection to the database was lost: the request may have been accepted. ' +
      'Repeating it with the same Idempotency-Key is safe.'
    );
  }
  if (error instanceof SecretUnopenable) {
    return (
      'The secret key of this service cannot open a stored secret that the request needs; nothing was changed. ' +
      'The operator has to restore the key or the row (docs/troubleshooting.md).'
    );
  }
  if (!(error instanceof DatabaseUnavailable)) return null;
  const busy = busyReasonOf(error);
  const changesNothing = request.method === 'GET' || request.method === 'HEAD';
  if (
    changesNothing ||
    (request.caller === null && request.session === null) ||
    request.routeOptions.config.limit === 'sending'
  ) {
    const why =
      busy === null
        ? 'The database cannot be reached'
        : `The database refused the request for now, because ${busy}`;
    return `${why}; nothing was accepted or changed, try again in a moment.`;
  }
  if (busy !== null) {
    return (
      `The database refused a part of the request for now, because ${busy}. ` +
      'Check the current state before you repeat the request.'
    );
  }
  return (
    'The connection to the database was lost: the request may or may not have been executed. ' +
    'Check the current state before you repeat the request.'
  );
}

/** Logs where the error was thrown. Its message and values can contain customer data, so they are not logged. */
function logBug(error: FastifyError, request: FastifyRequest, log: Logger): HttpFailure {
  const { name, code, stack } = error;
  const frames = stack
    ?.split('\n')
    .filter((line) => line.startsWith('    at '))
    .join('\n');
  log.error(
    { request_id: request.id, route: request.routeOptions.url, error: name, code, stack: frames },
    'bug',
  );
  return {
    status: 500,
    code: 'internal_error',
    message: 'Internal error; quote the request id when you report it.',
  };
}
