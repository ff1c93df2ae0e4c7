/**
 * Failures on the root mount in Resend's format, `{"statusCode", "name", "message"}`, and `request_id`. `name` is
 * always one of the 21 that clients know: those for PHP and .NET do not recognise a failure with another name.
 */
import type { RefusalCode } from '../../../core/refusals.ts';
import type { RenderedFailure } from '../../../http/root-format.ts';

/** First path segments of the root mount, offered or not (mount.ts). */
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

/** Returns whether a path is Resend's, so that its failures have that format. Duplicate slashes collapse. */
export function isOfRootMount(url: string): boolean {
  // Called for every request, and most paths begin like this.
  if (url.startsWith('/v1/')) return false;
  return MOUNTED.has(/^\/+([^/?#]+)/.exec(url)?.[1] ?? '');
}

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

type ErrorNaming = { name: ErrorName; status: number };

const ERROR_NAMES: Readonly<Record<Exclude<RefusalCode, 'validation_error'>, ErrorNaming>> = {
  authentication_error: { name: 'invalid_api_key', status: 403 },
  authorization_error: { name: 'restricted_api_key', status: 401 },
  key_restricted: { name: 'restricted_api_key', status: 401 },
  // Only sessions can fail like this, and this API has none.
  totp_required: { name: 'invalid_api_key', status: 401 },
  domain_not_verified: { name: 'validation_error', status: 403 },
  not_found: { name: 'not_found', status: 404 },
  idempotency_conflict: { name: 'invalid_idempotent_request', status: 409 },
  conflict: { name: 'validation_error', status: 422 },
  // This API has no preconditions.
  precondition_failed: { name: 'validation_error', status: 412 },
  suppressed: { name: 'validation_error', status: 422 },
  rate_limit_error: { name: 'rate_limit_exceeded', status: 429 },
  service_unavailable: { name: 'internal_server_error', status: 503 },
};

export function resendFailure(
  failure: RenderedFailure,
  { requestId, hasKey }: { requestId: string; hasKey: boolean },
): { status: number; body: string } {
  const { name, status } = errorNameAndStatus(failure, hasKey);
  const { message } = failure;
  const body = JSON.stringify({ statusCode: status, name, message, request_id: requestId });
  return { status, body };
}

function errorNameAndStatus(failure: RenderedFailure, hasKey: boolean): ErrorNaming {
  const { code, status } = failure;
  if (code === 'authentication_error' && !hasKey) return { name: 'missing_api_key', status };
  if (code in ERROR_NAMES) return ERROR_NAMES[code as keyof typeof ERROR_NAMES];
  return { name: errorNameOf(failure), status };
}

/** Names a failed rule by its first field, and a failure of HTTP by its status. */
function errorNameOf({ status, message, details }: RenderedFailure): ErrorName {
  if (status === 405) return 'method_not_allowed';
  if (status >= 500) return 'internal_server_error';
  const field = details?.[0]?.field.replace(/^\[\d+\]\.?/, '') ?? '';
  if (field === 'Idempotency-Key') return 'invalid_idempotency_key';
  if (message.includes(`${field}: is required`)) return 'missing_required_field';
  if (field === 'from') return 'invalid_from_address';
  return field.startsWith('attachments') ? 'invalid_attachment' : 'validation_error';
}
