/**
 * Checks access to a route before the body is read, as its `config` (services.ts) requires: the key, its permission,
 * its domain, then type and size of the body. A route without `config` gets all checks, so an omission is safe.
 * Most operations take a session in place of a key (accounts/sessions/http-sessions.ts). The operator of this machine
 * needs neither (admin-socket.ts).
 */
import type {
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
  preValidationHookHandler,
  RouteOptions,
} from 'fastify';
import { AuthLimiter } from '../accounts/keys/auth-limiter.ts';
import { KeyCache, KeyUse } from '../accounts/keys/key-cache.ts';
import { Devices } from '../accounts/sign-in/devices.ts';
import { Passwords } from '../accounts/sign-in/passwords.ts';
import { SecondFactor } from '../accounts/sign-in/second-factor.ts';
import { SignIn } from '../accounts/sign-in/sign-in.ts';
import { SignInLimits } from '../accounts/sign-in/limits.ts';
import { parseApiKey } from '../accounts/keys/api-key.ts';
import { limitRefusal } from '../core/limits.ts';
import { OPERATOR_PROJECT_ID } from '../core/operator-events.ts';
import type { Caller } from '../core/scope.ts';
import { createBodyAccounting } from './socket/bodies.ts';
import type { Connections } from './socket/client-connections.ts';
import { BODY_MAX_BYTES, refuse, refusesEncoding, sendProblem, TOO_LARGE } from './errors.ts';
import { createLimitHeadersHook } from '../accounts/limits/http-limits.ts';
import { admitOperator } from './admin-socket.ts';
import { isLocalOperator, isFromLocalOperator } from './local-operator.ts';
import { LEAST_ROLES, OPERATOR_KEY_OPERATIONS, LOCAL_OPERATOR_OPERATIONS } from './roles.ts';
import type { Access, App, HttpServices } from './services.ts';
import { Sessions } from '../accounts/sessions/http-sessions.ts';
import { clientOf } from '../net/addresses.ts';

const NO_KEY = 'There is no API key; send the header Authorization: Bearer <API key>.';
const NO_SUCH_FORM =
  'This is not an API key: keys begin with lh_live_ or lh_test_; it may be incomplete.';
/** The same for unknown, revoked and expired keys, so that it does not disclose the difference. */
export const KEY_REFUSED = 'The API key is not valid; check it, or make a new one.';
const OPERATORS_ONLY =
  'This is a key of the operator, for the events of the installation; use a key of a project.';
const SENDING_ONLY = 'This key may only send and read its own emails; use a key with full access.';

/** @throws on a public route, which has no caller */
export function callerOf(request: Pick<FastifyRequest, 'caller'>): Caller {
  if (request.caller === null) throw new Error('this route is public: it has no caller');
  return request.caller;
}

type Authentication = {
  find: KeyCache['find'];
  limiter: AuthLimiter;
  use: KeyUse;
  connections: Connections;
};

function requireKey({ find, limiter, use, connections }: Authentication): onRequestHookHandler {
  const pass = (request: FastifyRequest, caller: Caller): void => {
    request.caller = caller;
    use.note(caller);
    connections.know(request.raw.socket, caller.projectId);
  };
  const fail = async (request: FastifyRequest, reply: FastifyReply, message: string) => {
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
    if (text === null) return void fail(request, reply, NO_KEY).catch(done);
    const found = find(text);
    if (found !== null && !(found instanceof Promise)) {
      pass(request, found);
      return done();
    }
    Promise.resolve(found)
      .then((caller) => {
        if (caller === null) return fail(request, reply, whyRefused(text));
        pass(request, caller);
        return done();
      })
      .catch(done);
  };
}

/** Runs after requireKey. */
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

function whyRefused(text: string): string {
  return parseApiKey(text) === null ? NO_SUCH_FORM : KEY_REFUSED;
}

/** Reads the token of RFC 6750 §2.1. The scheme is case-insensitive. */
export function bearerToken(header: string | undefined): string | null {
  return /^Bearer +([^ ]+)$/i.exec(header ?? '')?.[1] ?? null;
}

export function checkRoutes(app: App, services: HttpServices, connections: Connections): void {
  const { db, world, config } = services;
  const keys = new KeyCache(db.checking, world);
  const use = new KeyUse(db);
  const accounts = createBodyAccounting();
  const limiter = new AuthLimiter(db, world, config.limits.auth);
  const checking = { limiter, use, connections };
  const needsKey = requireKey({ ...checking, find: (text) => keys.findNow(text) });
  // The accept statement checks the key again, so a cached caller is sufficient here.
  const needsKeyToSend = requireKey({ ...checking, find: (text) => keys.find(text) });
  const sessions = new Sessions({ ...services, db: db.checking, limiter, connections });
  const setsLimitHeaders = createLimitHeadersHook(services);
  app.decorateRequest('caller', null);
  app.decorateRequest('bodyAccount', null);
  app.decorateRequest('session', null);
  app.decorate('sessions', sessions);
  const secondFactor = new SecondFactor(services);
  app.decorate('secondFactor', secondFactor);
  const signIn = {
    limits: new SignInLimits(db, world, config.limits.auth),
    devices: new Devices(services.secrets),
    passwords: new Passwords(),
  };
  app.decorate('signIn', new SignIn({ db, limiter, secondFactor, ...signIn }));
  app.decorate('createCallerLookup', ({ session, caller, headers }) => {
    const text = bearerToken(headers.authorization) ?? '';
    if (session === null || caller === null) return async () => keys.findNow(text);
    if (isLocalOperator(session)) return () => Promise.resolve(caller);
    return () => sessions.findAgain(session.id, caller);
  });
  app.decorate('forgetKey', (keyId: string) => keys.forget(keyId));
  app.addHook('onClose', () => use.close());
  app.addHook('onRoute', (route) => {
    const { access = 'full_access', limit, streams, refuses, withinDomain } = route.config ?? {};
    const needsKeyHere = limit === 'sending' ? needsKeyToSend : needsKey;
    const checks = identity(route, { sessions, needsKey: needsKeyHere, services });
    if (needsCaller(access) && !isForOperators(route)) checks.push(refuseOperators);
    if (access === 'full_access') checks.push(requireFullAccess);
    if (needsCaller(access) && !withinDomain) checks.push(requireAllDomains);
    if (limit) route.onSend = setsLimitHeaders;
    if (refuses) {
      route.onRequest = [...checks, (_request, reply) => void refuse(reply, refuses)];
      return;
    }
    if (streams) {
      route.onRequest = [...checks, streams];
      return;
    }
    route.onRequest = [...checks, refuseBody, accounts];
    if (route.schema?.body) route.preValidation = emptyBodyIsObject;
  });
}

/** Runs after requireKey. Refuses keys of the operator's project on routes about mail. */
const refuseOperators: onRequestHookHandler = (request, reply, done) => {
  if (callerOf(request).projectId !== OPERATOR_PROJECT_ID) return done();
  const { operationId = '' } = request.routeOptions.schema ?? {};
  if (isFromLocalOperator(request) && LOCAL_OPERATOR_OPERATIONS.has(operationId)) return done();
  refuse(reply, { refused: 'authorization_error', message: OPERATORS_ONLY });
};

const isForOperators = ({ schema }: Pick<RouteOptions, 'schema'>): boolean =>
  OPERATOR_KEY_OPERATIONS.has(schema?.operationId ?? '');

const needsCaller = (access: Access) => access === 'full_access' || access === 'any_key';

type Identities = { sessions: Sessions; needsKey: onRequestHookHandler; services: HttpServices };

/** Returns the checks of the caller: admits the operator of this machine, and checks all others by `elsewhere`. */
function identity(
  route: Pick<RouteOptions, 'config' | 'schema'>,
  { services, ...identities }: Identities,
): onRequestHookHandler[] {
  const { access = 'full_access', limit } = route.config ?? {};
  if (access === 'public') return [];
  if (access === 'sign_in') return [identities.sessions.onlyFromHere];
  // The audit log does not record operations without a role, so these take a key even on the admin socket.
  if (!LEAST_ROLES.has(route.schema?.operationId ?? '')) return elsewhere(route, identities);
  const sends = limit === 'sending';
  const operator = admitOperator(services, { sends, needsProject: access !== 'session' });
  const others = elsewhere(route, identities).map((check) =>
    when(isFromLocalOperator, pass, check),
  );
  return [when(isFromLocalOperator, operator, pass), ...others];
}

/** Requires a key, or a session if the operation has a role (roles.ts). */
function elsewhere(
  { config = {}, schema }: Pick<RouteOptions, 'config' | 'schema'>,
  { sessions, needsKey }: Omit<Identities, 'services'>,
): onRequestHookHandler[] {
  const { access = 'full_access', limit } = config;
  const least = LEAST_ROLES.get(schema?.operationId ?? '');
  const inSession = least && sessions.require(least, { sends: limit === 'sending' });
  if (access === 'session') {
    if (inSession === undefined) throw new Error(`${schema?.operationId} has no role`);
    const isByKey: IsMeant = ({ headers }) => headers.authorization !== undefined;
    return [when(isByKey, needsKey, pass), sessions.onlySessions, inSession];
  }
  if (inSession === undefined) return [needsKey];
  const orKey = when((request) => sessions.isMeant(request), inSession, needsKey);
  const isSignedOut: IsMeant = (request) => sessions.isOfSignedOutPage(request);
  return [when(isSignedOut, sessions.refuseSignedOut, orKey)];
}

type IsMeant = (request: FastifyRequest) => boolean;

function when(
  isMeant: IsMeant,
  then: onRequestHookHandler,
  otherwise: onRequestHookHandler,
): onRequestHookHandler {
  return function either(request, reply, done) {
    const check = isMeant(request) ? then : otherwise;
    return check.call(this, request, reply, done);
  };
}

const pass: onRequestHookHandler = (_request, _reply, done) => done();

/** Refuses a body by its size and encoding, before it is read. The body of a GET is ignored. */
const refuseBody: onRequestHookHandler = (request, reply, done) => {
  const { headers, method, routeOptions } = request;
  if (method === 'GET' || method === 'HEAD') return done();
  if (Number(headers['content-length']) > BODY_MAX_BYTES) return void sendProblem(reply, TOO_LARGE);
  if (routeOptions.config.takesAnyBody !== true && refusesEncoding(request, reply)) return;
  done();
};

const emptyBodyIsObject: preValidationHookHandler = (request, _reply, done) => {
  request.body ??= {};
  done();
};
