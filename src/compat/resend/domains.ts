/** `/domains` of the root mount. A domain has Resend's fields and `advice`. */
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import { domainToWire } from '../../domains/wire.ts';
import { DOMAIN_TLS, type StoredDomain } from '../../domains/domain-store.ts';
import { resendDomain, resendRecords } from './wire/webhook-payload.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { countTowardsLimit } from '../../accounts/limits/http-limits.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { anyCase, HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

export function registerResendDomains(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerReadChangeAndRemove(app, services);
  registerVerify(app, services);
}

function registerCreateAndList(app: App, services: HttpServices): void {
  const { domains } = services;
  app.post('/domains', {
    config: { limit: 'domains', withinDomain: true, auditedAs: 'createDomain' },
    schema: { ...HIDDEN, body: creation },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { name, ...settings } = request.body;
      const change = changeOf(settings);
      const refusal = refuseSettings(settings) ?? domains.refuseChange(caller, change);
      if (refusal !== null) return refuse(reply, withResendFieldNames(refusal));
      if (!(await countTowardsLimit(services, request, reply, 'domains'))) return reply;
      const added = await domains.create(caller, name, { tls: change.tls });
      if (isRefusal(added)) return refuse(reply, added);
      const { opens, clicks } = change.tracking;
      const domain = opens || clicks ? await domains.change(caller, added.id, change) : added;
      return isRefusal(domain)
        ? refuse(reply, domain)
        : reply.code(201).send(domainToResend(domain));
    },
  });

  app.get('/domains', {
    config: { withinDomain: true },
    schema: { ...HIDDEN, querystring: pageQuery },
    handler: async (request) => {
      const page = readPage(request.query);
      return pageResponse(await domains.list(callerOf(request), page), listedDomainToResend);
    },
  });
}

function registerReadChangeAndRemove(app: App, { domains }: HttpServices): void {
  app.get('/domains/:id', {
    config: { withinDomain: true },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const found = await domains.get(callerOf(request), request.params.id);
      return isRefusal(found) ? refuse(reply, found) : domainToResend(found);
    },
  });

  app.patch('/domains/:id', {
    config: { withinDomain: true, auditedAs: 'updateDomain' },
    schema: { ...HIDDEN, params: idInPath, body: z.object(settingFields) },
    handler: async (request, reply) => {
      const { id } = request.params;
      const refusal = refuseSettings(request.body);
      if (refusal !== null) return refuse(reply, refusal);
      const changed = await domains.change(callerOf(request), id, changeOf(request.body));
      if (isRefusal(changed)) return refuse(reply, withResendFieldNames(changed));
      return { object: 'domain', id: changed.id };
    },
  });

  app.delete('/domains/:id', {
    config: { withinDomain: true, auditedAs: 'deleteDomain' },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const removed = await domains.delete(callerOf(request), request.params.id);
      if (isRefusal(removed)) return refuse(reply, removed);
      return { object: 'domain', id: removed.id, deleted: true };
    },
  });
}

function registerVerify(app: App, services: HttpServices): void {
  const { domains } = services;
  app.post('/domains/:id/verify', {
    config: { limit: 'verification', withinDomain: true },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await domains.get(caller, request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'verification'))) return reply;
      const verified = await domains.verify(caller, found.id);
      // Resend returns only the id and checks later. Here the result is known at once.
      return isRefusal(verified) ? refuse(reply, verified) : domainToResend(verified);
    },
  });
}

const capability = anyCase(['enabled', 'disabled']).nullish();

const settingFields = {
  tls: anyCase(DOMAIN_TLS).nullish(),
  open_tracking: z.boolean().nullish(),
  click_tracking: z.boolean().nullish(),
  tracking_subdomain: z.string().nullish(),
  capabilities: z.object({ sending: capability, receiving: capability }).nullish(),
};

/** Regions of Resend: accepted without effect. */
const REGIONS = ['us-east-1', 'eu-west-1', 'sa-east-1', 'ap-northeast-1'] as const;

const creation = z.object({
  name: z.string().min(1).max(253),
  region: anyCase(REGIONS).nullish(),
  custom_return_path: z.string().nullish(),
  ...settingFields,
});

type Settings = Omit<z.output<typeof creation>, 'name'>;

function changeOf({ tls, open_tracking: opens, click_tracking: clicks }: Partial<Settings>) {
  const tracking = { opens: opens ?? undefined, clicks: clicks ?? undefined };
  return { tls: tls ?? undefined, tracking };
}

/** Names the fields as Resend does. The core has both kinds of tracking in one field. */
function withResendFieldNames(refusal: Refusal): Refusal {
  if (refusal.details === undefined) return refusal;
  return refuseFields(
    refusal.details.map(({ field, message }) => ({
      field: field.replace(/^tracking\.(open|click)s$/, '$1_tracking'),
      message,
    })),
  );
}

function refuseSettings(settings: Partial<Settings>): Refusal | null {
  const { capabilities, custom_return_path: returnPath, tracking_subdomain: links } = settings;
  if (returnPath && returnPath !== 'send') {
    const message = 'is always send here; leave it out';
    return refuseFields([{ field: 'custom_return_path', message }]);
  }
  if (links) {
    const message = 'links lead to LETTERHAUS_TRACKING_URL here, for all domains; leave it out';
    return refuseFields([{ field: 'tracking_subdomain', message }]);
  }
  if (capabilities?.receiving === 'enabled') {
    const message = 'this service keeps no received mail; leave it out';
    return refuseFields([{ field: 'capabilities.receiving', message }]);
  }
  if (capabilities?.sending === 'disabled') {
    const message = 'a domain is for sending; delete it instead';
    return refuseFields([{ field: 'capabilities.sending', message }]);
  }
  return null;
}

function listedDomainToResend(domain: StoredDomain) {
  return { ...resendDomain(domainToWire(domain)), tls: domain.tls };
}

function domainToResend(domain: StoredDomain) {
  const { name, records, advice } = domainToWire(domain);
  const listedFields = listedDomainToResend(domain);
  return {
    object: 'domain' as const,
    ...listedFields,
    records: resendRecords(name, records),
    advice,
  };
}
