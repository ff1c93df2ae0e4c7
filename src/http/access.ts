/**
 * Checks access to a route before the body is read, as its `config` (services.ts) requires: the key, its permission,
 * its domain, then type and size of the body. A route without `config` gets all checks, so an omission is safe.
 * Most operations take a session instead of a key (accounts/sessions/http-sessions.ts). The operator of this machine
 * needs neither (socket/admin-requests.ts).
 */
import type {
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
  preValidationHookHandler,
  RouteOptions,
} from 'fastify';
import type { HttpAccounts } from '../accounts/http-accounts.ts';
import type { KeyCache } from '../accounts/keys/key-cache.ts';
import { parseApiKey } from '../accounts/keys/api-key.ts';
import { limitRefusal } from '../core/limits.ts';
import { OPERATOR_PROJECT_ID } from '../core/operator-events.ts';
import { KEY_REFUSED, refuseNetwork } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { createBodyAccounting } from './socket/bodies.ts';
import type { ClientConnections } from './socket/client-connections.ts';
import {
  BODY_MAX_BYTES,
  refuse,
  encodingFailureOf,
  refuseEncoding,
  sendFailure,
  BODY_TOO_LARGE,
} from './errors.ts';
import { createLimitHeadersHook } from '../accounts/limits/http-limits.ts';
import { admitOperator } from './socket/admin-requests.ts';
import { isLocalOperator, isFromLocalOperator } from './socket/local-operator.ts';
import { LEAST_ROLES, OPERATOR_KEY_OPERATIONS, LOCAL_OPERATOR_OPERATIONS } from './roles.ts';
import type { App, HttpServices } from './services.ts';
import { clientOf, plainAddress } from '../net/ip-addresses.ts';
import { isInNetworks } from '../net/networks.ts';

const NO_KEY = 'No API key was sent. Send the header Authorization: Bearer <API key>.';
const NO_SUCH_FORM =
  'This is not an API key: keys begin with lh_live_ or lh_test_; it may be incomplete.';
const OPERATORS_ONLY =
  'This is a key of the operator, for the events of the installation; use a key of a project.';
const SENDING_ONLY = 'This key may only send and read its own emails; use a key with full access.';

/**
 * Returns the caller that the access checks found.
 * @throws on a public route, which has no caller
 */
export function callerOf(request: Pick<FastifyRequest, 'caller'>): Caller {
  if (request.caller === null) throw new Error('this route is public: it has no caller');
  return request.caller;
}

type KeyCheck = Pick<HttpAccounts, 'limiter' | 'keyUsage'> & {
  find: KeyCache['find'];
  onAdmitted: (request: FastifyRequest) => void;
};

function createKeyHook({ find, limiter, keyUsage, onAdmitted }: KeyCheck): onRequestHookHandler {
  /** Returns false after a refusal: the key is not for the client's network. The API log of the project shows it. */
  const admit = (request: FastifyRequest, reply: FastifyReply, caller: Caller): boolean => {
    const clientAddress = plainAddress(request.ip);
    request.caller = { ...caller, clientAddress };
    if (!isInOwnNetwork(request.caller)) {
      request.refusedLogIn = { way: 'api_key', result: 'refused' };
      refuse(reply, refuseNetwork(clientAddress));
      return false;
    }
    keyUsage.record(caller);
    onAdmitted(request);
    return true;
  };
  const refuseKey = async (request: FastifyRequest, reply: FastifyReply, message: string) => {
    const { allowed, limit } = await limiter.count(clientOf(request.ip));
    // A request without a key guesses none, so it is no refused log-in.
    if (message !== NO_KEY) {
      request.refusedLogIn = { way: 'api_key', result: allowed ? 'refused' : 'limited' };
    }
    if (allowed) refuse(reply, { refused: 'authentication_error', message, limit });
    else refuse(reply, limitRefusal('auth', limit));
  };
  return (request, reply, done) => {
    const text = bearerToken(request.headers.authorization);
    if (text === null) return void refuseKey(request, reply, NO_KEY).catch(done);
    const found = find(text);
    if (found !== null && !(found instanceof Promise)) {
      return admit(request, reply, found) ? done() : undefined;
    }
    Promise.resolve(found)
      .then((caller) => {
        if (caller === null) return refuseKey(request, reply, keyProblem(text));
        return admit(request, reply, caller) ? done() : undefined;
      })
      .catch(done);
  };
}

/** Returns whether a key is used in one of its networks. */
function isInOwnNetwork({ allowedNetworks, clientAddress = '' }: Caller): boolean {
  return allowedNetworks === null || isInNetworks(allowedNetworks, clientAddress);
}

/** Refuses sending-only keys. Runs after requireKey. */
const requireFullAccess: onRequestHookHandler = (request, reply, done) => {
  if (callerOf(request).permission === 'full_access') return done();
  refuse(reply, { refused: 'authorization_error', message: SENDING_ONLY });
};

/** Runs after requireKey. Refuses keys for one domain on routes that concern all domains. */
const requireAllDomains: onRequestHookHandler = (request, reply, done) => {
  const { domain } = callerOf(request);
  if (domain === null) return done();
  const message = `This key is limited to ${domain}, but this request concerns all domains of the project; use a key without a domain.`;
  refuse(reply, { refused: 'authorization_error', message });
};

function keyProblem(text: string): string {
  return parseApiKey(text) === null ? NO_SUCH_FORM : KEY_REFUSED;
}

/** Reads the token of RFC 6750 §2.1. The scheme is case-insensitive. */
export function bearerToken(header: string | undefined): string | null {
  return /^Bearer +([^ ]+)$/i.exec(header ?? '')?.[1] ?? null;
}

/** Registers the access checks, which apply to all routes that are registered after this call. */
export function registerAccessChecks(
  app: App,
  services: HttpServices,
  connections: ClientConnections,
): void {
  const { accounts } = services;
  const { keys, sessions } = accounts;
  app.decorateRequest('caller', null);
  app.decorateRequest('bodyAccount', null);
  app.decorateRequest('session', null);
  const onAdmitted = ({ raw, caller, session }: FastifyRequest): void => {
    const owner = caller?.projectId ?? session?.organizationId;
    if (owner !== undefined) connections.markKnown(raw.socket, owner);
  };
  const keyCheck = { ...accounts, onAdmitted };
  const identities = { sessions, services, onAdmitted };
  const requireKey = createKeyHook({ ...keyCheck, find: (text) => keys.findUncached(text) });
  // The accept statement checks the key again, so a cached caller is sufficient here.
  const requireKeyToSend = createKeyHook({ ...keyCheck, find: (text) => keys.find(text) });
  const openBodyAccount = createBodyAccounting();
  const setLimitHeaders = createLimitHeadersHook(services);
  app.addHook('onRoute', (route) => {
    const { limit, checkUpload, refuseAll } = route.config ?? {};
    const callerChecks = callerChecksOf(route, {
      ...identities,
      requireKey: limit === 'sending' ? requireKeyToSend : requireKey,
    });
    const checks = [...callerChecks, ...permissionChecksOf(route)];
    if (limit) route.onSend = setLimitHeaders;
    if (refuseAll) {
      route.onRequest = [...checks, (_request, reply) => void refuse(reply, refuseAll)];
    } else if (checkUpload) {
      route.onRequest = [...checks, checkUpload];
    } else {
      route.onRequest = [...checks, refuseBody, openBodyAccount];
      if (route.schema?.body) route.preValidation = emptyBodyIsObject;
    }
  });
}

/**
 * Returns a function that looks up the caller of this request again, uncached. It returns null when the key was
 * revoked, has expired or may no longer be used from here, or the session has ended.
 */
export function createCallerLookup(
  { keys, sessions }: Pick<HttpAccounts, 'keys' | 'sessions'>,
  { session, caller, headers }: FastifyRequest,
): () => Promise<Caller | null> {
  const text = bearerToken(headers.authorization) ?? '';
  if (session === null || caller === null) {
    return async () => {
      const found = await keys.findUncached(text);
      const again = found && { ...found, clientAddress: caller?.clientAddress ?? '' };
      return again !== null && isInOwnNetwork(again) ? again : null;
    };
  }
  if (isLocalOperator(session)) return () => Promise.resolve(caller);
  return () => sessions.findCaller(session.id, caller);
}

type HttpRoute = Pick<RouteOptions, 'config' | 'schema'>;

/** Returns the checks of the permissions of callers that callerChecksOf has found. */
function permissionChecksOf({ config = {}, schema }: HttpRoute): onRequestHookHandler[] {
  const { access = 'full_access', withinDomain } = config;
  const needsCaller = access === 'full_access' || access === 'any_key';
  const isForOperators = OPERATOR_KEY_OPERATIONS.has(schema?.operationId ?? '');
  return [
    ...(needsCaller && !isForOperators ? [refuseOperators] : []),
    ...(access === 'full_access' ? [requireFullAccess] : []),
    ...(needsCaller && !withinDomain ? [requireAllDomains] : []),
  ];
}

/** Runs after requireKey. Refuses keys of the operator's project on routes about mail. */
const refuseOperators: onRequestHookHandler = (request, reply, done) => {
  if (callerOf(request).projectId !== OPERATOR_PROJECT_ID) return done();
  const { operationId = '' } = request.routeOptions.schema ?? {};
  if (isFromLocalOperator(request) && LOCAL_OPERATOR_OPERATIONS.has(operationId)) return done();
  refuse(reply, { refused: 'authorization_error', message: OPERATORS_ONLY });
};

type Identities = Pick<HttpAccounts, 'sessions'> & {
  requireKey: onRequestHookHandler;
  onAdmitted: (request: FastifyRequest) => void;
  services: HttpServices;
};

/** Returns the checks that find the caller. They admit the operator of this machine, and require proof from others. */
function callerChecksOf(
  route: HttpRoute,
  { services, ...identities }: Identities,
): onRequestHookHandler[] {
  const { access = 'full_access', limit } = route.config ?? {};
  if (access === 'public') return [];
  if (access === 'sign_in') return [identities.sessions.requireSameOrigin];
  // The audit log does not record operations without a role, so these take a key even on the admin socket.
  if (!LEAST_ROLES.has(route.schema?.operationId ?? ''))
    return keyOrSessionChecks(route, identities);
  const operator = admitOperator(services, {
    needsSendingKey: limit === 'sending',
    needsProject: access !== 'session',
  });
  const others = keyOrSessionChecks(route, identities);
  return [
    when(isFromLocalOperator, operator, pass),
    ...others.map((check) => when(isFromLocalOperator, pass, check)),
  ];
}

/** Requires a key, or a session if the operation has a role (roles.ts). */
function keyOrSessionChecks(
  { config = {}, schema }: HttpRoute,
  { sessions, requireKey, onAdmitted }: Omit<Identities, 'services'>,
): onRequestHookHandler[] {
  const { access = 'full_access', limit } = config;
  const leastRole = LEAST_ROLES.get(schema?.operationId ?? '');
  const needsSendingKey = limit === 'sending';
  const requireRole = leastRole && sessions.requireRole({ leastRole, needsSendingKey, onAdmitted });
  if (access === 'session') {
    if (requireRole === undefined) throw new Error(`${schema?.operationId} has no role`);
    const hasKey: RequestTest = ({ headers }) => headers.authorization !== undefined;
    return [when(hasKey, requireKey, pass), sessions.requireSession, requireRole];
  }
  if (requireRole === undefined) return [requireKey];
  const hasCookie: RequestTest = (request) => sessions.hasSessionCookie(request);
  const isSignedOut: RequestTest = (request) => sessions.isFromSignedOutPage(request);
  return [when(isSignedOut, sessions.refuseSignedOut, when(hasCookie, requireRole, requireKey))];
}

type RequestTest = (request: FastifyRequest) => boolean;

/** Runs one of two checks, by a property of the request. */
function when(
  test: RequestTest,
  then: onRequestHookHandler,
  otherwise: onRequestHookHandler,
): onRequestHookHandler {
  return function eitherCheck(request, reply, done) {
    const check = test(request) ? then : otherwise;
    return check.call(this, request, reply, done);
  };
}

const pass: onRequestHookHandler = (_request, _reply, done) => done();

/** Refuses a body by its size and encoding, before it is read. The body of a GET is ignored. */
const refuseBody: onRequestHookHandler = (request, reply, done) => {
  const { headers, method, routeOptions } = request;
  if (method === 'GET' || method === 'HEAD') return done();
  if (Number(headers['content-length']) > BODY_MAX_BYTES)
    return void sendFailure(reply, BODY_TOO_LARGE);
  const encodingProblem = routeOptions.config.takesAnyBody ? null : encodingFailureOf(request);
  if (encodingProblem !== null) return void refuseEncoding(reply, encodingProblem);
  done();
};

const emptyBodyIsObject: preValidationHookHandler = (request, _reply, done) => {
  request.body ??= {};
  done();
};
