/**
 * API keys: who the caller is, and making, changing and revoking keys of the caller's project and
 * environment. A key never makes a key for the other environment.
 */
import { refuseFields } from '../../core/field-problems.ts';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import { parseDomain } from '../../mail/domain-name.ts';
import { isId } from '../../store/ids.ts';
import {
  type ApiKey,
  createKey,
  findKey,
  listKeys,
  type NewKey,
  revokeKey,
  updateKey,
} from '../../store/keys.ts';
import { findProject } from '../../store/projects.ts';
import { callerOf } from '../authenticate.ts';
import { notFound, refuse } from '../errors.ts';
import { pageAnswer, pageFrom } from '../list.ts';
import { failures, idParams, pageQuery } from '../schemas/common.ts';
import {
  apiKey,
  apiKeyDeleted,
  apiKeyList,
  currentApiKey,
  keyChange,
  keyCreation,
  newApiKey,
} from '../schemas/keys.ts';
import type { App, HttpServices } from '../services.ts';

const TAGS = ['API keys'];
const WHAT = 'API key';

export function registerKeyRoutes(app: App, services: HttpServices): void {
  registerCurrent(app, services);
  registerCreateAndList(app, services);
  registerChangeAndRevoke(app, services);
}

function registerCurrent(app: App, { db }: HttpServices): void {
  app.get('/v1/api-keys/current', {
    config: { access: 'any_key' },
    schema: {
      summary: 'Who am I?',
      description: 'Project, environment and permissions of the key that asks.',
      operationId: 'getCurrentApiKey',
      tags: TAGS,
      response: { 200: currentApiKey, ...failures() },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const [key, project] = await Promise.all([
        findKey(db, caller, caller.keyId),
        findProject(db, caller.projectId),
      ]);
      // Revoked in this moment.
      if (!key || !project) return notFound(reply, WHAT);
      return {
        ...toWire(key),
        project: { id: project.id, name: project.name },
        organization_id: project.organizationId,
      };
    },
  });
}

function registerCreateAndList(app: App, { db }: HttpServices): void {
  app.post('/v1/api-keys', {
    schema: {
      summary: 'Make an API key',
      description: 'For the project and environment of the calling key. The text is shown once.',
      operationId: 'createApiKey',
      tags: TAGS,
      body: keyCreation,
      response: { 201: newApiKey, ...failures(400, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { name, permission, domain, expires_at } = request.body;
      const wanted = checked({ name, permission, domain: domain ?? null, expiresAt: expires_at });
      if (isRefusal(wanted)) return refuse(reply, wanted);
      const { key, text } = await createKey(db, callerOf(request), wanted);
      return reply.code(201).send({ ...toWire(key), key: text });
    },
  });

  app.get('/v1/api-keys', {
    schema: {
      summary: 'List API keys',
      description: 'Those of this project and environment that are not revoked, newest first.',
      operationId: 'listApiKeys',
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: apiKeyList, ...failures(422) },
    },
    handler: async (request, reply) => {
      const page = pageFrom(request.query);
      if (isRefusal(page)) return refuse(reply, page);
      return pageAnswer(await listKeys(db, callerOf(request), page), toWire);
    },
  });
}

function registerChangeAndRevoke(app: App, { db }: HttpServices): void {
  app.patch('/v1/api-keys/:id', {
    schema: {
      summary: 'Change an API key',
      operationId: 'updateApiKey',
      tags: TAGS,
      params: idParams(WHAT),
      body: keyChange,
      response: { 200: apiKey, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const present = isId(id) ? await findKey(db, caller, id) : null;
      if (!present) return notFound(reply, WHAT);
      const { name, permission, domain, expires_at } = request.body;
      const wanted = checked({
        name: name ?? present.name,
        permission: permission ?? present.permission,
        domain: domain === undefined ? present.domain : domain,
        expiresAt: expires_at === undefined ? present.expiresAt : expires_at,
      });
      if (isRefusal(wanted)) return refuse(reply, wanted);
      const changed = await updateKey(db, caller, { id, ...wanted });
      app.forgetKey(id);
      return changed ? toWire(changed) : notFound(reply, WHAT);
    },
  });

  app.delete('/v1/api-keys/:id', {
    schema: {
      summary: 'Revoke an API key',
      description: 'For good, and at once; on other machines within a second.',
      operationId: 'revokeApiKey',
      tags: TAGS,
      params: idParams(WHAT),
      response: { 200: apiKeyDeleted, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const revoked = isId(id) && (await revokeKey(db, callerOf(request), id));
      if (!revoked) return notFound(reply, WHAT);
      app.forgetKey(id);
      return { object: 'api_key' as const, id, deleted: true as const };
    },
  });
}

/** The parts of a request that need more than its shape. */
function checked(wanted: Wanted): NewKey | Refusal {
  const { name, permission, expiresAt } = wanted;
  const domain = wanted.domain === null ? null : parseDomain(wanted.domain);
  if (domain === null && wanted.domain !== null) {
    return refuseFields([{ field: 'domain', message: 'is not a domain name, like acme.com' }]);
  }
  return { name, permission, domain, expiresAt: expiresAt ? new Date(expiresAt) : null };
}

type Wanted = Omit<NewKey, 'expiresAt'> & { expiresAt: string | Date | null | undefined };

function toWire(key: ApiKey) {
  return {
    object: 'api_key' as const,
    id: key.id,
    name: key.name,
    hint: key.hint,
    environment: key.environment,
    permission: key.permission,
    domain: key.domain,
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt?.toISOString() ?? null,
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
  };
}
