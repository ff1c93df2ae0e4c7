/**
 * `/webhooks` of the root mount. Endpoints registered here get their events in Resend's format
 * (wire/webhook-payload.ts), signed and retried like all others.
 *
 * Clients decode the secret with the endpoint, so the secret of such an endpoint can be read again. The secret of an
 * endpoint registered at `/v1` cannot.
 */
import { z } from 'zod';
import type { EventType } from '../../core/events.ts';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import type { WebhookDelivery } from '../../webhooks/delivery-store.ts';
import type { WebhookEndpoint } from '../../webhooks/endpoint-store.ts';
import {
  parseSubscription,
  RESEND_FORMATS,
  resendTypeOf,
  resendTypesOf,
} from './wire/webhook-payload.ts';
import { formatPayload } from '../../webhooks/sending/signed-request.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { countTowardsLimit } from '../../accounts/limits/http-limits.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { anyCase, HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

export function registerResendWebhooks(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerReadChangeAndRemove(app, services);
  registerSecretRotation(app, services);
  registerListEvents(app, services);
  registerGetEvent(app, services);
  registerListAttempts(app, services);
  registerReplay(app, services);
}

function registerCreateAndList(app: App, { webhooks }: HttpServices): void {
  app.post('/webhooks', {
    config: { auditedAs: 'createWebhook' },
    schema: { ...HIDDEN, body: z.object({ endpoint: z.string(), events: z.array(z.string()) }) },
    handler: async (request, reply) => {
      const { endpoint: url, events: names } = request.body;
      const events = readTypes(names);
      if (isRefusal(events)) return refuse(reply, events);
      const newEndpoint = { url, events, format: 'resend' } as const;
      const created = await webhooks.create(callerOf(request), newEndpoint);
      if (isRefusal(created)) return refuse(reply, withResendFieldNames(created));
      const { id } = created.endpoint;
      return reply.code(201).send({ object: 'webhook', id, signing_secret: created.signingSecret });
    },
  });

  app.get('/webhooks', {
    schema: { ...HIDDEN, querystring: pageQuery },
    handler: async (request) => {
      const page = readPage(request.query);
      return pageResponse(await webhooks.list(callerOf(request), page), webhookToResend);
    },
  });
}

function registerReadChangeAndRemove(app: App, { webhooks }: HttpServices): void {
  app.get('/webhooks/:id', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await webhooks.get(caller, request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      const isResendFormat = found.format === 'resend';
      // Clients require a string. The secret of a /v1 endpoint was shown once.
      const secret = isResendFormat ? await webhooks.secretOf(caller, found.id) : '';
      return { object: 'webhook', ...webhookToResend(found), signing_secret: secret };
    },
  });

  app.patch('/webhooks/:id', {
    config: { auditedAs: 'updateWebhook' },
    schema: { ...HIDDEN, params: idInPath, body: change },
    handler: async (request, reply) => {
      const { endpoint: url, events: names, status } = request.body;
      const events = names && readTypes(names);
      if (events && isRefusal(events)) return refuse(reply, events);
      const { id } = request.params;
      const changed = await webhooks.update(callerOf(request), id, {
        url: url ?? undefined,
        status: status ?? undefined,
        ...(events && { events }),
      });
      if (isRefusal(changed)) return refuse(reply, withResendFieldNames(changed));
      return { object: 'webhook', id };
    },
  });

  app.delete('/webhooks/:id', {
    config: { auditedAs: 'deleteWebhook' },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const deleted = await webhooks.delete(callerOf(request), request.params.id);
      if (isRefusal(deleted)) return refuse(reply, deleted);
      return { object: 'webhook', id: deleted.id, deleted: true };
    },
  });
}

function registerSecretRotation(app: App, { webhooks }: HttpServices): void {
  app.post('/webhooks/:id/signing-secret/rotate', {
    config: { auditedAs: 'rotateWebhookSecret' },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const { id } = request.params;
      const rotated = await webhooks.rotateSecret(callerOf(request), id);
      if (isRefusal(rotated)) return refuse(reply, rotated);
      return { object: 'webhook', id, signing_secret: rotated.signingSecret };
    },
  });
}

function registerListEvents(app: App, { webhooks }: HttpServices): void {
  app.get('/webhooks/:id/events', {
    schema: { ...HIDDEN, params: idInPath, querystring: pageQuery },
    handler: async (request, reply) => {
      const page = readPage(request.query);
      const { id } = request.params;
      const found = await webhooks.listDeliveries(callerOf(request), id, { page });
      return isRefusal(found) ? refuse(reply, found) : pageResponse(found, eventToResend);
    },
  });
}

function registerGetEvent(app: App, { webhooks }: HttpServices): void {
  app.get('/webhooks/:id/events/:event_id', {
    schema: { ...HIDDEN, params: eventInPath },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { id: endpointId, event_id: id } = request.params;
      const endpoint = await webhooks.get(caller, endpointId);
      if (isRefusal(endpoint)) return refuse(reply, endpoint);
      const found = await webhooks.findDelivery(caller, { endpointId, id });
      if (isRefusal(found)) return refuse(reply, found);
      const { event } = found;
      return {
        object: 'webhook_event',
        ...eventToResend(found),
        next_attempt_at: found.nextAttemptAt?.toISOString() ?? null,
        payload:
          event && (JSON.parse(formatPayload(event, endpoint.format, RESEND_FORMATS)) as unknown),
      };
    },
  });
}

function registerListAttempts(app: App, { webhooks }: HttpServices): void {
  app.get('/webhooks/:id/events/:event_id/attempts', {
    schema: { ...HIDDEN, params: eventInPath },
    handler: async (request, reply) => {
      const { id: endpointId, event_id: id } = request.params;
      const found = await webhooks.findDelivery(callerOf(request), { endpointId, id });
      if (isRefusal(found)) return refuse(reply, found);
      const attempts = found.log.map(({ at, status, answer, error }, index) => ({
        id: `${id}.${index + 1}`,
        // Clients decode a number. 0 means that there was no response.
        http_status_code: status ?? 0,
        response: answer ?? error ?? '',
        sent_at: at,
      }));
      return { object: 'list', has_more: false, data: attempts.toReversed() };
    },
  });
}

function registerReplay(app: App, services: HttpServices): void {
  const { webhooks } = services;
  app.post('/webhooks/:id/events/:event_id/replay', {
    config: { limit: 'webhooks' },
    schema: { ...HIDDEN, params: eventInPath },
    handler: async (request, reply) => {
      const { id: endpointId, event_id: id } = request.params;
      const delivery = { endpointId, id };
      const found = await webhooks.findDelivery(callerOf(request), delivery);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'webhooks'))) return reply;
      const replayed = await webhooks.replay(callerOf(request), delivery);
      return isRefusal(replayed) ? refuse(reply, replayed) : { object: 'webhook_event', id };
    },
  });
}

const eventInPath = idInPath.extend({ event_id: z.string() });

const change = z.object({
  endpoint: z.string().nullish(),
  events: z.array(z.string()).nullish(),
  status: anyCase(['enabled', 'disabled']).nullish(),
});

function readTypes(names: readonly string[]): EventType[] | Refusal {
  const types = parseSubscription(names);
  if (typeof types === 'string') {
    const message = `${JSON.stringify(types.slice(0, 64))} is not a type of event`;
    return refuseFields([{ field: 'events', message }]);
  }
  if (types.length > 0) return types;
  const message = 'needs at least one type of event that occurs in this service';
  return refuseFields([{ field: 'events', message }]);
}

/** Names the field as Resend does. The core calls it `url`. */
function withResendFieldNames(refusal: Refusal): Refusal {
  if (refusal.details === undefined) return refusal;
  return refuseFields(
    refusal.details.map(({ field, message }) => ({
      field: field === 'url' ? 'endpoint' : field,
      message,
    })),
  );
}

function webhookToResend({ id, url, events, status, createdAt }: WebhookEndpoint) {
  return {
    id,
    endpoint: url,
    events: resendTypesOf(events),
    status,
    created_at: createdAt.toISOString(),
  };
}

function eventToResend({ id, type, createdAt, status, attempts }: WebhookDelivery) {
  const openStatus = attempts === 0 ? 'pending' : 'attempting';
  return {
    id,
    type: resendTypeOf(type),
    created_at: createdAt.toISOString(),
    status: { delivered: 'success', failed: 'failed', pending: openStatus }[status],
  };
}
