/** Requests to the API in the session of a member, whose cookie scripts cannot read. */

/** What requests are about. */
export type Scope = { project: string; environment: 'live' | 'test' };

/** What is wrong with one field of a request. */
export type FieldProblem = { field: string; message: string };

type Failure = {
  error?: { code?: string; message?: string; request_id?: string; details?: FieldProblem[] };
};

export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** 0: there was no answer. */
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  /** Empty when it is about no field. */
  readonly details: readonly FieldProblem[];

  constructor(status: number, { error = {} }: Failure) {
    super(error.message ?? `The service answered with status ${status}.`);
    this.status = status;
    this.code = error.code ?? 'unknown';
    this.requestId = error.request_id ?? null;
    this.details = error.details ?? [];
  }
}

export type CallOptions = {
  scope?: Scope;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
};

/** Answers 401 to visitors who have not signed in yet. */
export const SESSION_PATH = '/v1/session';

let leave = (): void => {};

/** Sets what happens when a page reads something and its session has ended. */
export function whenSignedOut(then: () => void): void {
  leave = then;
}

/** @throws ApiError for every failure; an AbortError when `signal` aborted it */
export async function call<Result>(
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  options: CallOptions = {},
): Promise<Result> {
  const response = await respond(method, path, options);
  const text = await response.text();
  return (text === '' ? null : JSON.parse(text)) as Result;
}

/** The response itself, for what is not JSON. */
export async function respond(
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  { scope, body, signal, headers }: CallOptions = {},
): Promise<Response> {
  const request = new Request(path, {
    method,
    headers: { ...headersFor(scope, method), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  if (body !== undefined && typeof body !== 'string') {
    request.headers.set('content-type', 'application/json');
  }
  const response = await fetch(request).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    const message = 'The service cannot be reached; check the connection.';
    throw new ApiError(0, { error: { code: 'unreachable', message } });
  });
  if (response.ok) return response;
  // A refused change is said where it was made instead, so that nothing that was typed is lost.
  if (response.status === 401 && method === 'GET' && path !== SESSION_PATH) leave();
  const answer: unknown = await response.json().catch(() => ({}));
  throw new ApiError(response.status, answer as Failure);
}

function headersFor(scope: Scope | undefined, method: string): Record<string, string> {
  return {
    ...(scope && {
      'letterhaus-project': scope.project,
      'letterhaus-environment': scope.environment,
    }),
    // A form on another site cannot set it.
    ...(method !== 'GET' && { 'letterhaus-session': '1' }),
  };
}

/** `?a=1&b=2` of what is set. */
export function queryText(values: Record<string, string | number | null | undefined>): string {
  const entries = Object.entries(values).filter(([, value]) => value != null && value !== '');
  const text = new URLSearchParams(
    entries.map(([name, value]) => [name, String(value)]),
  ).toString();
  return text === '' ? '' : `?${text}`;
}
