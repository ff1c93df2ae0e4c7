/**
 * Routes of sessions: sign in with a password or a one-time link, show who is signed in, sign out. These routes take
 * no key. Routes that begin a session respond like `GET /v1/session`.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { SignedIn, SignInRefusal } from '../sign-in/sign-in.ts';
import type { RefusedLogIn } from '../sign-in/refused-log-ins.ts';
import { isRefusal } from '../../core/refusals.ts';
import { isId } from '../../database/ids.ts';
import { hasOwner } from '../members/member-store.ts';
import { hasRoleIn } from '../../core/member-roles.ts';
import { findOrganizationName, listProjects } from '../projects/project-store.ts';
import {
  endSession,
  endSessions,
  findSession,
  findSessionById,
  listSessions,
  type SessionState,
} from './session-store.ts';
import { notFound, refuse } from '../../http/errors.ts';
import { failures, idParams } from '../../http/schemas.ts';
import {
  newOwner,
  ownSessionEnded,
  ownSessions,
  passwordChange,
  passwordChanged,
  passwordReset,
  session as sessionSchema,
  sessionEnded,
  sessionsEnded,
  setup,
  signIn,
} from './schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION, sessionOf } from './http-sessions.ts';

/** `security` of routes that need no session, in the OpenAPI document. */
const NO_SECURITY: never[] = [];
const TAGS = ['Session'];
const SIGN_IN_PATH = '/v1/session';
/** How a path signs in, for the log. All others use links. */
const WAYS: ReadonlyMap<string, RefusedLogIn['way']> = new Map([
  [SIGN_IN_PATH, 'password'],
  ['/v1/session/oidc', 'oidc'],
  ['/v1/session/passkey', 'passkey'],
]);

export function registerSessionRoutes(app: App, services: HttpServices): void {
  registerSignIn(app, services);
  registerLinks(app, services);
  registerGetSession(app, services);
  registerSignOut(app, services);
  registerChangePassword(app, services);
  registerListSessions(app, services);
  registerSignOutEverywhere(app, services);
  registerSignOutElsewhere(app, services);
}

function registerSignIn(app: App, services: HttpServices): void {
  const { db, accounts } = services;
  app.get('/v1/session/setup', {
    config: { access: 'public' },
    schema: {
      summary: 'Is there an owner?',
      description:
        'Returns whether the installation has an owner, and how members can sign in. The link that the first start ' +
        'printed creates the owner.',
      operationId: 'getSetup',
      tags: TAGS,
      security: NO_SECURITY,
      response: { 200: setup, ...failures() },
    },
    handler: async () => ({
      object: 'setup' as const,
      needs_owner: !(await hasOwner(db)),
      oidc: accounts.oidc === null ? null : { name: accounts.oidc.name },
      passkeys: accounts.passkeys.areAvailable,
    }),
  });

  app.post(SIGN_IN_PATH, {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Sign in',
      description:
        'Starts a session and sets its cookie. A 401 with the code `totp_required` means that the password ' +
        'is right and the member has a second factor. Repeat the request with `code`. Failed attempts are ' +
        'limited per address, per account and network, and per browser.',
      operationId: 'signIn',
      tags: TAGS,
      security: NO_SECURITY,
      body: signIn,
      response: { 200: sessionSchema, ...failures(400, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const origin = accounts.sessions.originOf(request);
      const signedIn = await accounts.signIn.byPassword(request.body, origin);
      return sendNewSession(signedIn, services, request, reply);
    },
  });
}

function registerLinks(app: App, services: HttpServices): void {
  const { accounts } = services;
  app.post('/v1/session/owner', {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Create the owner',
      description:
        'Creates the owner with the token of the link that the first start or `letterhaus owner link` ' +
        'printed. The token works once.',
      operationId: 'createOwner',
      tags: TAGS,
      security: NO_SECURITY,
      body: newOwner,
      response: { 200: sessionSchema, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const origin = accounts.sessions.originOf(request);
      const signedIn = await accounts.signIn.asFirstOwner(request.body, origin);
      return sendNewSession(signedIn, services, request, reply);
    },
  });

  app.post('/v1/session/reset', {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Set a new password with a link',
      description:
        'Sets a new password with the token of the link that `letterhaus owner reset` printed. Ends all ' +
        'other sessions of the member.',
      operationId: 'resetPassword',
      tags: TAGS,
      security: NO_SECURITY,
      body: passwordReset,
      response: { 200: sessionSchema, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const origin = accounts.sessions.originOf(request);
      const signedIn = await accounts.signIn.byNewPassword(request.body, origin);
      return sendNewSession(signedIn, services, request, reply);
    },
  });
}

function registerGetSession(app: App, services: HttpServices): void {
  app.get('/v1/session', {
    config: { access: 'session' },
    schema: {
      summary: 'Who is signed in?',
      description:
        'Returns the member of this session, and the projects in which the member has a role.',
      operationId: 'getSession',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: sessionSchema, ...failures(400, 404) },
    },
    handler: async (request, reply) => {
      reply.header('cache-control', 'no-store');
      return readSessionResponse(services, sessionOf(request));
    },
  });
}

function registerSignOut(app: App, { db, accounts }: HttpServices): void {
  app.delete('/v1/session', {
    config: { access: 'session' },
    schema: {
      summary: 'Sign out',
      description: 'Ends this session.',
      operationId: 'endSession',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: sessionEnded, ...failures(400, 404) },
    },
    handler: async (request, reply) => {
      const { id, memberId } = sessionOf(request);
      await endSession(db, memberId, id);
      accounts.sessions.clearSessionCookie(reply);
      return { object: 'session' as const, id, deleted: true as const };
    },
  });
}

function registerChangePassword(app: App, { accounts }: HttpServices): void {
  app.post('/v1/session/password', {
    config: { access: 'session' },
    schema: {
      summary: 'Change your password',
      description: 'Changes your password and ends your other sessions.',
      operationId: 'changePassword',
      tags: TAGS,
      security: BY_SESSION,
      body: passwordChange,
      response: { 200: passwordChanged, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id: sessionId, memberId } = sessionOf(request);
      const { current_password: currentPassword, password } = request.body;
      const changed = await accounts.signIn.changePassword(
        { memberId, sessionId },
        { currentPassword, password },
      );
      if (isRefusal(changed)) return refuse(reply, changed);
      accounts.sessions.setDeviceCookie(reply, changed.device);
      return { object: 'password' as const, changed: true as const };
    },
  });
}

function registerListSessions(app: App, { db }: HttpServices): void {
  app.get('/v1/session/all', {
    config: { access: 'session' },
    schema: {
      summary: 'List your sessions',
      description: 'Lists your sessions, newest first.',
      operationId: 'listSessions',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: ownSessions, ...failures(400, 404) },
    },
    handler: async (request) => {
      const { id: currentId, memberId } = sessionOf(request);
      const data = (await listSessions(db, memberId)).map((session) => ({
        object: 'session' as const,
        id: session.id,
        is_current: session.id === currentId,
        network: session.network,
        user_agent: session.userAgent,
        created_at: session.createdAt.toISOString(),
        last_used_at: session.lastUsedAt.toISOString(),
      }));
      return { object: 'list' as const, data, has_more: false };
    },
  });
}

function registerSignOutEverywhere(app: App, { db, accounts }: HttpServices): void {
  app.delete('/v1/session/all', {
    config: { access: 'session' },
    schema: {
      summary: 'Sign out everywhere',
      description: 'Ends all of your sessions, including this one.',
      operationId: 'endAllSessions',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: sessionsEnded, ...failures(400, 404) },
    },
    handler: async (request, reply) => {
      const count = await endSessions(db, sessionOf(request).memberId, null);
      accounts.sessions.clearSessionCookie(reply);
      return { object: 'session' as const, count, deleted: true as const };
    },
  });
}

function registerSignOutElsewhere(app: App, { db, accounts }: HttpServices): void {
  app.delete('/v1/session/all/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Sign out elsewhere',
      description: 'Ends one of your sessions.',
      operationId: 'endOwnSession',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('session'),
      response: { 200: ownSessionEnded, ...failures(400, 404) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { id: currentId, memberId } = sessionOf(request);
      if (!isId(id) || !(await endSession(db, memberId, id))) return notFound(reply, 'session');
      if (id === currentId) accounts.sessions.clearSessionCookie(reply);
      return { object: 'session' as const, id, deleted: true as const };
    },
  });
}

/** Sets the cookie of a new session, ends the browser's previous session, and sends the new one. */
export async function sendNewSession(
  signedIn: SignedIn | SignInRefusal,
  services: HttpServices,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  if (isRefusal(signedIn)) {
    request.refusedLogIn = refusedLogInOf(signedIn, request);
    return refuse(reply, signedIn);
  }
  const { db, accounts } = services;
  const { sessions } = accounts;
  const previousToken = sessions.readToken(request);
  const scope = { projectId: null, environment: 'test' } as const;
  const replaced = previousToken && (await findSession(db, previousToken, scope));
  if (replaced) await endSession(db, replaced.memberId, replaced.id);
  const state = await findSessionById(db, signedIn.sessionId, scope);
  // Another request ended the session meanwhile.
  if (state === null) return notFound(reply, 'session');
  sessions.setSessionCookie(reply, signedIn.token);
  sessions.setDeviceCookie(reply, signedIn.device);
  request.session = state; // for the audit log
  return reply.send(await readSessionResponse(services, state));
}

/** Returns null when nothing was guessed: the new password is too short, or the code is still missing. */
function refusedLogInOf(
  { refused }: SignInRefusal,
  { routeOptions, body }: FastifyRequest,
): FastifyRequest['refusedLogIn'] {
  const way = WAYS.get(routeOptions.url ?? '') ?? 'link';
  if (refused === 'rate_limit_error') return { way, result: 'limited' };
  const isGuess =
    refused === 'authentication_error' ||
    (refused === 'totp_required' && Boolean((body as { code?: string }).code?.trim()));
  return isGuess ? { way, result: 'refused' } : null;
}

async function readSessionResponse({ db }: HttpServices, state: SessionState) {
  const { id, memberId, email, name, role, projectRoles, organizationId } = state;
  const [organization, projects] = await Promise.all([
    findOrganizationName(db, organizationId),
    listProjects(db, organizationId),
  ]);
  return {
    object: 'session' as const,
    id,
    member: {
      id: memberId,
      email,
      name,
      role,
      has_password: state.hasPassword,
      has_all_projects: projectRoles === null,
    },
    organization: { id: organizationId, name: organization ?? '' },
    projects: projects
      .toReversed()
      .filter((project) => hasRoleIn(project.id, projectRoles))
      .map((project) => ({
        id: project.id,
        name: project.name,
        role: projectRoles?.[project.id] ?? role,
      })),
    environments: ['live' as const, 'test' as const],
    totp_enabled: state.totpEnabled,
    must_enrol: state.mustEnrol,
    created_at: state.createdAt.toISOString(),
    expires_at: state.expiresAt.toISOString(),
  };
}
