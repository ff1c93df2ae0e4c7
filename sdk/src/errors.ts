/**
 * The errors of calls: `LetterhausError` when the service refused, `ConnectionError` when there was no complete
 * response.
 */

/** Later versions of the service may add codes. */
export type ErrorCode =
  | 'validation_error'
  | 'authentication_error'
  | 'totp_required'
  | 'authorization_error'
  | 'key_restricted'
  | 'domain_not_verified'
  | 'not_found'
  | 'method_not_allowed'
  | 'request_timeout'
  | 'idempotency_conflict'
  | 'conflict'
  | 'precondition_failed'
  | 'suppressed'
  | 'payload_too_large'
  | 'unsupported_media_type'
  | 'rate_limit_error'
  | 'internal_error'
  | 'service_unavailable'
  | (string & {});

export type FieldProblem = { field: string; message: string };

type Failure = {
  status: number;
  code: ErrorCode;
  message: string;
  request_id: string | null;
  details: readonly FieldProblem[];
  retry_after: number | null;
};

/** The service refused a request. `message` says in one sentence what is wrong and what to do. */
export class LetterhausError extends Error {
  override readonly name: string = 'LetterhausError';
  readonly status: number;
  readonly code: ErrorCode;
  /** Quote this in a problem report. Null when a proxy responded instead of the service. */
  readonly request_id: string | null;
  /** Invalid fields, each with its own message. */
  readonly details: readonly FieldProblem[];
  /** Seconds to wait, for 429 and 503. */
  readonly retry_after: number | null;

  constructor(failure: Failure) {
    super(failure.message);
    this.status = failure.status;
    this.code = failure.code;
    this.request_id = failure.request_id;
    this.details = failure.details;
    this.retry_after = failure.retry_after;
  }
}

/** There was no complete response: the connection failed, or `timeoutMs` passed. `cause` has the reason. */
export class ConnectionError extends Error {
  override readonly name: string = 'ConnectionError';
}

/** The service, or a proxy before it, responded with a redirect. Repeating the request changes nothing. */
export class RedirectError extends ConnectionError {
  override readonly name: string = 'RedirectError';
  /** @param location target of the redirect; null when the runtime does not show it */
  constructor(location: string | null) {
    const place = location === null ? '' : ` to ${originOf(location)}`;
    super(
      `The service responded with a redirect${place}. It is not followed, because that would send the API key ` +
        'there: set baseUrl to the address of the service itself.',
    );
  }
}

/** Omits path and query, which may contain a secret. */
function originOf(location: string): string {
  return URL.canParse(location) ? new URL(location).origin : 'another path';
}

/** The signature of a webhook is missing, wrong or too old. */
export class SignatureError extends Error {
  override readonly name: string = 'SignatureError';
}

/** Reads the body of a response whose status is not 2xx. */
export async function failureOf(response: Response): Promise<LetterhausError> {
  const text = await response.text();
  const { error } = parsed(text);
  return new LetterhausError({
    status: response.status,
    code: error?.code ?? 'internal_error',
    message:
      error?.message ?? `The response has status ${response.status} and is not from Letterhaus.`,
    request_id: error?.request_id ?? response.headers.get('x-request-id'),
    details: error?.details ?? [],
    retry_after: secondsOf(response.headers.get('retry-after')),
  });
}

type ErrorBody = { error?: Partial<Failure> };

function parsed(text: string): ErrorBody {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? body : {};
  } catch {
    return {};
  }
}

function secondsOf(header: string | null): number | null {
  return header !== null && /^\d{1,9}$/.test(header) ? Number(header) : null;
}
