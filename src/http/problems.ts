/** The problems with a request that have nothing to do with any one route. */
import type { HttpProblem } from './errors.ts';

export const BODY_MAX_BYTES = 45 * 1024 * 1024;

export const TOO_LARGE: HttpProblem = {
  status: 413,
  code: 'payload_too_large',
  message: 'The body is larger than 45 MB; send smaller attachments.',
};

export const NOT_JSON: HttpProblem = {
  status: 415,
  code: 'unsupported_media_type',
  message: 'The body must be JSON in UTF-8; send it with Content-Type: application/json.',
};

export const PATH_TOO_LONG: HttpProblem = {
  status: 414,
  code: 'validation_error',
  message: 'The path and query are too long; send less.',
};

export const STOPPING: HttpProblem = {
  status: 503,
  code: 'service_unavailable',
  message: 'The service is stopping; nothing was accepted or changed, try again in a moment.',
};

export function malformed(message: string): HttpProblem {
  return { status: 400, code: 'validation_error', message };
}
