/**
 * Failures on the root mount in Resend's shape, `{"statusCode", "name", "message"}`, with `request_id`
 * besides. `name` is always one of the 21 that the clients know: those for PHP and .NET do not recognise
 * a failure with another one.
 */
import type { RefusalCode } from '../../../core/refusals.ts';

/** The first segments of the paths that belong to the root mount, offered or not (compat/resend/mount.ts). */
const OFFERED = [
  'email',
  'emails',
  'domains',
  'api-keys',
  'webhooks',
  'suppressions',
  'templates',
  'logs',
  'usage',
];

/** What Resend has besides transactional mail. */
export const NOT_OFFERED = [
  'audiences',
  'automations',
  'broadcasts',
  'contact-properties',
  'contacts',
  'events',
  'inboxes',
  'oauth',
  'segments',
  'topics',
];

const MOUNTED = new Set([...OFFERED, ...NOT_OFFERED]);

/** Whether a path is one of Resend's, so that its failures have that shape. Duplicate slashes collapse. */
export function isOfRootMount(url: string): boolean {
  // Asked for every request, most of which are these.
  if (url.startsWith('/v1/')) return false;
  return MOUNTED.has(/^\/+([^/?#]+)/.exec(url)?.[1] ?? '');
}

type Problem = {
  status: number;
  code: string;
  message: string;
  details?: readonly { field: string }[] | undefined;
};

/** The names of clients that occur here. */
type ErrorName =
  | 'internal_server_error'
  | 'invalid_api_key'
  | 'invalid_attachment'
  | 'invalid_from_address'
  | 'invalid_idempotency_key'
  | 'invalid_idempotent_request'
  | 'method_not_allowed'
  | 'missing_api_key'
  | 'missing_required_field'
  | 'not_found'
  | 'rate_limit_exceeded'
  | 'restricted_api_key'
  | 'validation_error';

type Naming = { name: ErrorName; status: number };

const NAMING: Readonly<Record<Exclude<RefusalCode, 'validation_error'>, Naming>> = {
  authentication_error: { name: 'invalid_api_key', status: 403 },
  authorization_error: { name: 'restricted_api_key', status: 401 },
  // Only of sessions, which this API does not have.
  totp_required: { name: 'invalid_api_key', status: 401 },
  domain_not_verified: { name: 'validation_error', status: 403 },
  not_found: { name: 'not_found', status: 404 },
  idempotency_conflict: { name: 'invalid_idempotent_request', status: 409 },
  conflict: { name: 'validation_error', status: 422 },
  suppressed: { name: 'validation_error', status: 422 },
  rate_limit_error: { name: 'rate_limit_exceeded', status: 429 },
  service_unavailable: { name: 'internal_server_error', status: 503 },
};

/** @param context.hasKey whether the request has an Authorization header */
export function resendFailure(
  problem: Problem,
  { requestId, hasKey }: { requestId: string; hasKey: boolean },
): { status: number; body: string } {
  const { name, status } = namingOf(problem, hasKey);
  const { message } = problem;
  const body = JSON.stringify({ statusCode: status, name, message, request_id: requestId });
  return { status, body };
}

function namingOf(problem: Problem, hasKey: boolean): Naming {
  const { code, status } = problem;
  if (code === 'authentication_error' && !hasKey) return { name: 'missing_api_key', status };
  if (code in NAMING) return NAMING[code as keyof typeof NAMING];
  return { name: nameOf(problem), status };
}

/** Of what breaks a rule, by its first field, and of what only HTTP knows. */
function nameOf({ status, message, details }: Problem): ErrorName {
  if (status === 405) return 'method_not_allowed';
  if (status >= 500) return 'internal_server_error';
  const field = details?.[0]?.field.replace(/^\[\d+\]\.?/, '') ?? '';
  if (field === 'Idempotency-Key') return 'invalid_idempotency_key';
  if (message.includes(`${field}: is required`)) return 'missing_required_field';
  if (field === 'from') return 'invalid_from_address';
  return field.startsWith('attachments') ? 'invalid_attachment' : 'validation_error';
}
