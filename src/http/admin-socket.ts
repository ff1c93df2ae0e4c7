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
import type { Refusal } from '../core/refusals.ts';
import { type Caller, type Environment, ENVIRONMENTS, type Scope } from '../core/scope.ts';
import { isId } from '../database/ids.ts';
import { createKey, removeShortLivedKey } from '../accounts/keys/key-store.ts';
import { findOrganization, findResponsibleOrganization } from '../accounts/members/member-store.ts';
import type { Queryable } from '../database/database.ts';
import { chooseProject } from '../accounts/projects/project-choice-store.ts';
import {
  findProject,
  listAllProjects,
  type Owned,
  ownerOf,
  type Project,
} from '../accounts/projects/project-store.ts';
import type { SessionState } from '../accounts/sessions/session-store.ts';
import { noSuch } from '../core/refusals.ts';
import { malformed, refuse, sendProblem } from './errors.ts';
import { markAdminSocket, NOBODY } from './local-operator.ts';
import { OWN_SESSION_OPERATIONS } from './roles.ts';
import type { App, HttpServices } from './services.ts';

// An import would evaluate every export of node:http, which is slow (http/socket/raw-responses.ts).
const { createServer } = process.getBuiltinModule('node:http');

/** Milliseconds that requests in progress may take when the service stops. */
const CLOSE_WITHIN_MS = 10_000;

/** Answers on the socket by the routes of the app. @returns a function that stops it */
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
    const cut = setTimeout(() => server.closeAllConnections(), CLOSE_WITHIN_MS);
    await new Promise((resolve) => server.close(resolve));
    clearTimeout(cut);
  };
}

type Wanted = { project: string | undefined; environment: Environment | null };

type Chosen = { project: Project; environment: Environment };

/** Admits the operator of this machine with the session of an owner. `sends`: the caller gets the key to send with. */
export function admitOperator(
  { db, world }: Pick<HttpServices, 'db' | 'world'>,
  { sends, needsProject }: { sends: boolean; needsProject: boolean },
): onRequestHookHandler {
  const admit = async (request: FastifyRequest, reply: FastifyReply): Promise<boolean> => {
    const wanted = wantedBy(request, reply);
    if (wanted === null) return false;
    if (OWN_SESSION_OPERATIONS.has(request.routeOptions.schema?.operationId ?? '')) {
      refuse(reply, NO_MEMBER);
      return false;
    }
    const isChosen = needsProject || wanted.project !== undefined;
    const chosen = isChosen ? await choose(db, request, wanted) : null;
    if (chosen !== null && 'refused' in chosen) {
      refuse(reply, chosen);
      return false;
    }
    const organizationId = chosen
      ? await findResponsibleOrganization(db, chosen.project.organizationId)
      : await findOrganization(db);
    if (organizationId === null) {
      refuse(reply, noSuch('project'));
      return false;
    }
    request.session = sessionIn(organizationId, chosen);
    request.caller = chosen && callerIn(chosen);
    if (chosen !== null) reply.headers(answered(chosen));
    if (sends && request.caller !== null) {
      request.caller.keyId = await keyForOne(db, request.caller, { world, reply });
    }
    return true;
  };
  return (request, reply, done) => {
    admit(request, reply).then((mayPass) => {
      if (mayPass) done();
    }, done);
  };
}

const NO_MEMBER: Refusal = {
  refused: 'authorization_error',
  message: 'This concerns the session of a member: sign in to the dashboard.',
};

function wantedBy({ headers }: FastifyRequest, reply: FastifyReply): Wanted | null {
  const { 'letterhaus-project': project, 'letterhaus-environment': environment } = headers;
  const known = ENVIRONMENTS.find((one) => one === environment) ?? null;
  if (environment === undefined || known !== null) {
    return {
      project: project === undefined ? project : unescaped(String(project)),
      environment: known,
    };
  }
  sendProblem(reply, malformed('Letterhaus-Environment: write live or test.'));
  return null;
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Stands for a project in requests about a whole organization. */
const EVERY = '*';

type Named = { table: Owned; noun: string };

const BY_ID: ReadonlyMap<string, Named> = new Map<string, Named>([
  ['emails', { table: 'emails', noun: 'email' }],
  ['api-keys', { table: 'api_keys', noun: 'API key' }],
  ['domains', { table: 'domains', noun: 'domain' }],
  ['webhooks', { table: 'webhook_endpoints', noun: 'webhook' }],
]);

/** Takes a missing project or environment from the object in the path: ids are unique across projects. */
async function choose(
  db: Queryable,
  request: FastifyRequest,
  { project: name, environment }: Wanted,
): Promise<Chosen | Refusal> {
  const { url = '', schema } = request.routeOptions;
  if (name === EVERY || schema?.operationId === 'listProjects') {
    const [project] = await listAllProjects(db);
    if (project !== undefined) return { project, environment: environment ?? 'live' };
  }
  const [, noun = ''] = /^\/v1\/([^/]+)\/:id\b/.exec(url) ?? [];
  const named = BY_ID.get(noun);
  const { id = '' } = request.params as { id?: string };
  const owner = named !== undefined && isId(id) ? await ownerOf(db, named.table, id) : null;
  const isOfOwner = owner !== null && name === undefined;
  const project = isOfOwner
    ? await findProject(db, owner.projectId)
    : await chooseProject(db, name);
  if (typeof project === 'string' && (named === undefined || name !== undefined)) {
    return { refused: 'validation_error', message: project };
  }
  if (project === null || typeof project === 'string') return noSuch(named?.noun ?? 'project');
  const ofId = owner?.projectId === project.id ? owner.environment : null;
  return { project, environment: environment ?? ofId ?? 'live' };
}

/** Returns an owner's session without a member. It has no project if the request concerns the installation. */
function sessionIn(organizationId: string, chosen: Chosen | null): SessionState {
  const never = new Date(0);
  return {
    id: NOBODY,
    createdAt: never,
    expiresAt: never,
    memberId: NOBODY,
    organizationId,
    email: '',
    name: 'Operator',
    role: 'owner',
    totpEnabled: false,
    projectId: chosen?.project.id ?? null,
    keyId: null,
  };
}

/** Headers that name the chosen project and environment, for commands that did not choose. */
const answered = ({ project, environment }: Chosen) => ({
  'letterhaus-project': project.id,
  'letterhaus-environment': environment,
});

function callerIn({ project, environment }: Chosen): Caller {
  return {
    projectId: project.id,
    environment,
    organizationId: project.organizationId,
    keyId: NOBODY,
    permission: 'full_access',
    domain: null,
    expiresAt: null,
  };
}

/** Longer than any request takes. */
const KEY_LASTS_MS = 5 * 60_000;

/**
 * Creates a key for this one request, because accepting checks a key, and removes it afterwards. When the process dies
 * first, the key expires soon, and the next such request removes it.
 */
async function keyForOne(
  db: Queryable,
  scope: Scope,
  { world, reply }: { world: Pick<HttpServices['world'], 'now'>; reply: FastifyReply },
): Promise<string> {
  const { key } = await createKey(db, scope, {
    name: 'letterhaus send',
    permission: 'sending_access',
    domain: null,
    expiresAt: new Date(world.now() + KEY_LASTS_MS),
  });
  reply.raw.once('close', () => {
    removeShortLivedKey(db, scope, key).catch(() => {}); // it expires
  });
  return key.id;
}
