/**
 * Routes of API keys: read the caller's own key, and create, change and revoke keys of the caller's project and
 * environment. A key cannot create a key for the other environment or one with more access than itself. For it, a
 * key with more access is a 404.
 */
import { z } from 'zod';
import { entityTagOf, type IsExpected } from '../../core/entity-tag.ts';
import {
  CHANGED_SINCE,
  isRefusal,
  noSuch,
  type Refusal,
  refuseFields,
} from '../../core/refusals.ts';
import { type Caller, isBroader, PERMISSIONS, type Scope } from '../../core/scope.ts';
import { callerOf } from '../../http/access.ts';
import { notFound, refuse } from '../../http/errors.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import {
  deleted,
  doc,
  entityTag,
  environment,
  expectedBy,
  failures,
  idParams,
  idSchema,
  label,
  listOf,
  pageQuery,
  preconditionHeaders,
  shown,
  tagged,
  time,
} from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { parseDomain } from '../../mail/address.ts';
import { type AllowListsInput, allowListsToWire, parseAllowLists } from './allow-lists.ts';
import { allowListFields, shownAllowLists } from './schemas.ts';
import { findKeyWarnings } from './key-warnings.ts';
import type { Queryable } from '../../database/database.ts';
import { isId } from '../../database/ids.ts';
import {
  type ApiKey,
  createKey,
  findKey,
  type KeyChange,
  listKeys,
  lockKey,
  type NewKey,
  revokeKey,
  rotateKey,
  updateKey,
} from './key-store.ts';
import { checkKeysMax } from '../limits/maximum-store.ts';
import { findProject } from '../projects/project-store.ts';
import { DAY_S } from '../../lib/units.ts';

const TAGS = ['API keys'];
const NOUN = 'API key';
const NO_KEY = noSuch(NOUN);

export function registerKeyRoutes(app: App, services: HttpServices): void {
  registerCurrentKey(app, services);
  registerCreate(app, services);
  registerList(app, services);
  registerChange(app, services);
  registerRevoke(app, services);
  registerRotate(app, services);
}

function registerCurrentKey(app: App, { db }: HttpServices): void {
  app.get('/v1/api-keys/current', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Get the calling key',
      description:
        'Returns the project, environment and permissions of the key that sends this request.',
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
      // The key was revoked after the access check.
      if (!key || !project) return notFound(reply, NOUN);
      return {
        ...(await keyWithWarnings(db, caller, key)),
        project: { id: project.id, name: project.name },
        organization_id: project.organizationId,
      };
    },
  });
}

function registerCreate(app: App, { db }: HttpServices): void {
  app.post('/v1/api-keys', {
    config: { withinDomain: true },
    schema: {
      summary: 'Create an API key',
      description:
        'Creates a key for the project and environment of the calling key, never with more access. An omitted ' +
        'domain, expiry or list is taken from the calling key. The key is returned only here.',
      operationId: 'createApiKey',
      tags: TAGS,
      body: keyCreation,
      response: { 201: newApiKey, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { name, permission, domain, expires_at } = request.body;
      const caller = callerOf(request);
      const newKey = parseNewKey(caller, {
        name,
        permission,
        domain: domain ?? caller.domain,
        expiresAt: expires_at ?? caller.expiresAt,
        lists: { ...allowListsToWire(caller), ...givenListsOf(request.body) },
      });
      if (isRefusal(newKey)) return refuse(reply, newKey);
      await checkKeysMax(db, caller);
      const { key, text } = await createKey(db, caller, newKey);
      return reply.code(201).send({ ...(await keyWithWarnings(db, caller, key)), key: text });
    },
  });
}

function registerList(app: App, { db }: HttpServices): void {
  app.get('/v1/api-keys', {
    config: { withinDomain: true },
    schema: {
      summary: 'List API keys',
      description:
        'Lists the keys of this project and environment, newest first. Revoked keys, and keys with more ' +
        'access than the calling key, are omitted.',
      operationId: 'listApiKeys',
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: apiKeyList, ...failures(422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      const caller = callerOf(request);
      const keys = await listKeys(db, caller, page, caller);
      const warnings = await findKeyWarnings(db, caller, keys.rows);
      return pageResponse(keys, (key) => keyToWire(key, warnings));
    },
  });
}

function registerChange(app: App, { db, accounts }: HttpServices): void {
  app.patch('/v1/api-keys/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Change an API key',
      description: 'Changes only the given fields. No key gets more access than the calling key.',
      operationId: 'updateApiKey',
      tags: TAGS,
      params: idParams(NOUN),
      headers: preconditionHeaders,
      body: keyChange,
      response: { 200: apiKey, ...failures(400, 404, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { body } = request;
      const caller = callerOf(request);
      const changed = await db.transaction(async (tx) => {
        const current = await lockExpected(tx, caller, { id, isExpected: expectedBy(request) });
        if (isRefusal(current)) return current;
        const changedKey = parseNewKey(caller, withChange(current, body));
        if (isRefusal(changedKey)) return changedKey;
        const change = { id, ...givenFieldsOf(body, changedKey) };
        return (await updateKey(tx, caller, change, caller)) ?? NO_KEY;
      });
      if (isRefusal(changed)) return refuse(reply, changed);
      accounts.keys.evict(id);
      return tagged(reply, await keyWithWarnings(db, caller, changed));
    },
  });
}

function registerRevoke(app: App, { db, accounts }: HttpServices): void {
  app.delete('/v1/api-keys/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Revoke an API key',
      description:
        'Revokes the key permanently. It takes effect at once, and on other nodes within a second.',
      operationId: 'revokeApiKey',
      tags: TAGS,
      params: idParams(NOUN),
      headers: preconditionHeaders,
      response: { 200: apiKeyDeleted, ...failures(404, 412) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const refusal = await db.transaction(async (tx) => {
        const current = await lockExpected(tx, caller, { id, isExpected: expectedBy(request) });
        if (isRefusal(current)) return current;
        return (await revokeKey(tx, caller, id, caller)) ? null : NO_KEY;
      });
      if (refusal !== null) return refuse(reply, refusal);
      accounts.keys.evict(id);
      return { object: 'api_key' as const, id, deleted: true as const };
    },
  });
}

function registerRotate(app: App, { db, accounts }: HttpServices): void {
  app.post('/v1/api-keys/:id/rotate', {
    config: { withinDomain: true },
    schema: {
      summary: 'Rotate an API key',
      description:
        'Creates a key with the same name and restrictions, which is returned only here. The old key stays valid ' +
        'for `expires_in` seconds, at most until its own expiry. A repeated request creates one more key. ' +
        'Revoke the key that you did not receive.',
      operationId: 'rotateApiKey',
      tags: TAGS,
      params: idParams(NOUN),
      body: keyRotation,
      response: { 201: rotatedApiKey, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const current = isId(id) ? await findKey(db, caller, id, caller) : null;
      if (!current) return notFound(reply, NOUN);
      await checkKeysMax(db, caller);
      const rotation = { id, overlapS: request.body.expires_in };
      const rotated = await rotateKey(db, caller, rotation, caller);
      if (!rotated) {
        const message = 'This key has expired; make a new one.';
        return refuse(reply, { refused: 'conflict', message });
      }
      accounts.keys.evict(id);
      const { key, text, previousExpiresAt } = rotated;
      const replaces = { id, expires_at: previousExpiresAt.toISOString() };
      return reply
        .code(201)
        .send({ ...(await keyWithWarnings(db, caller, key)), key: text, replaces });
    },
  });
}

/**
 * Returns the restrictions of a key as stored, or a refusal when they are invalid or exceed the rights of the caller.
 */
export function parseNewKey(caller: Caller, requested: RequestedKey): NewKey | Refusal {
  const { name, permission } = requested;
  const domain = requested.domain === null ? null : parseDomain(requested.domain);
  if (domain === null && requested.domain !== null) {
    return refuseFields([{ field: 'domain', message: 'is not a domain name, like acme.com' }]);
  }
  const expiresAt = requested.expiresAt ? new Date(requested.expiresAt) : null;
  const lists = parseAllowLists(requested.lists, domain);
  if (isRefusal(lists)) return lists;
  const key = { name, permission, domain, expiresAt, ...lists };
  return isBroader(key, caller) ? refuseBroaderKey(caller) : key;
}

async function lockExpected(
  tx: Queryable,
  caller: Caller,
  { id, isExpected }: { id: string; isExpected: IsExpected },
): Promise<ApiKey | Refusal> {
  const current = isId(id) ? await lockKey(tx, caller, id, caller) : null;
  if (current === null) return NO_KEY;
  return isExpected(tagOfKey(current)) ? current : CHANGED_SINCE;
}

/** Changes with what a request can change, and not with each use of the key. */
function tagOfKey({ id, name, permission, domain, expiresAt, ...key }: ApiKey): string {
  return entityTagOf({ id, name, permission, domain, expiresAt, lists: allowListsToWire(key) });
}

function withChange(current: ApiKey, body: z.output<typeof keyChange>): RequestedKey {
  const { name, permission, domain, expires_at } = body;
  return {
    name: name ?? current.name,
    permission: permission ?? current.permission,
    domain: domain === undefined ? current.domain : domain,
    expiresAt: expires_at === undefined ? current.expiresAt : expires_at,
    lists: { ...allowListsToWire(current), ...givenListsOf(body) },
  };
}

/** Returns the fields that the request has, so that the others stay unchanged. */
function givenFieldsOf(body: z.output<typeof keyChange>, key: NewKey): KeyChange {
  const { name, permission, domain, expires_at } = body;
  const given = <Value>(input: unknown, value: Value) => (input === undefined ? undefined : value);
  return {
    allowedNetworks: given(body.allowed_networks, key.allowedNetworks),
    allowedSenders: given(body.allowed_senders, key.allowedSenders),
    allowedRecipients: given(body.allowed_recipients, key.allowedRecipients),
    name,
    permission,
    domain: domain === undefined ? undefined : key.domain,
    expiresAt: expires_at === undefined ? undefined : key.expiresAt,
  };
}

/** Returns the lists that the request has; null removes a list. */
function givenListsOf(body: AllowListsInput): AllowListsInput {
  const { allowed_networks, allowed_senders, allowed_recipients } = body;
  return {
    ...(allowed_networks !== undefined && { allowed_networks }),
    ...(allowed_senders !== undefined && { allowed_senders }),
    ...(allowed_recipients !== undefined && { allowed_recipients }),
  };
}

/** The caller has full access here, so the new key can exceed only its domain, its expiry or its lists. */
function refuseBroaderKey({ domain, expiresAt, ...caller }: Caller): Refusal {
  const lists = Object.entries(allowListsToWire(caller)).filter(([, list]) => list !== null);
  const restrictions = [
    domain === null ? '' : ` for ${domain}`,
    expiresAt === null ? '' : ` until ${expiresAt.toISOString()}`,
    lists.length === 0 ? '' : ` within its ${lists.map(([name]) => name).join(', ')}`,
  ].join('');
  return {
    refused: 'authorization_error',
    message: `The calling key is valid${restrictions} only and cannot make a key with more access; use a key without these restrictions.`,
  };
}

type RequestedKey = Pick<NewKey, 'name' | 'permission' | 'domain'> & {
  expiresAt: string | Date | null | undefined;
  lists: AllowListsInput;
};

async function keyWithWarnings(db: Queryable, scope: Scope, key: ApiKey) {
  return keyToWire(key, await findKeyWarnings(db, scope, [key]));
}

function keyToWire(key: ApiKey, warnings: ReadonlyMap<string, readonly string[]>) {
  return {
    object: 'api_key' as const,
    id: key.id,
    name: key.name,
    hint: key.hint,
    environment: key.environment,
    permission: key.permission,
    domain: key.domain,
    ...allowListsToWire(key),
    created_at: key.createdAt.toISOString(),
    expires_at: key.expiresAt?.toISOString() ?? null,
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
    warnings: [...(warnings.get(key.id) ?? [])],
    etag: tagOfKey(key),
  };
}

const name = doc(
  label(100),
  'Label of the key. Two keys may have the same label.',
  'Receipts in production',
);
const permission = doc(
  z.enum(PERMISSIONS),
  'Permission of the key. A key with `sending_access` may send emails, and read the emails that it ' +
    'sent.',
);
const domain = doc(
  z.string().max(253).nullable(),
  'The only domain that the key may use, or null for all domains.',
  'acme.com',
);
const expiresAt = doc(
  shown(z.iso.datetime({ offset: true }), '2027-01-31T00:00:00Z').nullable(),
  'Time of expiry, or null when the key does not expire.',
);

const keyCreation = z
  .strictObject({
    name,
    permission: permission.default('full_access'),
    domain: domain.optional(),
    expires_at: expiresAt.optional(),
    ...allowListFields,
  })
  .meta({ id: 'ApiKeyCreation' });

const keyChange = z
  .strictObject({
    name: name.optional(),
    permission: permission.optional(),
    domain: domain.optional(),
    expires_at: expiresAt.optional(),
    ...allowListFields,
  })
  .meta({ id: 'ApiKeyChange' });

const keyFields = {
  object: z.literal('api_key'),
  id: idSchema('The id of the key.'),
  name,
  hint: doc(z.string(), 'First characters of the key, to recognize it.', 'lh_live_3fK9'),
  environment,
  permission,
  domain,
  ...shownAllowLists,
  created_at: time('Time of creation.'),
  expires_at: time('Time of expiry, or null when the key does not expire.').nullable(),
  last_used_at: time(
    'Time of the last use, to the minute, or null before the first use.',
  ).nullable(),
  warnings: doc(
    z.array(shown(z.string(), 'acme.com is not a domain of this project and environment.')),
    'What prevents the key from sending, such as a domain that the project does not have.',
  ),
  etag: entityTag,
};

const apiKey = z.object(keyFields).meta({ id: 'ApiKey' });

const newApiKey = z
  .object({
    ...keyFields,
    key: doc(z.string(), 'The secret key. It is returned only here.', 'lh_live_3fK9…'),
  })
  .meta({ id: 'ApiKeyWithSecret' });

const keyRotation = z
  .strictObject({
    expires_in: doc(
      z
        .int()
        .min(0)
        .max(30 * DAY_S)
        .default(DAY_S),
      'Seconds for which the old key stays valid. 0 ends it at once.',
      DAY_S,
    ),
  })
  .meta({ id: 'ApiKeyRotation' });

const rotatedApiKey = z
  .object({
    ...newApiKey.shape,
    replaces: z.object({
      id: idSchema('The old key.'),
      expires_at: time('Expiry of the old key.'),
    }),
  })
  .meta({ id: 'RotatedApiKey' });

const currentApiKey = z
  .object({
    ...keyFields,
    project: z.object({
      id: idSchema('The project of the key.'),
      name: z.string().meta({ examples: ['Default'] }),
    }),
    organization_id: idSchema('The organization of the project.'),
  })
  .meta({ id: 'CurrentApiKey' });

const apiKeyList = listOf('ApiKeyList', apiKey);

const apiKeyDeleted = deleted('DeletedApiKey', 'api_key');
