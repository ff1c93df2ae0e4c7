/**
 * Serves the operator of this machine. Requests come in by the admin socket, which only the user of the service can
 * reach (service/admin-socket.ts), and need no key. The operator may do everything that an owner may, in each
 * project. The audit log records the changes as made by a command.
 *
 * `Letterhaus-Project` is the id or the name of a project, escaped as in a URL. Without it, the service takes the
 * project of the id in the path, else the only project. `*` is for requests about all projects.
 * `Letterhaus-Environment` is `live` or `test`.
 */
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import {
  ALLOW_ALL,
  type Caller,
  type Environment,
  ENVIRONMENTS,
  type Scope,
} from '../../core/scope.ts';
import { isId } from '../../database/ids.ts';
import { createKey, removeShortLivedKey } from '../../accounts/keys/key-store.ts';
import {
  findOrganization,
  findResponsibleOrganization,
} from '../../accounts/members/member-store.ts';
import type { Queryable } from '../../database/database.ts';
import { chooseProject } from '../../accounts/projects/project-choice-store.ts';
import {
  findProject,
  listAllProjects,
  type OwnedTable,
  findScopeOfId,
  type Project,
} from '../../accounts/projects/project-store.ts';
import type { SessionState } from '../../accounts/sessions/session-store.ts';
import { isRefusal, noSuch, type Refusal } from '../../core/refusals.ts';
import { type HttpFailure, failureOfRefusal, sendFailure, WRONG_ENVIRONMENT } from '../errors.ts';
import { markAdminSocket, NOBODY_ID } from './local-operator.ts';
import { OWN_SESSION_OPERATIONS } from '../roles.ts';
import type { App, HttpServices } from '../services.ts';

// An import would evaluate every export of node:http, which is slow (http/socket/raw-responses.ts).
const { createServer } = process.getBuiltinModule('node:http');

/** Milliseconds that requests in progress may take when the service stops. */
const CLOSE_WITHIN_MS = 10_000;
/** Longer than any request takes. */
const KEY_VALID_MS = 5 * 60_000;

/** Stands for a project in requests about a whole organization. */
const ALL_PROJECTS = '*';

/** The tables of objects that a path names by their id, by the segment of the path. */
const TABLES_BY_NOUN: ReadonlyMap<string, { table: OwnedTable; noun: string }> = new Map<
  string,
  { table: OwnedTable; noun: string }
>([
  ['emails', { table: 'emails', noun: 'email' }],
  ['api-keys', { table: 'api_keys', noun: 'API key' }],
  ['domains', { table: 'domains', noun: 'domain' }],
  ['webhooks', { table: 'webhook_endpoints', noun: 'webhook' }],
]);

const NO_MEMBER: Refusal = {
  refused: 'authorization_error',
  message: 'This concerns the session of a member: sign in to the dashboard.',
};

/** Serves the routes of the app on the socket. Returns a function that stops it. */
export async function listenOnAdminSocket(app: App, path: string): Promise<() => Promise<void>> {
  // No time limit, because an operator may import a file of any size.
  const options = { requireHostHeader: false, requestTimeout: 0 };
  const server = createServer(options, (request, response) => app.routing(request, response));
  server.on('connection', (socket) => {
    markAdminSocket(socket);
    // Limits per client and the log need an address, and a unix socket has none.
    Object.defineProperty(socket, 'remoteAddress', { value: '127.0.0.1' });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path }, resolve);
  });
  return async () => {
    const closeTimer = setTimeout(() => server.closeAllConnections(), CLOSE_WITHIN_MS);
    await new Promise((resolve) => server.close(resolve));
    clearTimeout(closeTimer);
  };
}

type RequestedScope = { project: string | undefined; environment: Environment | null };

type ChosenScope = { project: Project; environment: Environment };

/**
 * Admits the operator of this machine with the session of an owner. With `needsSendingKey`, creates the key to send
 * with.
 */
export function admitOperator(
  { db, world }: Pick<HttpServices, 'db' | 'world'>,
  { needsSendingKey, needsProject }: { needsSendingKey: boolean; needsProject: boolean },
): onRequestHookHandler {
  const admit = async (request: FastifyRequest, reply: FastifyReply): Promise<boolean> => {
    const found = await findOperatorScope(db, request, needsProject);
    if ('failure' in found) {
      sendFailure(reply, found.failure);
      return false;
    }
    const { organizationId, chosen } = found;
    request.session = operatorSession(organizationId, chosen);
    request.caller = chosen && operatorCaller(chosen);
    if (chosen !== null) reply.headers(scopeHeaders(chosen));
    if (needsSendingKey && request.caller !== null) {
      request.caller.keyId = await createKeyForRequest(db, request.caller, { world, reply });
    }
    return true;
  };
  return (request, reply, done) => {
    admit(request, reply).then((isAdmitted) => {
      if (isAdmitted) done();
    }, done);
  };
}

type OperatorScope = { organizationId: string; chosen: ChosenScope | null };

/** Finds the organization, and the project unless the request concerns the whole installation. */
async function findOperatorScope(
  db: Queryable,
  request: FastifyRequest,
  needsProject: boolean,
): Promise<OperatorScope | { failure: HttpFailure }> {
  const requested = readRequestedScope(request);
  if (requested === null) return { failure: WRONG_ENVIRONMENT };
  const { operationId = '' } = request.routeOptions.schema ?? {};
  if (OWN_SESSION_OPERATIONS.has(operationId)) return { failure: failureOfRefusal(NO_MEMBER) };
  const isOfProject = needsProject || requested.project !== undefined;
  const chosen = isOfProject ? await chooseScope(db, request, requested) : null;
  if (chosen !== null && isRefusal(chosen)) return { failure: failureOfRefusal(chosen) };
  const organizationId = chosen
    ? await findResponsibleOrganization(db, chosen.project.organizationId)
    : await findOrganization(db);
  if (organizationId === null) return { failure: failureOfRefusal(noSuch('project')) };
  return { organizationId, chosen };
}

/** Returns null when the environment is neither live nor test. */
function readRequestedScope({ headers }: FastifyRequest): RequestedScope | null {
  const { 'letterhaus-project': project, 'letterhaus-environment': environment } = headers;
  const known = ENVIRONMENTS.find((name) => name === environment) ?? null;
  if (environment !== undefined && known === null) return null;
  return {
    project: project === undefined ? project : decodeHeader(String(project)),
    environment: known,
  };
}

function decodeHeader(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Takes a missing project or environment from the object in the path: ids are unique across projects. */
async function chooseScope(
  db: Queryable,
  request: FastifyRequest,
  { project: name, environment }: RequestedScope,
): Promise<ChosenScope | Refusal> {
  const { url = '', schema } = request.routeOptions;
  if (name === ALL_PROJECTS || schema?.operationId === 'listProjects') {
    const [project] = await listAllProjects(db);
    if (project !== undefined) return { project, environment: environment ?? 'live' };
  }
  const [, noun = ''] = /^\/v1\/([^/]+)\/:id\b/.exec(url) ?? [];
  const named = TABLES_BY_NOUN.get(noun);
  const { id = '' } = request.params as { id?: string };
  const owner = named !== undefined && isId(id) ? await findScopeOfId(db, named.table, id) : null;
  const project =
    owner !== null && name === undefined
      ? await findProject(db, owner.projectId)
      : await chooseProject(db, name);
  if (typeof project === 'string' && (named === undefined || name !== undefined)) {
    return { refused: 'validation_error', message: project };
  }
  if (project === null || typeof project === 'string') return noSuch(named?.noun ?? 'project');
  const ownEnvironment = owner?.projectId === project.id ? owner.environment : null;
  return { project, environment: environment ?? ownEnvironment ?? 'live' };
}

/** Returns an owner's session without a member. It has no project if the request concerns the installation. */
function operatorSession(organizationId: string, chosen: ChosenScope | null): SessionState {
  const never = new Date(0);
  return {
    id: NOBODY_ID,
    createdAt: never,
    expiresAt: never,
    memberId: NOBODY_ID,
    organizationId,
    email: '',
    name: 'Operator',
    role: 'owner',
    projectRoles: null,
    totpEnabled: false,
    hasPassword: false,
    hasSecondFactor: false,
    mustEnrol: false,
    isNew: true,
    projectId: chosen?.project.id ?? null,
    keyId: null,
  };
}

/** Headers that name the chosen project and environment, for commands that did not choose. */
const scopeHeaders = ({ project, environment }: ChosenScope) => ({
  'letterhaus-project': project.id,
  'letterhaus-environment': environment,
});

function operatorCaller({ project, environment }: ChosenScope): Caller {
  return {
    projectId: project.id,
    environment,
    organizationId: project.organizationId,
    keyId: NOBODY_ID,
    permission: 'full_access',
    domain: null,
    expiresAt: null,
    ...ALLOW_ALL,
  };
}

/**
 * Creates a key for this one request, because accepting checks a key, and removes it afterwards. When the process dies
 * first, the key expires soon, and the next such request removes it.
 */
async function createKeyForRequest(
  db: Queryable,
  scope: Scope,
  { world, reply }: { world: Pick<HttpServices['world'], 'now'>; reply: FastifyReply },
): Promise<string> {
  const { key } = await createKey(db, scope, {
    name: 'letterhaus send',
    permission: 'sending_access',
    domain: null,
    expiresAt: new Date(world.now() + KEY_VALID_MS),
  });
  reply.raw.once('close', () => {
    removeShortLivedKey(db, scope, key).catch(() => {}); // it expires
  });
  return key.id;
}
