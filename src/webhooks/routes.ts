/**
 * Routes of webhooks: management, tests and replays; deliveries/routes.ts has the log. Only the request that creates a
 * secret returns it.
 */
import { isRefusal } from '../core/refusals.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { countTowardsLimit } from '../accounts/limits/http-limits.ts';
import { pageResponse, readPage } from '../http/list-pages.ts';
import {
  expectedBy,
  failures,
  idParams,
  pageQuery,
  preconditionHeaders,
  tagged,
} from '../http/schemas.ts';
import {
  deliveryParams,
  replayParams,
  webhook,
  webhookChange,
  webhookCreation,
  webhookDeleted,
  webhookDeliveryDetail,
  webhookList,
  webhookReplay,
  webhookReplayRequest,
  webhookWithSecret,
} from './schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import {
  deliveryDetailToWire,
  replayToWire,
  webhookToWire,
  webhookWithSecretToWire,
} from './wire.ts';
import { registerDeliveryRoutes } from './deliveries/routes.ts';
import { webhookTestRequest } from './deliveries/schemas.ts';
import type { DeliveryIds } from './replays.ts';

const TAGS = ['Webhooks'];
const params = idParams('webhook');
const ENABLES =
  'A webhook that the service disabled is enabled again. For a webhook that a request disabled, the call ' +
  'returns 409.';

export function registerWebhookRoutes(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerSingleWebhook(app, services);
  registerSecretAndTest(app, services);
  registerDeliveryRoutes(app, services);
  registerReplays(app, services);
}

function registerCreateAndList(app: App, { webhooks }: HttpServices): void {
  app.post('/v1/webhooks', {
    schema: {
      summary: 'Register a webhook',
      description:
        'Registers a webhook. The response includes the signing secret, which is returned only here.',
      operationId: 'createWebhook',
      tags: TAGS,
      body: webhookCreation,
      response: { 201: webhookWithSecret, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { url, events = null } = request.body;
      const created = await webhooks.create(callerOf(request), { url, events });
      if (isRefusal(created)) return refuse(reply, created);
      return reply.code(201).send(webhookWithSecretToWire(created));
    },
  });

  app.get('/v1/webhooks', {
    schema: {
      summary: 'List webhooks',
      description: 'Lists the webhooks of this project and environment, newest first.',
      operationId: 'listWebhooks',
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: webhookList, ...failures(422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      return pageResponse(await webhooks.list(callerOf(request), page), webhookToWire);
    },
  });
}

function registerSingleWebhook(app: App, { webhooks }: HttpServices): void {
  app.get('/v1/webhooks/:id', {
    schema: {
      summary: 'Get a webhook',
      description:
        'Returns a webhook. The signing secret is not included. It is returned only at its creation and ' +
        'rotation.',
      operationId: 'getWebhook',
      tags: TAGS,
      params,
      response: { 200: webhook, ...failures(404) },
    },
    handler: async (request, reply) => {
      const found = await webhooks.get(callerOf(request), request.params.id);
      return isRefusal(found) ? refuse(reply, found) : tagged(reply, webhookToWire(found));
    },
  });

  app.patch('/v1/webhooks/:id', {
    schema: {
      summary: 'Change a webhook',
      description:
        'Changes only the given fields. A new URL and enabling the webhook reset its failures.',
      operationId: 'updateWebhook',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      body: webhookChange,
      response: { 200: webhook, ...failures(400, 404, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { body } = request;
      const changed = await webhooks.update(callerOf(request), id, body, expectedBy(request));
      return isRefusal(changed) ? refuse(reply, changed) : tagged(reply, webhookToWire(changed));
    },
  });

  app.delete('/v1/webhooks/:id', {
    schema: {
      summary: 'Delete a webhook',
      description: 'Deletes a webhook with its deliveries. Pending deliveries are not sent.',
      operationId: 'deleteWebhook',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      response: { 200: webhookDeleted, ...failures(404, 412) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const deleted = await webhooks.delete(callerOf(request), id, expectedBy(request));
      if (isRefusal(deleted)) return refuse(reply, deleted);
      return { object: 'webhook' as const, id: deleted.id, deleted: true as const };
    },
  });
}

function registerSecretAndTest(app: App, services: HttpServices): void {
  const { webhooks } = services;
  app.post('/v1/webhooks/:id/rotate-secret', {
    schema: {
      summary: 'Rotate the signing secret',
      description:
        'Creates a signing secret, which is returned only here. For 24 hours, events are also signed with ' +
        'the old secret. You can rotate twice within 24 hours. Events then have three signatures.',
      operationId: 'rotateWebhookSecret',
      tags: TAGS,
      params,
      response: { 200: webhookWithSecret, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const rotated = await webhooks.rotateSecret(callerOf(request), request.params.id);
      return isRefusal(rotated) ? refuse(reply, rotated) : webhookWithSecretToWire(rotated);
    },
  });

  app.post('/v1/webhooks/:id/test', {
    config: { limit: 'webhooks' },
    schema: {
      summary: 'Test a webhook',
      description:
        'Sends a `webhook.test` event, or an example of another type, at once, with one attempt, and returns ' +
        'the result. Ids in an example belong to no object.',
      operationId: 'testWebhook',
      tags: TAGS,
      params,
      body: webhookTestRequest,
      response: { 200: webhookDeliveryDetail, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const found = await webhooks.get(callerOf(request), id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'webhooks'))) return reply;
      const { type = null } = request.body;
      const tested = await webhooks.test(callerOf(request), id, type);
      return isRefusal(tested) ? refuse(reply, tested) : deliveryDetailToWire(tested);
    },
  });
}

function registerReplays(app: App, services: HttpServices): void {
  const { webhooks } = services;
  app.post('/v1/webhooks/:id/deliveries/:delivery_id/replay', {
    config: { limit: 'webhooks' },
    schema: {
      summary: 'Replay a delivery',
      description: `Sends a delivery again now, with the same id and regardless of its status. Its retries start again. ${ENABLES}`,
      operationId: 'replayWebhookDelivery',
      tags: TAGS,
      params: deliveryParams,
      response: { 202: webhookDeliveryDetail, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const ids = deliveryIdsOf(request.params);
      const found = await webhooks.findDelivery(callerOf(request), ids);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'webhooks'))) return reply;
      const replayed = await webhooks.replay(callerOf(request), ids);
      if (isRefusal(replayed)) return refuse(reply, replayed);
      return reply.code(202).send(deliveryDetailToWire(replayed));
    },
  });

  app.post('/v1/webhooks/:id/replay', {
    config: { limit: 'webhooks' },
    schema: {
      summary: 'Replay the deliveries of a period',
      description:
        'Replays the deliveries of a period, or those with a status, a type of event or a response, oldest first. ' +
        'The period may have up to 50,000 deliveries. A webhook has one replay at a time. Deliveries ' +
        'are queued in steps: at most 500 are due at a time, so that new events do not wait for all of ' +
        'them. Only stored deliveries of this webhook are included, not events that occurred while it ' +
        `was disabled. ${ENABLES}`,
      operationId: 'replayWebhook',
      tags: TAGS,
      params,
      body: webhookReplayRequest,
      response: { 202: webhookReplay, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { since, until, status = null, type = null, code = null } = request.body;
      const { id } = request.params;
      const found = await webhooks.get(callerOf(request), id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'webhooks'))) return reply;
      const range = { since: new Date(since), until: new Date(until), status, type, code };
      const replay = await webhooks.replayRange(callerOf(request), id, range);
      if (isRefusal(replay)) return refuse(reply, replay);
      return reply.code(202).send(replayToWire(replay));
    },
  });

  app.get('/v1/webhooks/:id/replays/:replay_id', {
    schema: {
      summary: 'Get a replay',
      description: 'Returns the progress of a replay. A replay is kept for 30 days after its end.',
      operationId: 'getWebhookReplay',
      tags: TAGS,
      params: replayParams,
      response: { 200: webhookReplay, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { id: endpointId, replay_id: id } = request.params;
      const found = await webhooks.findReplay(callerOf(request), { endpointId, id });
      return isRefusal(found) ? refuse(reply, found) : replayToWire(found);
    },
  });
}

function deliveryIdsOf({ id, delivery_id }: { id: string; delivery_id: string }): DeliveryIds {
  return { endpointId: id, id: delivery_id };
}
