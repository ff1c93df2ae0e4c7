/**
 * Sessions over HTTP: sets and checks the cookie, checks that a change comes from the dashboard itself, and finds the
 * caller of a request with a session.
 *
 * A request with `Authorization` ignores the cookie. The browser sends the cookie from this site only
 * (SameSite=Strict). A change also needs a header that only a script of this origin can add, and the browser's own
 * statement of the request's origin. CORS stays closed.
 */
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import type { AuthLimiter } from '../keys/auth-limiter.ts';
import { SignedText } from '../sign-in/signed-text.ts';
import { makeToken, parseToken } from '../sign-in/tokens.ts';
import { limitRefusal } from '../../core/limits.ts';
import { type Refusal, noSuch } from '../../core/refusals.ts';
import { includesRole, type Role } from '../../core/member-roles.ts';
import {
  ALLOW_ALL,
  type Caller,
  type Environment,
  ENVIRONMENTS,
  type Scope,
} from '../../core/scope.ts';
import { ENROLMENT_OPERATIONS } from '../../http/roles.ts';
import { clientOf, networkOf } from '../../net/ip-addresses.ts';
import { isId } from '../../database/ids.ts';
import { findOrCreateMemberKey } from '../keys/key-store.ts';
import type { Config } from '../../config/config.ts';
import type { Queryable } from '../../database/database.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import {
  findSession,
  findSessionById,
  replaceToken,
  SESSION_DAYS,
  type SessionState,
  touchSession,
  type RequestedScope,
} from './session-store.ts';
import type { Origin } from '../sign-in/sign-in.ts';
import {
  type HttpFailure,
  failureOfRefusal,
  refuse,
  sendFailure,
  WRONG_ENVIRONMENT,
} from '../../http/errors.ts';
import { ORGANIZATION_OPERATIONS } from '../../http/roles.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set after the session was checked; null for a request with a key. */
    session: SessionState | null;
  }
}

/** `security` of routes that need a session, in the OpenAPI document. */
export const BY_SESSION = [{ sessionCookie: [] }];

const COOKIE = 'letterhaus_session';
/** Marks a browser in which a member signed in before (accounts/sign-in/devices.ts). */
const DEVICE_COOKIE = 'letterhaus_device';
const DEVICE_S = 365 * 86_400;
/** Remembers a sign-in in progress (accounts/progress/sealed-text.ts). */
const PROGRESS_COOKIE = 'letterhaus_sign_in';
const PROGRESS_S = 600;
/** Header that the dashboard's scripts set on every change. */
const PROOF_HEADER = 'letterhaus-session';
/** Headers that the dashboard's scripts set on requests about a project, and on changes. */
const PAGE_HEADERS = ['letterhaus-project', PROOF_HEADER] as const;
const SESSION_S = SESSION_DAYS * 86_400;
const USER_AGENT_MAX = 200;

const NOT_SIGNED_IN: Refusal = {
  refused: 'authentication_error',
  message: 'You are not signed in. Sign in first.',
};
const SIGNED_OUT: Refusal = {
  refused: 'authentication_error',
  message: 'You have been signed out. Sign in again.',
};
const NEEDS_SESSION: Refusal = {
  refused: 'authorization_error',
  message: 'Only members signed in to the dashboard can do this, not API keys.',
};
const MUST_ENROL: Refusal = {
  refused: 'authorization_error',
  message: 'This installation requires a second factor. Set up yours in the dashboard first.',
};
const OTHER_ORIGIN: Refusal = {
  refused: 'authorization_error',
  message:
    'A change in a session has to come from the dashboard itself, with the header Letterhaus-Session: 1.',
};

const NO_PROJECT = noSuch('project');

type SessionsOptions = {
  db: Queryable;
  limiter: AuthLimiter;
  secrets: SecretBox;
  config: Pick<Config, 'publicUrl'>;
  localUrl: string;
};

type RequiredRole = {
  leastRole: Role;
  needsSendingKey: boolean;
  onAdmitted: (request: FastifyRequest) => void;
};

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #signed: SignedText;
  readonly #isSecure: boolean;
  readonly #cookie: string;
  readonly #deviceCookie: string;
  readonly #progressCookie: string;

  constructor(options: SessionsOptions) {
    this.#options = options;
    const { config, localUrl, secrets } = options;
    this.#signed = new SignedText(secrets, 'session cookie');
    this.#isSecure = /^https:/i.test(config.publicUrl ?? localUrl);
    // Browsers accept a name with this prefix only from this host itself, for all paths, over TLS.
    const prefix = this.#isSecure ? '__Host-' : '';
    this.#cookie = `${prefix}${COOKIE}`;
    this.#deviceCookie = `${prefix}${DEVICE_COOKIE}`;
    this.#progressCookie = `${prefix}${PROGRESS_COOKIE}`;
  }

  hasSessionCookie(request: FastifyRequest): boolean {
    return request.headers.authorization === undefined && this.#cookieOf(request) !== null;
  }

  /**
   * Returns whether the request comes from a page of the dashboard that lost its cookie when its browser was
   * signed out. It guesses nothing, so it does not count as a failure, and its refusal needs no database.
   */
  isFromSignedOutPage(request: FastifyRequest): boolean {
    const { headers } = request;
    if (headers.authorization !== undefined || this.#cookieOf(request) !== null) return false;
    return PAGE_HEADERS.some((name) => headers[name] !== undefined);
  }

  readToken(request: FastifyRequest): Buffer | null {
    const [token = ''] = this.#cookieOf(request)?.split('.') ?? [];
    return parseToken(token);
  }

  setSessionCookie(reply: FastifyReply, token: string): void {
    this.#setCookie(reply, { name: this.#cookie, value: this.#signed.sign(token) }, SESSION_S);
  }

  clearSessionCookie(reply: FastifyReply): void {
    this.#setCookie(reply, { name: this.#cookie, value: '' }, 0);
  }

  setDeviceCookie(reply: FastifyReply, device: string): void {
    this.#setCookie(reply, { name: this.#deviceCookie, value: device }, DEVICE_S);
  }

  /** @param progress null removes the cookie */
  setProgressCookie(reply: FastifyReply, progress: string | null): void {
    const maxAgeS = progress === null ? 0 : PROGRESS_S;
    this.#setCookie(reply, { name: this.#progressCookie, value: progress ?? '' }, maxAgeS);
  }

  readProgress(request: FastifyRequest): string | null {
    return this.#cookieOf(request, this.#progressCookie);
  }

  /** Returns the network, browser and device cookie of a request. The full address is not recorded. */
  originOf(request: FastifyRequest): Origin {
    const { ip, headers } = request;
    const userAgent = headers['user-agent']?.slice(0, USER_AGENT_MAX) ?? null;
    const device = this.#cookieOf(request, this.#deviceCookie);
    return { client: clientOf(ip), network: networkOf(ip), userAgent, device };
  }

  /**
   * Requires a session with this role or one above it. With `needsSendingKey`, the caller gets the key that accepting
   * checks.
   */
  requireRole(required: RequiredRole): onRequestHookHandler {
    return (request, reply, done) => {
      this.#check(request, reply, required).then((isAdmitted) => {
        if (isAdmitted) done();
      }, done);
    };
  }

  /** Refuses requests without a session, before `requireRole`. A request without a cookie causes no query. */
  readonly requireSession: onRequestHookHandler = (request, reply, done) => {
    if (request.caller !== null) return void refuse(reply, NEEDS_SESSION);
    if (this.hasSessionCookie(request)) return done();
    refuse(reply, this.isFromSignedOutPage(request) ? SIGNED_OUT : NOT_SIGNED_IN);
  };

  readonly refuseSignedOut: onRequestHookHandler = (_request, reply) => {
    refuse(reply, SIGNED_OUT);
  };

  /** Refuses changes that another site could have caused, including requests that begin a session. */
  readonly requireSameOrigin: onRequestHookHandler = (request, reply, done) => {
    if (this.#isSameOrigin(request)) return done();
    refuse(reply, OTHER_ORIGIN);
  };

  /** Returns the same caller while the session exists. For connections that stay open. */
  async findCaller(id: string, { projectId, environment }: Scope): Promise<Caller | null> {
    const session = await findSessionById(this.#options.db, id, { projectId, environment });
    return session && !session.mustEnrol ? callerOfSession(session, environment) : null;
  }

  async #check(
    request: FastifyRequest,
    reply: FastifyReply,
    { leastRole, needsSendingKey, onAdmitted }: RequiredRole,
  ): Promise<boolean> {
    const scope = readRequestedScope(request);
    if ('failure' in scope) {
      sendFailure(reply, scope.failure);
      return false;
    }
    const { db } = this.#options;
    const sha256 = this.readToken(request);
    const session = sha256 && (await findSession(db, sha256, scope));
    if (sha256 === null || session === null) {
      await this.#refuseUnknown(request, reply);
      return false;
    }
    const { environment } = scope;
    const refusal = this.#refusalOf(request, session, { leastRole, scope });
    if (refusal !== null) {
      refuse(reply, refusal);
      return false;
    }
    if (session.isUnseen || session.isFirstUse) await touchSession(db, session.id, sha256);
    if (session.mayReplace) await this.#replaceToken(reply, session.id, sha256);
    request.session = session;
    request.caller = callerOfSession(session, environment);
    if (needsSendingKey && request.caller !== null && session.keyId === null) {
      const { memberId: id, name } = session;
      request.caller.keyId = await findOrCreateMemberKey(db, request.caller, { id, name });
    }
    onAdmitted(request);
    return true;
  }

  #refusalOf(
    request: FastifyRequest,
    session: SessionState,
    { leastRole, scope }: { leastRole: Role; scope: RequestedScope },
  ): Refusal | null {
    if (!isReadOnly(request) && !this.#isSameOrigin(request)) return OTHER_ORIGIN;
    const { config, schema } = request.routeOptions;
    const operationId = schema?.operationId ?? '';
    if (session.mustEnrol && !ENROLMENT_OPERATIONS.has(operationId)) return MUST_ENROL;
    const needsProject = config.access !== 'session';
    const lacksProject = session.projectId === null && (needsProject || scope.projectId !== null);
    if (lacksProject) return NO_PROJECT;
    const isOfOrganization = ORGANIZATION_OPERATIONS.has(operationId);
    const role = isOfOrganization ? session.role : roleInProject(session);
    return includesRole(role, leastRole) ? null : refuseRole(role, leastRole);
  }

  /**
   * Refuses a cookie without a session and removes it, so that a browser sends it only once. A cookie that was signed
   * here belongs to a session that has ended, which is no failure. A forged cookie counts like a wrong key.
   */
  async #refuseUnknown(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    this.clearSessionCookie(reply);
    if (this.#signed.read(this.#cookieOf(request) ?? '') !== null) {
      refuse(reply, SIGNED_OUT);
      return;
    }
    const { allowed, limit } = await this.#options.limiter.count(clientOf(request.ip));
    request.refusedLogIn = { way: 'session', result: allowed ? 'refused' : 'limited' };
    refuse(reply, allowed ? { ...NOT_SIGNED_IN, limit } : limitRefusal('auth', limit));
  }

  async #replaceToken(reply: FastifyReply, id: string, before: Buffer): Promise<void> {
    const { text, sha256: after } = makeToken();
    if (await replaceToken(this.#options.db, id, { before, after }))
      this.setSessionCookie(reply, text);
  }

  #isSameOrigin({ headers, host, protocol }: FastifyRequest): boolean {
    if (headers[PROOF_HEADER] !== '1') return false;
    const site = headers['sec-fetch-site'];
    if (site !== undefined) return site === 'same-origin' || site === 'none';
    const { publicUrl } = this.#options.config;
    const own = [
      `${protocol}://${host}`,
      ...(publicUrl === null ? [] : [new URL(publicUrl).origin]),
    ];
    return headers.origin !== undefined && own.includes(headers.origin.toLowerCase());
  }

  #cookieOf({ headers }: FastifyRequest, cookieName = this.#cookie): string | null {
    for (const pair of headers.cookie?.split(';') ?? []) {
      const [name = '', value = ''] = pair.split('=', 2);
      if (name.trim() === cookieName) return value.trim() || null;
    }
    return null;
  }

  #setCookie(
    reply: FastifyReply,
    { name, value }: { name: string; value: string },
    maxAgeS: number,
  ): void {
    const secure = this.#isSecure ? '; Secure' : '';
    reply.header(
      'set-cookie',
      `${name}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Strict${secure}`,
    );
    reply.header('cache-control', 'no-store');
  }
}

/**
 * Returns the session of a route that requires one.
 * @throws on other routes
 */
export function sessionOf(request: FastifyRequest): SessionState {
  if (request.session === null) throw new Error('this route has no session');
  return request.session;
}

export function isReadOnly({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

function readRequestedScope({
  headers,
}: FastifyRequest): RequestedScope | { failure: HttpFailure } {
  const { 'letterhaus-project': projectId, 'letterhaus-environment': environment = 'test' } =
    headers;
  const known = ENVIRONMENTS.find((name) => name === environment);
  if (known === undefined) return { failure: WRONG_ENVIRONMENT };
  if (projectId === undefined) return { projectId: null, environment: known };
  if (typeof projectId === 'string' && isId(projectId)) return { projectId, environment: known };
  return { failure: failureOfRefusal(NO_PROJECT) };
}

/** Returns null without a project. Without a key, `keyId` is the member's id: only accepting needs a key. */
function callerOfSession(session: SessionState, environment: Environment): Caller | null {
  const { projectId, organizationId, keyId, memberId } = session;
  if (projectId === null) return null;
  return {
    projectId,
    environment,
    organizationId,
    keyId: keyId ?? memberId,
    permission: 'full_access',
    domain: null,
    expiresAt: null,
    ...ALLOW_ALL,
  };
}

/** Returns the role in the project of the session, which the session can see. */
function roleInProject({ role, projectRoles, projectId }: SessionState): Role {
  return projectRoles?.[projectId ?? ''] ?? role;
}

function refuseRole(role: Role, leastRole: Role): Refusal {
  const message = `Your role is ${role}, and this needs the role ${leastRole}; ask an owner or an admin.`;
  return { refused: 'authorization_error', message };
}
