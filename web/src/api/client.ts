/** Requests to the API in the session of a member, whose cookie scripts cannot read. */
import { noteServerTime } from '../lib/clock.ts';
import {
  type AnyParts,
  methodOf,
  type OperationId,
  type PartsArgument,
  pathOf,
  queryText,
  type Result,
} from './operations.ts';

/** The project and environment of a request. */
export type Scope = { project: string; environment: 'live' | 'test' };

/** A problem with one field of a request. */
export type FieldProblem = { field: string; message: string };

type Failure = {
  error?: { code?: string; message?: string; request_id?: string; details?: FieldProblem[] };
};

export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** 0: there was no response. */
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  /** Empty when it concerns no field. */
  readonly details: readonly FieldProblem[];

  constructor(status: number, { error = {} }: Failure) {
    super(error.message ?? `The service responded with status ${status}.`);
    this.status = status;
    this.code = error.code ?? 'unknown';
    this.requestId = error.request_id ?? null;
    this.details = error.details ?? [];
  }
}

const SIGNED_OUT = {
  code: 'authentication_error',
  message: 'You have been signed out. Sign in again.',
};

export type CallOptions = {
  scope?: Scope;
  signal?: AbortSignal;
  headers?: Record<string, string>;
};

/** Operations of visitors. A 401 refuses what they typed, not their session. */
const WITHOUT_SESSION: ReadonlySet<OperationId> = new Set<OperationId>([
  'acceptInvitation',
  'createOwner',
  'getSession',
  'getSetup',
  'resetPassword',
  'signIn',
  'signInWithOidc',
  'signInWithPasskey',
  'startPasskeySignIn',
  'startOidcSignIn',
]);

let onSignedOut = (): void => {};
let isSignedOut = false;

/** Sets the callback for a request that is refused because the session has ended. */
export function whenSignedOut(then: () => void): void {
  onSignedOut = then;
}

export function sessionHasEnded(): void {
  isSignedOut = true;
  onSignedOut();
}

/** Until then a page whose session has ended sends no requests. */
export function signedInAgain(): void {
  isSignedOut = false;
}

/** @throws ApiError for every failure; an AbortError when `signal` aborted it */
export async function call<Id extends OperationId>(
  id: Id,
  ...[parts]: PartsArgument<Id, CallOptions>
): Promise<Result<Id>> {
  return (await callWith(id, parts ?? {})) as Result<Id>;
}

/** The response itself, for content that is not JSON. A string body is sent unchanged. */
export async function respond<Id extends OperationId>(
  id: Id,
  ...[parts]: PartsArgument<Id, CallOptions>
): Promise<Response> {
  return send(id, parts ?? {});
}

/** Untyped `call`, for callers that check the parts themselves. */
export async function callWith(id: OperationId, parts: AnyParts & CallOptions): Promise<unknown> {
  const text = await (await send(id, parts)).text();
  return text === '' ? null : JSON.parse(text);
}

async function send(id: OperationId, parts: AnyParts & CallOptions): Promise<Response> {
  const { scope, path, query, body, signal, headers } = parts;
  const needsSession = !WITHOUT_SESSION.has(id);
  if (needsSession && isSignedOut) throw new ApiError(401, { error: SIGNED_OUT });
  const method = methodOf(id);
  const isText = typeof body === 'string';
  const request = new Request(`${pathOf(id, path)}${queryText(query)}`, {
    method,
    headers: { ...headersFor(scope, method), ...headers },
    ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  if (body !== undefined && !isText) request.headers.set('content-type', 'application/json');
  const response = await fetch(request).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    const message = 'The service cannot be reached. Check your connection.';
    throw new ApiError(0, { error: { code: 'unreachable', message } });
  });
  noteServerTime(response.headers.get('date'));
  if (response.ok) return response;
  if (response.status === 401 && needsSession && (await hasEnded(method))) sessionHasEnded();
  const failure: unknown = await response.json().catch(() => ({}));
  throw new ApiError(response.status, failure as Failure);
}

/** Returns whether a 401 is about the session. That of a change may also be about a password in it. */
async function hasEnded(method: string): Promise<boolean> {
  if (method === 'GET') return true;
  const session = await send('getSession', {}).catch((error: unknown) => error);
  return session instanceof ApiError && session.status === 401;
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
