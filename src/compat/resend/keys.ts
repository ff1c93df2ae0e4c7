/** `/api-keys` of the root mount. As in `/v1`, no key can create, see or change one with more access. */
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import { type Caller, PERMISSIONS } from '../../core/scope.ts';
import { isId } from '../../database/ids.ts';
import {
  type ApiKey,
  createKey,
  listKeys,
  revokeKey,
  updateKey,
} from '../../accounts/keys/key-store.ts';
import { allowListsToWire } from '../../accounts/keys/allow-lists.ts';
import { checkKeysMax } from '../../accounts/limits/maximum-store.ts';
import { callerOf } from '../../http/access.ts';
import { notFound, refuse } from '../../http/errors.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import { parseNewKey } from '../../accounts/keys/routes.ts';
import { label } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { anyCase, HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

const NOUN = 'API key';

export function registerResendKeys(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerChangeAndRemove(app, services);
}

function registerCreateAndList(app: App, services: HttpServices): void {
  const { db } = services;
  app.post('/api-keys', {
    config: { withinDomain: true, auditedAs: 'createApiKey' },
    schema: { ...HIDDEN, body: creation },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { name, permission, domain_id: domainId } = request.body;
      const domain = await findDomainName(services, caller, domainId ?? null);
      if (isRefusal(domain)) return refuse(reply, domain);
      const { expiresAt } = caller;
      const requested = {
        name,
        permission: permission ?? 'full_access',
        domain: domain.name ?? caller.domain,
        expiresAt,
        lists: allowListsToWire(caller),
      };
      const key = parseNewKey(caller, requested);
      if (isRefusal(key)) return refuse(reply, key);
      await checkKeysMax(db, caller);
      const created = await createKey(db, caller, key);
      return reply.code(201).send({ id: created.key.id, token: created.text });
    },
  });

  app.get('/api-keys', {
    config: { withinDomain: true },
    schema: { ...HIDDEN, querystring: pageQuery },
    handler: async (request) => {
      const page = readPage(request.query);
      const caller = callerOf(request);
      return pageResponse(await listKeys(db, caller, page, caller), keyToResend);
    },
  });
}

function registerChangeAndRemove(app: App, { db, accounts }: HttpServices): void {
  app.patch('/api-keys/:id', {
    config: { withinDomain: true, auditedAs: 'updateApiKey' },
    schema: { ...HIDDEN, params: idInPath, body: z.object({ name: label(100) }) },
    handler: async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const { name } = request.body;
      const changed = isId(id) ? await updateKey(db, caller, { id, name }, caller) : null;
      return changed === null ? notFound(reply, NOUN) : { object: 'api_key', id };
    },
  });

  app.delete('/api-keys/:id', {
    config: { withinDomain: true, auditedAs: 'revokeApiKey' },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const isRevoked = isId(id) && (await revokeKey(db, caller, id, caller));
      if (!isRevoked) return notFound(reply, NOUN);
      accounts.keys.evict(id);
      return { object: 'api_key', id, deleted: true };
    },
  });
}

const creation = z.object({
  name: label(100),
  permission: anyCase(PERMISSIONS).nullish(),
  domain_id: z.string().nullish(),
});

/** Returns the name of the domain with this id, or the refusal of an unknown id. `name` is null without an id. */
async function findDomainName(
  { domains }: HttpServices,
  caller: Caller,
  id: string | null,
): Promise<{ name: string | null } | Refusal> {
  if (id === null) return { name: null };
  const found = await domains.get(caller, id);
  if (!isRefusal(found)) return { name: found.name };
  return refuseFields([{ field: 'domain_id', message: 'there is no domain with this id' }]);
}

function keyToResend({ id, name, createdAt, lastUsedAt }: ApiKey) {
  return {
    id,
    name,
    created_at: createdAt.toISOString(),
    last_used_at: lastUsedAt?.toISOString() ?? null,
  };
}
