/** Requests to the API in the session of a member, whose cookie scripts cannot read. */
import { noteServerTime } from '../lib/clock.ts';
import { isOutage, noteContact, noteOutage, outagesSoFar } from './stream/connection.ts';
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
    super(
      error.code === 'precondition_failed'
        ? CHANGED_MEANWHILE
        : (error.message ?? `The service responded with status ${status}.`),
    );
    this.status = status;
    this.code = error.code ?? 'unknown';
    this.requestId = error.request_id ?? null;
    this.details = error.details ?? [];
  }
}

/** Replaces the message of the API, which is for programs. */
const CHANGED_MEANWHILE =
  'This was changed meanwhile, so your change was not saved. Close this, look at it again, and repeat your change.';

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

/** No read takes the service longer. */
const READ_MAX_MS = 30_000;

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
  // A change that takes long may be done nevertheless.
  if (methodOf(id) !== 'GET') return contentOf(await send(id, parts));
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), READ_MAX_MS);
  try {
    return await contentOf(await send(id, parts, late.signal));
  } catch (error) {
    if (late.signal.aborted && !(error instanceof ApiError)) throw unreachable();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

async function contentOf(response: Response): Promise<unknown> {
  const text = await response.text();
  return text === '' ? null : JSON.parse(text);
}

function unreachable(): ApiError {
  noteOutage('unreachable');
  const message = 'The service cannot be reached. Check your connection.';
  return new ApiError(0, { error: { code: 'unreachable', message } });
}

/** @param late aborts a request whose connection has died, for example while a laptop slept */
async function send(
  id: OperationId,
  parts: AnyParts & CallOptions,
  late?: AbortSignal,
): Promise<Response> {
  const { scope, path, query, body, signal, headers } = parts;
  const signals = [signal, late].filter((one) => one !== undefined);
  const needsSession = !WITHOUT_SESSION.has(id);
  if (needsSession && isSignedOut) throw new ApiError(401, { error: SIGNED_OUT });
  const method = methodOf(id);
  const isText = typeof body === 'string';
  const request = new Request(`${pathOf(id, path)}${queryText(query)}`, {
    method,
    headers: { ...headersFor(scope, method), ...headers },
    ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
    ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
  });
  if (body !== undefined && !isText) request.headers.set('content-type', 'application/json');
  const askedAfter = outagesSoFar();
  const response = await fetch(request).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw unreachable();
  });
  noteServerTime(response.headers.get('date'));
  if (!isOutage(response.status)) noteContact(askedAfter);
  // Too many event streams are no outage.
  else if (id !== 'listEvents') noteOutage('unavailable');
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
