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
import { includesRole, type Role } from '../../core/roles.ts';
import { type Caller, type Environment, ENVIRONMENTS, type Scope } from '../../core/scope.ts';
import { clientOf, networkOf } from '../../net/addresses.ts';
import { isId } from '../../database/ids.ts';
import { keyOfMember } from '../keys/key-store.ts';
import type { Queryable } from '../../database/database.ts';
import {
  findSession,
  findSessionById,
  replaceToken,
  SESSION_DAYS,
  type SessionState,
  touchSession,
  type Wanted,
} from './session-store.ts';
import type { SecondFactor } from '../sign-in/second-factor.ts';
import type { Origin, SignIn } from '../sign-in/sign-in.ts';
import type { Connections } from '../../http/socket/client-connections.ts';
import { malformed, refuse, sendProblem } from '../../http/errors.ts';
import type { HttpServices } from '../../http/services.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set after the session was checked; null for a request with a key. */
    session: SessionState | null;
  }
  interface FastifyInstance {
    /**
     * Returns a function that looks up the caller of this request again, uncached. It returns null when the key was
     * revoked or has expired, or the session has ended.
     */
    createCallerLookup(request: FastifyRequest): () => Promise<Caller | null>;
    sessions: Sessions;
    signIn: SignIn;
    secondFactor: SecondFactor;
  }
}

/** `security` of routes that need a session, in the OpenAPI document. */
export const BY_SESSION = [{ sessionCookie: [] }];

const COOKIE = 'letterhaus_session';
/** Marks a browser in which a member signed in before (accounts/sign-in/devices.ts). */
const DEVICE_COOKIE = 'letterhaus_device';
const DEVICE_S = 365 * 86_400;
/** Header that the dashboard's scripts set on every change. */
const PROOF_HEADER = 'letterhaus-session';
/** Headers that the dashboard's scripts set on requests about a project, and on changes. */
const PAGE_HEADERS = ['letterhaus-project', PROOF_HEADER] as const;
const SESSION_S = SESSION_DAYS * 86_400;
const USER_AGENT_MAX = 200;

const SIGN_IN: Refusal = {
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
const FOREIGN: Refusal = {
  refused: 'authorization_error',
  message:
    'A change in a session has to come from the dashboard itself, with the header Letterhaus-Session: 1.',
};

type Options = Pick<HttpServices, 'config' | 'localUrl' | 'log' | 'secrets'> & {
  db: Queryable;
  limiter: AuthLimiter;
  connections: Connections;
};

export class Sessions {
  readonly #options: Options;
  readonly #signed: SignedText;
  readonly #isSecure: boolean;
  readonly #cookie: string;
  readonly #deviceCookie: string;

  constructor(options: Options) {
    this.#options = options;
    const { config, localUrl, secrets } = options;
    this.#signed = new SignedText(secrets, 'session cookie');
    this.#isSecure = /^https:/i.test(config.publicUrl ?? localUrl);
    // Browsers accept a name with this prefix only from this host itself, for all paths, over TLS.
    const prefix = this.#isSecure ? '__Host-' : '';
    this.#cookie = `${prefix}${COOKIE}`;
    this.#deviceCookie = `${prefix}${DEVICE_COOKIE}`;
  }

  isMeant(request: FastifyRequest): boolean {
    return request.headers.authorization === undefined && this.#cookieOf(request) !== null;
  }

  /**
   * Returns whether the request comes from a page of the dashboard that lost its cookie when its browser was
   * signed out. It guesses nothing, so it does not count as a failure and is answered without the database.
   */
  isOfSignedOutPage(request: FastifyRequest): boolean {
    const { headers } = request;
    if (headers.authorization !== undefined || this.#cookieOf(request) !== null) return false;
    return PAGE_HEADERS.some((name) => headers[name] !== undefined);
  }

  tokenOf(request: FastifyRequest): Buffer | null {
    const [token = ''] = this.#cookieOf(request)?.split('.') ?? [];
    return parseToken(token);
  }

  begin(reply: FastifyReply, token: string): void {
    this.#setCookie(reply, { name: this.#cookie, value: this.#signed.sign(token) }, SESSION_S);
  }

  end(reply: FastifyReply): void {
    this.#setCookie(reply, { name: this.#cookie, value: '' }, 0);
  }

  remember(reply: FastifyReply, device: string): void {
    this.#setCookie(reply, { name: this.#deviceCookie, value: device }, DEVICE_S);
  }

  /** Returns the network, browser and device cookie of a request. The full address is not recorded. */
  originOf(request: FastifyRequest): Origin {
    const { ip, headers } = request;
    const userAgent = headers['user-agent']?.slice(0, USER_AGENT_MAX) ?? null;
    const device = this.#cookieOf(request, this.#deviceCookie);
    return { client: clientOf(ip), network: networkOf(ip), userAgent, device };
  }

  /** Requires a session with this role or one above it. `sends`: the caller gets the key that accepting checks. */
  require(least: Role, { sends }: { sends: boolean }): onRequestHookHandler {
    return (request, reply, done) => {
      this.#check(request, reply, { least, sends }).then((mayPass) => {
        if (mayPass) done();
      }, done);
    };
  }

  /** Refuses requests without a session, before `require`. A request without a cookie causes no query. */
  readonly onlySessions: onRequestHookHandler = (request, reply, done) => {
    if (request.caller !== null) return void refuse(reply, NEEDS_SESSION);
    if (this.isMeant(request)) return done();
    refuse(reply, this.isOfSignedOutPage(request) ? SIGNED_OUT : SIGN_IN);
  };

  readonly refuseSignedOut: onRequestHookHandler = (_request, reply) => {
    refuse(reply, SIGNED_OUT);
  };

  /** Refuses changes that another site could have caused, including requests that begin a session. */
  readonly onlyFromHere: onRequestHookHandler = (request, reply, done) => {
    if (this.#isFromHere(request)) return done();
    refuse(reply, FOREIGN);
  };

  /** Returns the same caller while the session exists. For connections that stay open. */
  async findAgain(id: string, { projectId, environment }: Scope): Promise<Caller | null> {
    const state = await findSessionById(this.#options.db, id, { projectId, environment });
    return state && callerIn(state, environment);
  }

  async #check(
    request: FastifyRequest,
    reply: FastifyReply,
    { least, sends }: { least: Role; sends: boolean },
  ): Promise<boolean> {
    const wanted = wantedBy(request, reply);
    if (wanted === null) return false;
    const { db } = this.#options;
    const sha256 = this.tokenOf(request);
    const state = sha256 && (await findSession(db, sha256, wanted));
    if (sha256 === null || state === null) {
      await this.#refuseUnknown(request, reply);
      return false;
    }
    const { environment } = wanted;
    const refusal = this.#refusalOf(request, state, { least, wanted });
    if (refusal !== null) {
      refuse(reply, refusal);
      return false;
    }
    if (state.isUnseen || state.isFirstUse) await touchSession(db, state.id, sha256);
    if (state.mayReplace) await this.#replaceToken(reply, state.id, sha256);
    request.session = state;
    request.caller = callerIn(state, environment);
    if (sends && request.caller !== null && state.keyId === null) {
      const { memberId: id, name } = state;
      request.caller.keyId = await keyOfMember(db, request.caller, { id, name });
    }
    const { connections } = this.#options;
    connections.know(request.raw.socket, state.projectId ?? state.organizationId);
    return true;
  }

  #refusalOf(
    request: FastifyRequest,
    state: SessionState,
    { least, wanted }: { least: Role; wanted: Wanted },
  ): Refusal | null {
    if (!changesNothing(request) && !this.#isFromHere(request)) return FOREIGN;
    if (!includesRole(state.role, least)) return lacksRole(state.role, least);
    const needsProject = request.routeOptions.config.access !== 'session';
    const lacksProject = state.projectId === null && (needsProject || wanted.projectId !== null);
    return lacksProject ? NO_PROJECT : null;
  }

  /**
   * Refuses a cookie without a session and removes it, so that a browser sends it only once. A cookie that was signed
   * here belongs to a session that has ended, which is no failure. A forged cookie counts like a wrong key.
   */
  async #refuseUnknown(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    this.end(reply);
    if (this.#signed.read(this.#cookieOf(request) ?? '') !== null) {
      refuse(reply, SIGNED_OUT);
      return;
    }
    const { allowed, limit } = await this.#options.limiter.count(clientOf(request.ip));
    request.refusedLogIn = { way: 'session', result: allowed ? 'refused' : 'limited' };
    refuse(reply, allowed ? { ...SIGN_IN, limit } : limitRefusal('auth', limit));
  }

  async #replaceToken(reply: FastifyReply, id: string, before: Buffer): Promise<void> {
    const { text, sha256: after } = makeToken();
    if (await replaceToken(this.#options.db, id, { before, after })) this.begin(reply, text);
  }

  #isFromHere({ headers, host, protocol }: FastifyRequest): boolean {
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

  #cookieOf({ headers }: FastifyRequest, wanted = this.#cookie): string | null {
    for (const pair of headers.cookie?.split(';') ?? []) {
      const [name = '', value = ''] = pair.split('=', 2);
      if (name.trim() === wanted) return value.trim() || null;
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

const NO_PROJECT = noSuch('project');

/** Returns the session of a route that requires one. @throws on other routes */
export function sessionOf(request: FastifyRequest): SessionState {
  if (request.session === null) throw new Error('this route has no session');
  return request.session;
}

export function changesNothing({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

function wantedBy({ headers }: FastifyRequest, reply: FastifyReply): Wanted | null {
  const { 'letterhaus-project': projectId, 'letterhaus-environment': environment = 'test' } =
    headers;
  const known = ENVIRONMENTS.find((one) => one === environment);
  if (known === undefined) {
    sendProblem(reply, malformed('Letterhaus-Environment: write live or test.'));
    return null;
  }
  if (projectId === undefined) return { projectId: null, environment: known };
  if (typeof projectId === 'string' && isId(projectId)) return { projectId, environment: known };
  refuse(reply, NO_PROJECT);
  return null;
}

/** Returns null without a project. Without a key, `keyId` is the member's id: only accepting needs a key. */
function callerIn(state: SessionState, environment: Environment): Caller | null {
  const { projectId, organizationId, keyId, memberId } = state;
  if (projectId === null) return null;
  return {
    projectId,
    environment,
    organizationId,
    keyId: keyId ?? memberId,
    permission: 'full_access',
    domain: null,
    expiresAt: null,
  };
}

function lacksRole(role: Role, least: Role): Refusal {
  const message = `Your role is ${role}, and this needs the role ${least}; ask an owner or an admin.`;
  return { refused: 'authorization_error', message };
}
